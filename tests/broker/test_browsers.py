"""Requests of other pages and for other hosts are refused; programs and the server's own pages are not."""

import httpx
import pytest

from tests.broker.issuer import SECRET, token
from tests.broker.raw import Raw
from tests.broker.shorthand import data, pop, push, refused

SHOP = "https://shop.example"
PAGE = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
ADMIN = {"authorization": f"Bearer {token(roles=['admin'])}"}
LINK = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


@pytest.fixture
async def root(server):
    """A client of the module's server, with addresses from / on."""
    async with server.client(base_url=server.url) as client:
        yield client


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "Cross-Site"},
        {"sec-fetch-site": "something-new"},
        {"origin": SHOP},
        {"origin": "null"},
        {"origin": "http://localhost:1"},
        {"origin": "http://127.0.0.1"},
        {"origin": "chrome-extension://abcdefghijklmnop", "sec-fetch-site": "none"},
        {"origin": SHOP, "sec-fetch-site": "cross-site"},
        LINK,
        LINK | {"origin": "null"},
    ],
)
async def test_a_request_of_a_page_from_elsewhere_is_refused_and_has_no_effect(http, queue, headers):
    await push(http, queue, 1)
    answer = await http.get(f"/pop/queue/{queue}?autoAck=true", headers=headers)
    refused(answer, 403, "CROSS_SITE")
    body = {"items": [{"queue": queue, "payload": 2}]}
    refused(await http.post("/push", json=body, headers=headers), 403, "CROSS_SITE")
    assert "access-control-allow-origin" not in answer.headers
    assert data(await pop(http, queue, batch=10)) == [1]


async def test_a_request_of_the_servers_own_page_is_answered(server, http, queue):
    own = [
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "same-origin", "origin": "https://behind.a.proxy"},
        {"sec-fetch-site": "none"},
        {"origin": server.url},
        {"origin": server.url.replace("http:", "https:")},  # something in front speaks TLS
    ]
    for headers in own:
        body = {"items": [{"queue": queue, "payload": 1}]}
        assert (await http.post("/push", json=body, headers=headers)).status_code == 201


async def test_an_origin_without_a_port_is_that_of_the_default_port(root):
    for host, origin in (
        ("localhost", "http://localhost"),
        ("localhost:80", "http://localhost"),
        ("localhost", "https://localhost"),
        ("localhost:443", "https://localhost"),
        ("LOCALHOST", "http://localhost"),
        ("[::1]:6632", "http://[::1]:6632"),
    ):
        answer = await root.get("/health", headers={"host": host, "origin": origin})
        assert answer.status_code == 200, (host, origin)
    refused(
        await root.get("/health", headers={"host": "localhost:443", "origin": "http://localhost"}), 403, "CROSS_SITE"
    )


async def test_a_link_from_elsewhere_leads_to_pages_that_change_nothing(root):
    for path in ("/docs", "/openapi.json", "/health", "/ready"):
        assert (await root.get(path, headers=LINK)).status_code == 200
        refused(await root.get(path, headers=PAGE), 403, "CROSS_SITE")
        refused(await root.get(path, headers=LINK | {"sec-fetch-dest": "iframe"}), 403, "CROSS_SITE")
    for path in ("/metrics", "/api/v1/resources/queues", "/api/v1/pop/queue/q?autoAck=true"):
        refused(await root.get(path, headers=LINK), 403, "CROSS_SITE")


async def test_pages_of_an_allowed_origin_may_use_the_server(serve, queue):
    server = await serve(cors_origins=f"http://localhost:3000, {SHOP.upper()}:443")
    async with server.client() as http:
        for origin in (SHOP, "http://localhost:3000"):
            headers = {"origin": origin, "sec-fetch-site": "cross-site"}
            answer = await http.post("/push", json={"items": [{"queue": queue, "payload": 1}]}, headers=headers)
            assert answer.status_code == 201
            assert answer.headers["access-control-allow-origin"] == origin
            assert answer.headers["access-control-allow-credentials"] == "true"
            assert answer.headers["vary"] == "origin"
        failure = await http.get("/pop/queue/q?batch=x", headers=headers)
        refused(failure, 400, "INVALID_ARGUMENT")  # which the page can read
        assert failure.headers["access-control-allow-origin"] == origin
        assert "retry-after" in failure.headers["access-control-expose-headers"]
        other = await http.get("/pop/queue/q", headers={"origin": "https://shop.example.evil.example"})
        refused(other, 403, "CROSS_SITE")
        assert "access-control-allow-origin" not in other.headers
        assert (await http.get("/pop/queue/none")).headers["vary"] == "origin"
        refused(await http.get("/pop/queue/q", headers=PAGE), 403, "CROSS_SITE")  # an image has no Origin


