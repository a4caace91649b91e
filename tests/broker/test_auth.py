"""Who calls, and whether they may."""

import httpx
import pytest

from queenmq.broker.app import ROUTES
from queenmq.broker.exposure import check_protection
from queenmq.config import Settings
from queenmq.errors import ConfigurationError
from tests.broker import issuer
from tests.broker.issuer import OTHER_SECRET, PRIVATE, SECRET, token
from tests.broker.shorthand import pop, push, refused
from tests.fixtures.servers import Served

# -- the start


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_the_server_does_not_serve_strangers_unless_it_asks_for_tokens_or_is_told_to(host):
    with pytest.raises(ConfigurationError, match=r"QUEEN_AUTH_SECRET.*QUEEN_ALLOW_UNPROTECTED"):
        check_protection(Settings(host=host))
    check_protection(Settings(host=host, auth_secret=SECRET))
    check_protection(Settings(host=host, allow_unprotected=True))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_on_loopback_nobody_is_asked(host):
    check_protection(Settings(host=host))


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"auth_secret": "short"}, "QUEEN_AUTH_SECRET: expected `str` of length >= 32$"),
        ({"auth_secret": SECRET, "auth_jwks_url": "https://issuer/keys"}, "are set: tokens are checked with one"),
        ({"auth_issuer": "somebody"}, "need one of auth_secret"),
        ({"auth_audience": "queen"}, "need one of auth_secret"),
        ({"auth_jwks_url": "file:///etc/passwd"}, "http or https address"),
        ({"auth_jwks_url": "https://user:password@issuer/keys"}, "http or https address without a user$"),
        ({"auth_jwks_url": "issuer"}, "http or https address"),
        ({"auth_roles_claim": ""}, "QUEEN_AUTH_ROLES_CLAIM"),
    ],
)
def test_settings_that_do_not_fit_stop_the_start(settings, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        Settings.load({}, **settings)


def test_the_secret_is_not_shown():
    assert SECRET not in repr(Settings(auth_secret=SECRET))


def test_a_server_process_refuses_to_serve_strangers(tmp_path):
    with pytest.raises(AssertionError, match="without authentication the server listens on loopback only"):
        Served(tmp_path / "server", "postgresql://nowhere/queen", {"host": "0.0.0.0"})


def test_only_what_tells_nothing_is_open_to_all():
    open_to_all = {route.pattern for route in ROUTES if route.role is None}
    assert open_to_all <= {"/", "/health", "/ready", "/openapi.json", "/docs"}


# -- a server that asks


@pytest.fixture(scope="module")
def server(module_database, tmp_path_factory):
    """It listens on all addresses, because it asks who calls."""
    settings = {"auth_secret": SECRET, "host": "0.0.0.0"}
    served = Served(tmp_path_factory.mktemp("auth") / "server", module_database, settings)
    yield served
    served.end()
    assert SECRET not in served.log
    assert token().split(".")[0] not in served.log


@pytest.fixture
async def http(server):
    async with server.client(base_url=server.url.replace("0.0.0.0", "127.0.0.1") + "/api/v1") as client:
        yield client


def bearer(*roles, **changes):
    return {"authorization": f"Bearer {token(roles=list(roles), **changes)}"}


@pytest.mark.parametrize("header", [None, "", "Bearer", "Basic YW5uOnNlY3JldA==", token(), b"\xff\xfe"])
async def test_without_a_token_the_answer_is_401(http, header):
    answer = await http.get("/pop/queue/q", headers={} if header is None else {"authorization": header})
    refused(answer, 401, "UNAUTHORIZED")
    assert answer.headers["www-authenticate"] == 'Bearer realm="queen"'


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("garbage", "is not a JWT"),
        (token(OTHER_SECRET), "not signed with the key"),
        (token(exp=1), "has expired"),
        ("a" * 9000, "longer than 8192 characters"),
    ],
)
async def test_with_a_token_that_is_not_valid_the_answer_is_401_and_says_why(http, bad, reason):
    answer = await http.get("/pop/queue/q", headers={"authorization": f"Bearer {bad}"})
    body = refused(answer, 401, "INVALID_TOKEN")
    assert reason in body["error"]
    assert bad not in answer.text
    assert answer.headers["www-authenticate"] == 'Bearer realm="queen", error="invalid_token"'


