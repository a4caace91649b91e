"""Whatever is malformed is a 4xx with error and code, and has no effect."""

import asyncio
import json

import httpx
import pytest

from tests.broker.raw import Raw
from tests.broker.shorthand import data, pop, push, refused

ITEM = {"queue": "q", "payload": 1}
PARTITION = "00000000-0000-0000-0000-000000000001"
ACK = {"transactionId": "t", "partitionId": PARTITION}


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/push", b"", "INVALID_JSON"),
        ("/push", b"{", "INVALID_JSON"),
        ("/push", b'{"items": [{"queue": "\xff", "payload": 1}]}', "INVALID_JSON"),
        ("/push", b'{"items": [{"queue": "q", "payload": ' + b"[" * 5000, "INVALID_JSON"),
        ("/push", b"[]", "INVALID_ARGUMENT"),
        ("/push", {}, "INVALID_ARGUMENT"),
        ("/push", {"items": {}}, "INVALID_ARGUMENT"),
        ("/push", {"items": ["x"]}, "INVALID_ARGUMENT"),
        ("/push", {"items": [{"payload": 1}]}, "INVALID_ARGUMENT"),
        ("/push", {"items": [{"queue": "q"}]}, "INVALID_ARGUMENT"),
        ("/push", {"items": [ITEM | {"queue": 7}]}, "INVALID_ARGUMENT"),
        ("/push", {"items": [ITEM | {"partition": 7}]}, "INVALID_ARGUMENT"),
        ("/push", {"items": [ITEM | {"transactionId": 7}]}, "INVALID_ARGUMENT"),
        ("/push", {"items": [ITEM | {"queue": ""}]}, "INVALID_NAME"),
        ("/push", {"items": [ITEM | {"queue": "x" * 2000}]}, "INVALID_NAME"),
        ("/push", {"items": [ITEM | {"queue": "nul \0"}]}, "INVALID_NAME"),
        ("/push", {"items": [ITEM | {"partition": ""}]}, "INVALID_NAME"),
        ("/push", {"items": [ITEM | {"transactionId": "nul \0"}]}, "INVALID_ARGUMENT"),
        ("/push", {"items": [ITEM | {"traceId": "no uuid"}]}, "INVALID_TRACE_ID"),
        ("/push", b'{"items": [{"queue": "q", "payload": "\\ud800"}]}', "INVALID_JSON"),
        ("/ack", b"nothing", "INVALID_JSON"),
        ("/ack", {"transactionId": "t"}, "INVALID_ARGUMENT"),
        ("/ack", {"partitionId": PARTITION}, "INVALID_ARGUMENT"),
        ("/ack", ACK | {"status": "done"}, "INVALID_STATUS"),
        ("/ack", ACK | {"consumerGroup": "nul \0"}, "INVALID_NAME"),
        ("/ack/batch", {"acknowledgments": {}}, "INVALID_ARGUMENT"),
        ("/ack/batch", {"acknowledgments": [ACK, {}]}, "INVALID_ARGUMENT"),
        ("/ack/batch", {}, "INVALID_ARGUMENT"),
        ("/lease/no-uuid/extend", {"seconds": 60}, "INVALID_ARGUMENT"),
        (f"/lease/{PARTITION}/extend", {"seconds": 0}, "INVALID_ARGUMENT"),
        (f"/lease/{PARTITION}/extend", {"seconds": -5}, "INVALID_ARGUMENT"),
        (f"/lease/{PARTITION}/extend", {"seconds": 1e99}, "INVALID_ARGUMENT"),
        (f"/lease/{PARTITION}/extend", {"seconds": "soon"}, "INVALID_ARGUMENT"),
        ("/transaction", {}, "INVALID_ARGUMENT"),
        ("/transaction", {"operations": []}, "INVALID_ARGUMENT"),
        ("/transaction", {"operations": [{"type": "push", "items": []}]}, "INVALID_ARGUMENT"),
        ("/transaction", {"operations": [{"type": "dance"}]}, "INVALID_ARGUMENT"),
        ("/transaction", {"operations": [{"type": "ack"}]}, "INVALID_ARGUMENT"),
        (
            "/transaction",
            {"operations": [{"type": "push", "items": [ITEM]}], "requiredLeases": ["no uuid"]},
            "INVALID_ARGUMENT",
        ),
    ],
)
async def test_a_malformed_body_is_refused(http, path, body, code):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    refused(await http.post(path, content=content), 400, code)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("batch=x", "INVALID_ARGUMENT"),
        ("batch=0", "INVALID_ARGUMENT"),
        ("batch=-1", "INVALID_ARGUMENT"),
        ("batch=1.5", "INVALID_ARGUMENT"),
        ("batch=", "INVALID_ARGUMENT"),
        ("batch=%D9%A3", "INVALID_ARGUMENT"),
        ("batch=10001", "INVALID_ARGUMENT"),
        ("batch=99999999999999999999999999", "INVALID_ARGUMENT"),
        ("timeout=-1", "INVALID_ARGUMENT"),
        ("timeout=soon", "INVALID_ARGUMENT"),
        ("wait=maybe", "INVALID_ARGUMENT"),
        ("autoAck=2", "INVALID_ARGUMENT"),
        ("partitions=0", "INVALID_ARGUMENT"),
        ("leaseTime=0", "INVALID_ARGUMENT"),
        ("leaseTime=x", "INVALID_ARGUMENT"),
        ("subscriptionMode=later", "INVALID_ARGUMENT"),
        ("subscriptionFrom=garbage", "INVALID_TIMESTAMP"),
        ("subscriptionFrom=2025-01-01T00:00:00", "INVALID_TIMESTAMP"),
        ("subscriptionMode=later&subscriptionFrom=now", "INVALID_ARGUMENT"),
        ("consumerGroup=%00", "INVALID_NAME"),
        ("consumerGroup=%FF", "INVALID_ARGUMENT"),
        ("empty=maybe", "INVALID_ARGUMENT"),
    ],
)
async def test_a_malformed_query_is_refused(http, query, code):
    refused(await http.get(f"/pop/queue/q?{query}"), 400, code)