async def test_a_preflight_is_answered_to_allowed_origins_only(serve):
    server = await serve(cors_origins=SHOP, auth_secret=SECRET)
    question = {
        "origin": SHOP,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    async with server.client() as http:
        answer = await http.options("/push", headers=question)
        assert (answer.status_code, answer.content) == (204, b"")
        assert answer.headers["access-control-allow-origin"] == SHOP
        assert answer.headers["access-control-allow-methods"] == "GET, HEAD, POST, DELETE"
        assert answer.headers["access-control-allow-headers"] == "authorization, content-type"
        assert int(answer.headers["access-control-max-age"]) > 0
        for origin in ("https://other.example", "null"):
            refused(await http.options("/push", headers=question | {"origin": origin}), 403, "CROSS_SITE")
        refused(await http.options("/push", headers={"origin": SHOP}), 405, "METHOD_NOT_ALLOWED")
        unauthorized = await http.get("/resources/queues", headers={"origin": SHOP})
        refused(unauthorized, 401, "UNAUTHORIZED")
        assert unauthorized.headers["access-control-allow-origin"] == SHOP
        headers = {"origin": SHOP, **ADMIN}
        assert (await http.get("/resources/queues", headers=headers)).status_code == 200


async def test_a_token_does_not_make_a_page_from_elsewhere_welcome(serve):
    server = await serve(auth_secret=SECRET)
    async with server.client(headers=ADMIN) as http:
        assert (await http.get("/resources/queues")).status_code == 200
        refused(await http.get("/resources/queues", headers={"origin": SHOP}), 403, "CROSS_SITE")


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:6632", "10.1.2.3:80", "localhost", "LocalHost:9", "localhost.", "[::1]:6632",
             "[2001:DB8::1]", "127.0.0.1.", "localhost:"]
)  # fmt: skip
async def test_without_tokens_a_host_may_be_an_address_or_localhost(root, host):
    assert (await root.get("/health", headers={"host": host})).status_code == 200


@pytest.mark.parametrize(
    "host", ["rebind.example", "rebind.example:6632", "127.0.0.1.rebind.example", "localhost.rebind.example", "queen",
             "a.localhost", "2130706433", "0x7f.1", "127.1", "localhost..", "local%68ost", "", ":6632",
             "127.0.0.1,evil"]
)  # fmt: skip
async def test_without_tokens_any_other_host_is_refused(root, host):
    refused(await root.get("/health", headers={"host": host}), 421, "UNKNOWN_HOST")


async def test_hosts_are_a_setting(serve):
    server = await serve(hosts="queen, Queue.Example.")
    async with server.client(base_url=server.url) as root:
        for host in ("queen", "QUEEN:6632", "queue.example", "queue.example.:1", "localhost", "127.0.0.1"):
            assert (await root.get("/health", headers={"host": host})).status_code == 200, host
        refused(await root.get("/health", headers={"host": "other.example"}), 421, "UNKNOWN_HOST")


async def test_with_tokens_any_host_will_do(serve):
    server = await serve(auth_secret=SECRET)
    async with server.client(base_url=server.url) as root:
        assert (await root.get("/health", headers={"host": "whatever.example"})).status_code == 200


