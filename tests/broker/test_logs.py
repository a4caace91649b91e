"""The log: access, slow requests, level and format."""

import json

from tests.broker.shorthand import push


def events(server, logger):
    """What a logger has written, as JSON."""
    lines = [json.loads(line) for line in server.log.splitlines()]
    return [line for line in lines if line["logger"] == logger]


async def test_every_request_is_logged_when_asked_for(serve):
    server = await serve(access_log=True, log_format="json")
    async with server.client() as http:
        await push(http, "q", 1)
        answer = await http.get("/pop/queue/a%0Ab")
        assert answer.status_code == 400
    await server.stop()
    pushed, popped = events(server, "queenmq.access")
    assert pushed["ms"] > 0
    assert pushed["time"].endswith("Z")
    assert [pushed[name] for name in ("level", "message", "method", "path", "status")] == [
        "info",
        "request",
        "POST",
        "/api/v1/push",
        201,
    ]
    assert (popped["path"], popped["status"], popped["bytes"]) == ("/api/v1/pop/queue/a%0Ab", 400, len(answer.content))


async def test_requests_are_not_logged_unless_asked_for(serve):
    server = await serve(log_format="json")
    async with server.client() as http:
        await push(http, "q", 1)
    await server.stop()
    assert events(server, "queenmq.access") == []


async def test_in_text_an_event_is_one_line_whatever_it_holds(serve):
    server = await serve(access_log=True)
    async with server.client() as http:
        await http.get("/pop/queue/a%0Ab")
    await server.stop()
    (line,) = [line for line in server.log.splitlines() if "queenmq.access" in line]
    assert ' INFO    queenmq.access: request method="GET" path="/api/v1/pop/queue/a%0Ab" status=400 ms=' in line


async def test_a_slow_pop_tells_what_took_how_long(serve, proxy):
    server = await serve(dsn=proxy.dsn, slow_call_ms=1, log_format="json")
    async with server.client() as http:
        await push(http, "q", 1)
        await http.get("/pop/queue/q?batch=5")
    await server.stop()
    pops = [event for event in events(server, "queenmq.slow") if event["path"] == "/api/v1/pop/queue/q"]
    assert [pop["level"] for pop in pops] == ["warning"]
    assert pops[0]["query"] == "batch=5"
    phases = [pops[0][name] for name in ("wait_ms", "lease_ms", "read_ms", "encode_ms")]
    assert all(phase >= 0 for phase in phases)
    assert 0 <= pops[0]["ms"] - sum(phases) < 5


async def test_a_poll_is_not_slow_because_it_waits(serve):
    server = await serve(slow_call_ms=900, log_format="json")
    async with server.client() as http:
        assert (await http.get("/pop/queue/q?wait=true&timeout=1000")).status_code == 204
    await server.stop()
    assert events(server, "queenmq.slow") == []


async def test_slow_requests_need_not_be_logged(serve, proxy):
    server = await serve(slow_call_ms=0, log_format="json")
    async with server.client() as http:
        await push(http, "q", 1)
    await server.stop()
    assert events(server, "queenmq.slow") == []


async def test_the_level_says_what_is_worth_a_line(serve):
    server = await serve(log_level="error")
    await server.stop()
    assert server.log == ""