async def test_the_scheme_is_written_as_one_likes(http):
    assert (await http.get("/pop/queue/q", headers={"authorization": f"bEARER  {token()}"})).status_code == 204


PUSH = {"type": "push", "items": [{"queue": "matrix", "payload": 1}]}
ACK = {"type": "ack", "transactionId": "none", "partitionId": "00000000-0000-0000-0000-000000000001"}
CALLS = {
    "push": ("POST", "/push", {"items": PUSH["items"]}),
    "pop": ("GET", "/pop/queue/empty", None),
    "ack": ("POST", "/ack", ACK),
    "lease": ("POST", "/lease/00000000-0000-0000-0000-000000000001/extend", {"seconds": 1}),
    "release": ("POST", "/lease/00000000-0000-0000-0000-000000000001/release", None),
    "transaction of pushes": ("POST", "/transaction", {"operations": [PUSH]}),
    "transaction of acks": ("POST", "/transaction", {"operations": [ACK]}),
    "transaction of both": ("POST", "/transaction", {"operations": [ACK, PUSH]}),
    "queues": ("GET", "/resources/queues", None),
    "groups": ("GET", "/consumer-groups", None),
    "status": ("GET", "/status", None),
    "dead letters": ("GET", "/dlq", None),
    "messages": ("GET", "/messages", None),
    "fetch": ("POST", "/fetch", {"entries": [{"queue": "matrix", "partition": "Default", "offset": 0}]}),
    "changed": ("POST", "/partitions/changed", {"entries": [{"queue": "matrix"}]}),
    "maintenance": ("GET", "/system/maintenance", None),
    "configure": ("POST", "/configure", {"queue": "matrix"}),
    "delete": ("DELETE", "/resources/queues/nothing", None),
    "pause": ("POST", "/system/maintenance", {"enabled": False}),
}
EVERYTHING = set(CALLS)
READING = {"queues", "groups", "status", "dead letters", "messages", "fetch", "changed", "maintenance"}
PRODUCING = READING | {"push", "transaction of pushes"}
CONSUMING = READING | {"pop", "ack", "lease", "release", "transaction of acks"}
ADMINISTERING = {"configure", "delete", "pause"}


@pytest.mark.parametrize(
    ("roles", "allowed"),
    [
        ((), set()),
        (("read-only",), READING),
        (("somebody else's",), set()),
        (("producer",), PRODUCING),
        (("consumer",), CONSUMING),
        (("producer", "consumer"), EVERYTHING - ADMINISTERING),
        (("read-write",), EVERYTHING - ADMINISTERING | {"configure"}),
        (("admin",), EVERYTHING),
        (("read-only", "admin"), EVERYTHING),
    ],
)
async def test_roles_allow_what_the_documentation_says(http, roles, allowed):
    for name, (method, path, body) in CALLS.items():
        answer = await http.request(method, path, json=body, headers=bearer(*roles))
        if name in allowed:
            assert answer.status_code < 300, (name, answer.text)
        else:
            assert "this needs the role" in refused(answer, 403, "FORBIDDEN")["error"], name


async def test_a_refusal_names_the_role_that_is_missing(http):
    answer = await http.post("/push", json=CALLS["push"][2], headers=bearer("read-only", "consumer"))
    told = "this needs the role producer; the token has consumer, read-only"
    assert refused(answer, 403, "FORBIDDEN")["error"] == told
    answer = await http.post("/transaction", json=CALLS["transaction of both"][2], headers=bearer("consumer"))
    told = "this needs the role producer; the token has consumer"
    assert refused(answer, 403, "FORBIDDEN")["error"] == told


