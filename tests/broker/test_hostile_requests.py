"""20,000 requests that nobody should send, beside those of test_foreign_pages: no 5xx, and the server does not mind."""

import asyncio
import json
import os
import random
import re
from collections import Counter
from urllib.parse import urlsplit

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from schemathesis import GenerationMode

from queenmq.broker.app import ROUTES
from queenmq.broker.openapi import describe
from queenmq.broker.routing import Route
from tests.broker.hostile import REQUESTS, Hostile
from tests.broker.raw import Raw

EXAMPLES = 20  # of each route and mode
CONNECTIONS = 64  # at a time
SILENCE_SECONDS = 0.25  # after which no more is expected from the server
WAIT_MS = "50"  # a long poll that is asked for at random must not take its time
UNCERTAIN = {
    (400, "INVALID_HTTP"),
    (415, "UNSUPPORTED_TRANSFER_ENCODING"),
}  # how a request without a clear end is refused
SCHEMA = schemathesis.openapi.from_dict(json.loads(describe(ROUTES)))


@pytest.fixture(scope="module")
def settings():
    return {"body_timeout_ms": 100, "workers": 1}


@pytest.fixture(scope="module")
def tally():
    """How many requests were made from the description."""
    return Counter()


@pytest.fixture(scope="module", autouse=True)
def unharmed(server):
    """After all tests the same worker is there and works, and nothing went wrong in an unforeseen way."""
    workers = server.workers()
    yield
    with httpx.Client(base_url=server.url) as client:
        assert client.get("/ready").status_code == 200
        pushed = client.post("/api/v1/push", json={"items": [{"queue": "still alive", "payload": 1}]})
        assert pushed.status_code == 201
    assert server.workers() == workers
    assert "unforeseen" not in server.log
    assert "Traceback" not in server.log


@pytest.fixture
async def without_maintenance(server):
    """Whatever a test has switched on is off again."""
    yield
    async with server.client() as http:
        for path in ("/system/maintenance", "/system/maintenance/pop"):
            assert (await http.post(path, json={"enabled": False})).status_code == 200