@pytest.mark.parametrize(
    ("lines", "status", "code"),
    [
        (b"GET /health HTTP/1.1\r\n", 400, "INVALID_HTTP"),
        (b"GET /health HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n", 400, "INVALID_HTTP"),
        (b"GET /health HTTP/1.1\r\nhost: localhost\r\nHOST: rebind.example\r\n", 400, "INVALID_HTTP"),
        (b"GET /health HTTP/1.1\r\nhost: localhost\r\nhost:\r\n", 400, "INVALID_HTTP"),
        (b"GET /health HTTP/1.1\r\nhost:\r\nhost: localhost\r\n", 400, "INVALID_HTTP"),
        (b"GET /health HTTP/1.1\r\nhost: 127.0.0.1:80\r\nhost:\r\n", 400, "INVALID_HTTP"),
        (b"GET /health HTTP/1.1\r\nhost:\r\n", 421, "UNKNOWN_HOST"),
        (b"GET /health HTTP/1.0\r\n", 400, "INVALID_HTTP"),
        (b"GET /ready HTTP/1.0\r\n", 400, "INVALID_HTTP"),
        (b"GET /api/v1/resources/queues HTTP/1.0\r\n", 400, "INVALID_HTTP"),
        (b"GET http://localhost/health HTTP/1.0\r\n", 400, "INVALID_HTTP"),
        (b"GET /health HTTP/1.0\r\nhost: localhost\r\nhost:\r\n", 400, "INVALID_HTTP"),
        (b"GET /health HTTP/1.1\r\nhost: ::1\r\n", 400, "INVALID_HTTP"),
        (b"GET /health HTTP/1.1\r\nhost: me@localhost\r\n", 400, "INVALID_HTTP"),
        (b"GET /health HTTP/1.1\r\nhost: localhost/x\r\n", 400, "INVALID_HTTP"),
        (b"GET /health HTTP/1.1\r\nhost: localhost:http\r\n", 400, "INVALID_HTTP"),
        (b"GET /health HTTP/1.1\r\nhost: \xfc.example\r\n", 400, "INVALID_HTTP"),
        (b"GET http://localhost/health HTTP/1.1\r\n", 400, "INVALID_HTTP"),
        (b"GET http://me@localhost/health HTTP/1.1\r\nhost: localhost\r\n", 400, "INVALID_HTTP"),
        (b"GET http://rebind.example/health HTTP/1.1\r\nhost: localhost\r\n", 421, "UNKNOWN_HOST"),
        (b"GET http:///health HTTP/1.1\r\nhost: localhost\r\n", 421, "UNKNOWN_HOST"),
        (b"GET /health HTTP/1.0\r\nhost: rebind.example\r\n", 421, "UNKNOWN_HOST"),
        (b"GET /health HTTP/2.0\r\nhost: localhost\r\n", 400, "INVALID_HTTP"),
        (b"GET /health\r\n", 400, "INVALID_HTTP"),
    ],
)
async def test_a_request_names_exactly_one_host(server, lines, status, code):
    async with Raw.connected(server) as client:
        client.send(lines + b"\r\n")
        refused(await client.answer(), status, code)


async def test_the_host_in_the_target_counts(server):
    async with Raw.connected(server) as client:
        for target in (b"http://localhost:6632/health", b"HTTP://LOCALHOST/health", b"http://[::1]/health?x=http://y"):
            client.send(b"GET %b HTTP/1.1\r\nhost: rebind.example\r\n\r\n" % target)
            assert (await client.answer()).status_code == 200


async def test_trailers_are_not_headers(server, queue):
    body = b'{"items": [{"queue": "%b", "payload": 1}]}' % queue.encode()
    head = b"POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    async with Raw.connected(server) as client:
        client.send(
            head + b"%x\r\n%b\r\n0\r\n" % (len(body), body) + b"origin: https://shop.example\r\nhost: x\r\n\r\n"
        )
        assert (await client.answer()).status_code == 201


async def test_a_server_for_everybody_says_so(serve):
    server = await serve(host="0.0.0.0", allow_unprotected=True)
    url = server.url.replace("0.0.0.0", "127.0.0.1")
    banner = "".join(iter(server.process.stdout.readline, "Ctrl-C stops it.\n"))
    assert "every machine that can reach this port may do everything" in banner
    async with httpx.AsyncClient(base_url=url) as client:
        checks = (await client.get("/api/v1/doctor")).json()["checks"]
    access = next(check for check in checks if check["name"] == "access")
    assert (access["severity"], "may do everything" in access["detail"]) == ("warning", True)
    assert "QUEEN_AUTH_SECRET" in access["hint"]


async def test_a_server_on_loopback_is_in_order(http):
    checks = (await http.get("/doctor")).json()["checks"]
    assert next(check["severity"] for check in checks if check["name"] == "access") == "ok"