async def test_what_is_refused_has_no_effect(http, queue):
    body = {"items": [{"queue": queue, "payload": 1}]}
    assert (await http.post("/push", json=body)).status_code == 401
    assert (await http.post("/push", json=body, headers=bearer("consumer"))).status_code == 403
    http.headers.update(bearer("consumer"))
    await pop(http, queue, status=204)


async def test_the_producer_is_whom_the_token_is_for_and_nobody_else(http, queue):
    forged = {"producerSub": "eve", "producer_sub": "eve", "producer": "eve", "sub": "eve"}
    http.headers.update(bearer("producer", "consumer", sub="ann"))
    await push(http, queue, "by push", **forged)
    operation = {"type": "push", "items": [{"queue": queue, "payload": "by transaction", **forged}], **forged}
    assert (await http.post("/transaction", json={"operations": [operation], **forged})).json()["success"]
    http.headers.update(bearer("producer", sub="bob"))
    await push(http, queue, "by bob", **forged)
    assert (await http.post(f"/push/queue/{queue}?producerSub=eve", json=["in an array"])).status_code == 201
    http.headers.update(bearer("consumer", sub="carl"))
    popped = await pop(http, queue, batch=10)
    assert [(message["data"], message["producerSub"]) for message in popped["messages"]] == [
        ("by push", "ann"),
        ("by transaction", "ann"),
        ("by bob", "bob"),
        ("in an array", "bob"),
    ]


async def test_the_producer_is_kept_while_a_message_waits_in_the_spool(http, queue):
    admin = bearer("admin", sub="root")
    await http.post("/system/maintenance", json={"enabled": True}, headers=admin)
    http.headers.update(bearer("producer", "consumer", sub="ann"))
    try:
        await push(http, queue, 1, status=202, producerSub="eve")
    finally:
        await http.post("/system/maintenance", json={"enabled": False}, headers=admin)
    popped = await pop(http, queue, wait="true", timeout=30_000)
    assert [message["producerSub"] for message in popped["messages"]] == ["ann"]


async def test_health_is_open_and_metrics_are_for_those_who_may_read(http):
    root = str(http.base_url).removesuffix("/api/v1/")
    for path in ("/health", "/ready"):
        assert (await http.get(root + path)).status_code == 200
        assert (await http.get(root + path, headers={"authorization": "Bearer garbage"})).status_code == 200
    for path in ("/metrics", "/metrics/prometheus"):
        refused(await http.get(root + path), 401, "UNAUTHORIZED")
        refused(await http.get(root + path, headers=bearer()), 403, "FORBIDDEN")
        assert (await http.get(root + path, headers=bearer("read-only"))).status_code == 200


async def test_where_nobody_is_asked_there_is_no_producer(serve, queue):
    server = await serve()
    async with server.client(headers=bearer("admin", sub="eve")) as http:
        await push(http, queue, 1, producerSub="eve")
        assert [message["producerSub"] for message in (await pop(http, queue))["messages"]] == [None]


async def test_a_server_fetches_keys_and_keeps_them_when_their_address_is_away(serve):
    private = PRIVATE["EdDSA"]
    header = {"authorization": f"Bearer {token(private, 'EdDSA', 'one')}"}
    with issuer.address() as address:
        server = await serve(auth_jwks_url=address.url, auth_jwks_interval_seconds=0)
        async with server.client(headers=header) as http:
            answer = await http.get("/pop/queue/q")
            refused(answer, 503, "UNAVAILABLE")
            assert answer.headers["retry-after"]
            address.document = issuer.jwks(one=private)
            assert (await http.get("/pop/queue/q")).status_code == 204
    async with httpx.AsyncClient(base_url=f"{server.url}/api/v1", headers=header) as http:
        assert (await http.get("/pop/queue/q")).status_code == 204
        strange = {"authorization": f"Bearer {token(private, 'EdDSA', 'two')}"}
        refused(await http.get("/pop/queue/q", headers=strange), 401, "INVALID_TOKEN")