@pytest.mark.parametrize(
    ("route", "mode"),
    # Where nothing but texts is taken, nothing can be of the wrong type.
    [(route, mode) for route in ROUTES for mode in GenerationMode if mode.is_positive or route.takes is not None],
    ids=lambda value: f"{value.method} {value.pattern}" if isinstance(value, Route) else value.value,
)
@pytest.mark.usefixtures("without_maintenance")
def test_what_the_description_allows_and_what_it_forbids(server, tally, route, mode):
    @hypothesis_settings(
        max_examples=EXAMPLES,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(case=SCHEMA[route.pattern][route.method].as_strategy(mode))
    def check(case):
        if "timeout" in case.query:
            case.query["timeout"] = WAIT_MS
        tally["described"] += 1
        answer = case.call(base_url=server.url)
        assert answer.status_code < 500, answer.text
        if answer.status_code >= 400:
            told = answer.json()
            assert all(
                isinstance(told[name], str) and told[name] for name in {"error", "code"} | told.keys() & {"hint"}
            ), told

    check()


def tells(body) -> bool:
    """Whether a body is that of an error: a sentence and a code, and a hint or none."""
    return {"error", "code"} <= body.keys() and all(
        isinstance(body[name], str) and body[name] for name in ERROR & body.keys()
    )


ERROR = {"error", "code", "hint"}
SMUGGLED = b"GET /api/v1/pop/queue/canary?autoAck=true HTTP/1.1\r\nhost: localhost\r\n\r\n"
CHUNKED = b"0\r\n\r\n" + SMUGGLED


@pytest.mark.parametrize(
    "framing",
    [
        b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n" + CHUNKED,
        b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n" + CHUNKED,
        b"content-length: 5\r\ncontent-length: 6\r\n\r\n" + CHUNKED,
        b"content-length: 5, 5\r\n\r\n" + CHUNKED,
        b"content-length: +5\r\n\r\n" + CHUNKED,
        b"content-length: 0x5\r\n\r\n" + CHUNKED,
        b"content-length: 5x\r\n\r\n" + CHUNKED,
        b"content-length: 5 6\r\n\r\n" + CHUNKED,
        b"content-length : 5\r\n\r\n" + CHUNKED,
        b"content-length: 99999999999999999999999999\r\n\r\n" + CHUNKED,
        b"transfer-encoding: xchunked\r\n\r\n" + CHUNKED,
        b"transfer-encoding: chunked, identity\r\n\r\n" + CHUNKED,
        b"transfer-encoding: identity, chunked\r\n\r\n" + CHUNKED,
        b"transfer-encoding: chunked\r\ntransfer-encoding: x\r\n\r\n" + CHUNKED,
        b"transfer-encoding: \x0bchunked\r\n\r\n" + CHUNKED,
        b"transfer-encoding : chunked\r\n\r\n" + CHUNKED,
        b"transfer-encoding: chunked\r\n\r\n-1\r\n\r\n" + SMUGGLED,
        b"transfer-encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n\r\n" + SMUGGLED,
        b"transfer-encoding: chunked\r\n\r\n0x0\r\n\r\n" + SMUGGLED,
        b"transfer-encoding: chunked\r\n\r\n0\n\n" + SMUGGLED,
        b"transfer-encoding: chunked\r\n\r\n0\r\rX" + SMUGGLED,
        b"transfer-encoding: chunked\r\n\r\n1\r\nab0\r\n\r\n" + SMUGGLED,
        b"transfer-encoding: chunked\r\n\r\n0;a\nb\r\n\r\n" + SMUGGLED,
        b"x: y\n\n" + SMUGGLED,
        b"x: y\r\rx" + SMUGGLED,
        b"x: y\0\r\n\r\n" + SMUGGLED,
        b"no colon\r\n\r\n" + SMUGGLED,
        b"host: localhost\r\n\r\n" + SMUGGLED,
        b"(x): y\r\n\r\n" + SMUGGLED,
    ],
)
async def test_a_request_whose_end_is_uncertain_is_the_last_one(server, http, framing):
    await http.post("/push", json={"items": [{"queue": "canary", "payload": 1, "transactionId": "canary"}]})
    async with Raw.connected(server) as client:
        client.send(b"POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\n" + framing)
        answer = await client.answer()
        assert (answer.status_code, answer.json()["code"]) in UNCERTAIN
        assert await client.closed()
    popped = (await http.get("/pop/queue/canary", params={"leaseTime": 1})).json()
    assert [message["data"] for message in popped["messages"]] == [1]
    await http.post(f"/lease/{popped['leaseId']}/release")


async def test_requests_made_at_random(server, tally):
    seed = int(os.environ.get("QUEEN_TEST_HOSTILE_SEED", random.randrange(2**32)))
    print(f"QUEEN_TEST_HOSTILE_SEED={seed}")  # noqa: T201 (shown when a test fails, and with -s)
    hostile = Hostile(seed)
    count = REQUESTS - tally.total()
    statuses = Counter()
    requests = (hostile.request() for _ in range(count))

    async def send_all():
        for text in requests:
            statuses.update(await answers(server, text))

    await asyncio.gather(*(send_all() for _ in range(CONNECTIONS)))
    print(statuses)  # noqa: T201 (the same)
    assert statuses.total() > count / 2
    assert {200, 201, 204, 400, 403, 404, 405, 415, 421, 431} <= statuses.keys()


async def answers(server, text):
    """The statuses of what the server answers to some bytes; each answer must be whole and right."""
    url = urlsplit(server.url)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(text)
    received = b""
    try:
        async with asyncio.timeout(SILENCE_SECONDS) as silence:
            while chunk := await reader.read(1 << 16):
                received += chunk
                silence.reschedule(asyncio.get_running_loop().time() + SILENCE_SECONDS)
    except (TimeoutError, ConnectionError):
        pass
    writer.transport.abort()
    return list(read_answers(text, received))


def read_answers(text, received):
    while received:
        head, end, rest = received.partition(b"\r\n\r\n")
        assert end, (text, received)
        status, *lines = head.decode("latin-1").split("\r\n")
        code = int(re.fullmatch(r"HTTP/1\.1 (\d{3}) [\w '-]+", status)[1])
        headers = dict(line.split(": ", 1) for line in lines)
        length = int(headers.get("content-length", 0))
        body, received = rest[:length], rest[length:]
        assert len(body) == length or text.startswith(b"HEAD"), (text, received)
        if code >= 400:
            told = json.loads(body)
            assert all(
                isinstance(told[name], str) and told[name] for name in {"error", "code"} | told.keys() & {"hint"}
            ), told
            assert code < 500, (text, told)
        yield code