async def test_a_hint_is_given_only_if_it_helps(http):
    unexpected = await http.post("/push", json={"items": "none"})
    assert refused(unexpected, 400, "INVALID_ARGUMENT")["hint"] == "GET /docs shows what this call takes."
    bad_name = await http.post("/push", json={"items": [ITEM | {"queue": ""}]})
    contradictory = await http.get("/pop", params={"subscriptionMode": "new"})
    for answer, code in ((bad_name, "INVALID_NAME"), (contradictory, "INVALID_ARGUMENT")):
        assert "hint" not in refused(answer, 400, code)
    bad_trace = await http.post("/push", json={"items": [ITEM | {"traceId": "nix"}]})
    assert refused(bad_trace, 400, "INVALID_TRACE_ID")["hint"].startswith("A trace id is a UUID, such as ")


async def test_a_pop_names_something(http):
    refused(await http.get("/pop"), 400, "INVALID_ARGUMENT")


@pytest.mark.parametrize("path", ["/pop/queue/%00", "/pop/queue/" + "x" * 2000, "/pop/queue/q/partition/%00"])
async def test_a_name_in_an_address_is_checked_too(http, path):
    refused(await http.get(path), 400, "INVALID_NAME")


async def test_an_address_is_utf_8(http):
    refused(await http.get("/pop/queue/%FF"), 400, "INVALID_ARGUMENT")


@pytest.mark.parametrize("path", ["/nothing", "/pop/queue/", "/pushx", "/push/", "//push", "/../../etc/passwd"])
async def test_an_unknown_address_is_not_found(server, path):
    async with httpx.AsyncClient(base_url=server.url) as client:
        refused(await client.get("/api/v1" + path), 404, "NO_SUCH_ROUTE")
        refused(await client.get(server.url + path), 404, "NO_SUCH_ROUTE")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/push", "POST"),
        ("DELETE", "/ack", "POST"),
        ("POST", "/pop/queue/q", "GET, HEAD"),
        ("TRACE", "/push", "POST"),
    ],
)
async def test_a_wrong_method_is_told_the_right_ones(http, method, path, allowed):
    answer = await http.request(method, path)
    refused(answer, 405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"] == allowed


async def test_a_bad_request_has_no_effect_on_its_neighbours(http, queue):
    bad = [http.post("/push", json={"items": [{"queue": queue, "partition": "\0", "payload": 1}]}) for _ in range(10)]
    good = [push(http, queue, n) for n in range(10)]
    answers = await asyncio.gather(*bad, *good)
    for answer in answers[:10]:
        refused(answer, 400, "INVALID_NAME")
    assert sorted(data(await pop(http, queue, batch=100))) == list(range(10))


async def test_a_refused_item_list_leaves_nothing_behind(http, queue):
    items = [{"queue": queue, "payload": 1}, {"queue": queue, "payload": 1, "traceId": "x"}]
    refused(await http.post("/push", json={"items": items}), 400, "INVALID_TRACE_ID")
    await pop(http, queue, status=204)


async def test_limits_are_settings(serve):
    server = await serve(body_bytes_max=5000, push_items_max=3, batch_messages_max=10, body_timeout_ms=300)
    async with server.client() as http:
        refused(await http.post("/push", content=b"x" * 5001), 413, "BODY_TOO_LARGE")
        refused(await http.post("/push", content=chunks(10, 1000)), 413, "BODY_TOO_LARGE")
        refused(await http.post("/push", json={"items": [ITEM] * 4}), 413, "TOO_MANY_ITEMS")
        refused(await http.post("/ack/batch", json={"acknowledgments": [ACK] * 4}), 413, "TOO_MANY_ITEMS")
        operations = [{"type": "push", "items": [ITEM] * 4}]
        refused(await http.post("/transaction", json={"operations": operations}), 413, "TOO_MANY_ITEMS")
        refused(await http.get("/pop/queue/q?batch=11"), 400, "INVALID_ARGUMENT")
        assert (await http.get("/pop/queue/q?batch=10")).status_code == 204
        assert (await http.post("/push", json={"items": [ITEM] * 3})).status_code == 201
    slow = b"POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{"
    async with Raw.connected(server) as client:
        client.send(slow)
        refused(await client.answer(), 408, "BODY_TIMEOUT")


async def chunks(count, size):
    for _ in range(count):
        yield b" " * size


async def test_too_many_parked_polls_are_refused(serve):
    server = await serve(waiters_max=1)
    async with server.client() as http:
        first = asyncio.create_task(http.get("/pop/queue/q?wait=true"))
        second = asyncio.create_task(http.get("/pop/queue/q?wait=true"))
        done, _ = await asyncio.wait((first, second), return_when=asyncio.FIRST_COMPLETED)
        refusal = done.pop().result()
        refused(refusal, 503, "BUSY")
        assert refusal.headers["retry-after"]
        await push(http, "q", 1)
        answers = await asyncio.gather(first, second)
    assert sorted(answer.status_code for answer in answers) == [200, 503]
