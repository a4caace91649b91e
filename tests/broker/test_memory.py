"""A worker stays small whatever clients send and fetch, and large requests of one queue do not hold up other queues."""

import asyncio
import contextlib
import json
from pathlib import Path

import pytest

from queenmq.broker.intake import Lane
from queenmq.errors import Busy
from tests.broker.raw import Raw
from tests.waits import until

MEMORY_MB_MAX = 400
PAYLOAD = json.dumps("x" * 8_000_000).encode()


def body(queue, count, payload=PAYLOAD):
    """A push of so many messages; partitions take turns."""
    items = (b'{"queue":"%b","partition":"p%d","payload":%b}' % (queue.encode(), n % 7, payload) for n in range(count))
    return b'{"items":[%b]}' % b",".join(items)


def peak_mb(server):
    """The most memory that a worker has had since it started."""
    found = []
    for pid in server.workers():
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        found += [int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")]
    return max(found)


def upload(content, path="/api/v1/push", sent=None):
    """A request whose body comes up to a place."""
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(content)}\r\n\r\n"
    return head.encode() + content[:sent]


@contextlib.asynccontextmanager
async def unread(server, request):
    """A client that sends a request and does not read the answer."""
    async with Raw.connected(server) as client:
        client.pause()
        client.send(request)
        yield client


async def test_a_worker_stays_small_under_any_mix_of_large_requests(serve):
    server = await serve(workers=1)
    large, many = body("large", 7), body("many", 9_000, json.dumps("x" * 5_600).encode())
    array = b"[" + b",".join([b'"%b"' % (b"x" * 5_600)] * 9_000) + b"]"
    reads = {"entries": [{"queue": "large", "partition": f"p{n}", "offset": 0, "maxBytes": 2**40} for n in range(7)]}
    async with server.client(timeout=110) as http, contextlib.AsyncExitStack() as slow:
        assert (await http.post("/push", content=large)).status_code == 201

        async def push(content, path="/push"):
            return (await http.post(path, content=content)).status_code

        async def pop(group):
            answer = await http.get("/pop/queue/large", params={"batch": 100, "consumerGroup": group})
            return answer.status_code if len(answer.content) > 8_000_000 else 0

        async def fetch():
            return (await http.post("/fetch", json=reads)).status_code

        for number in range(8):  # consumers that take nothing of what they asked for
            path = f"/api/v1/pop/queue/large?batch=100&consumerGroup=slow-{number}"
            await slow.enter_async_context(unread(server, f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()))
        for number in range(6):  # and producers that do not finish
            await slow.enter_async_context(unread(server, upload(body(f"halves-{number}", 2), sent=3_000_000)))
        pushes = [push(large), push(large), push(many), push(array, "/push/queue/array"), push(many)]
        assert await asyncio.gather(*pushes, *(fetch() for _ in range(8))) == [201] * 5 + [200] * 8
        await slow.aclose()
        assert await asyncio.gather(push(large), *(pop(f"g{number}") for number in range(16))) == [201] + [200] * 16
    assert peak_mb(server) < MEMORY_MB_MAX


async def test_large_requests_of_one_queue_do_not_hold_up_other_queues(serve):
    server = await serve(workers=1, bodies_bytes_max=4 << 20)
    order = []
    async with server.client() as http:

        async def push(queue, content):
            assert (await http.post("/push", content=content)).status_code == 201
            order.append(queue)

        noisy = [asyncio.create_task(push("noisy", body("noisy", 1))) for _ in range(8)]
        await until("the first of them is stored", lambda: order)
        await push("small", body("small", 1, b"1"))
        await push("large", body("large", 1, PAYLOAD[:1_000_000] + b'"'))
        await asyncio.gather(*noisy)
    assert order.index("small") <= 3
    assert order.index("large") <= 5


async def test_a_body_that_finds_no_room_is_refused_after_a_while(monkeypatch):
    monkeypatch.setattr("queenmq.broker.intake.WAIT_SECONDS_MAX", 0.01)
    lane = Lane(100, 0.5)
    await lane.enter("orders", 500)
    with pytest.raises(Busy, match="no room"):
        await lane.enter("invoices", 10)
    lane.leave("orders", 500)
    await lane.enter("invoices", 10)
    assert (lane.used, lane.waiting_bytes) == (10, 0)


async def test_bodies_are_refused_at_once_while_too_many_wait():
    lane = Lane(100, 0.5)
    await lane.enter("orders", 100)
    waiting = asyncio.create_task(lane.enter("orders", 60))
    await until("the second waits", lambda: lane.waiting_bytes)
    with pytest.raises(Busy, match="too many"):
        await lane.enter("orders", 60)
    lane.leave("orders", 100)
    await waiting
    assert (lane.used, lane.waiting_bytes) == (60, 0)


async def test_a_queue_gets_its_share_and_others_overtake_it():
    lane, order = Lane(100, 0.5), []

    async def enter(queue, size):
        await lane.enter(queue, size)
        order.append((queue, size))

    async with asyncio.TaskGroup() as tasks:
        for queue, size in (("a", 40), ("a", 20), ("a", 21), ("b", 30), ("b", 25), ("c", 20)):
            tasks.create_task(enter(queue, size))
        await until("three are in, and the others wait", lambda: len(order) == 3)
        assert order == [("a", 40), ("b", 30), ("c", 20)]
        lane.leave("a", 40)
        await until("two more are in", lambda: len(order) == 5)
        lane.leave("b", 30)
        await until("all are in", lambda: len(order) == 6)
        lane.leave("a", 20)
    assert order[3:] == [("a", 20), ("a", 21), ("b", 25)]
    for queue, size in (("c", 20), ("b", 25), ("a", 21)):
        lane.leave(queue, size)
    assert lane.used == 0


async def test_a_client_that_stops_to_send_gives_up_its_room(serve):
    server = await serve(workers=1, bodies_bytes_max=1 << 20)
    content = body("orders", 1, PAYLOAD[:2_000_000] + b'"')
    async with Raw.connected(server) as stalled, server.client() as http:
        stalled.send(upload(content, sent=1_000_000))
        await stalled.sent()
        assert (await http.post("/push", content=content)).status_code == 201
        late = await stalled.answer()
        assert (late.status_code, late.json()["code"]) == (408, "BODY_TIMEOUT")


@pytest.mark.parametrize("path", ["/api/v1/push", "/api/v1/nowhere", "/api/v1/resources/queues"])
async def test_bodies_that_nobody_reads_take_no_room_for_long(serve, path):
    server = await serve(workers=1, bodies_bytes_max=1 << 20)
    content = b"[" + b" " * 700_000 + b"x"
    async with server.client() as http:
        for _ in range(20):
            async with Raw.connected(server) as client:
                client.send(upload(content, path))
                assert (await client.answer()).status_code in (400, 404, 405)
            async with Raw.connected(server) as client:
                client.send(upload(content, path, sent=600_000))
                await client.sent()
        assert (await http.post("/push", content=body("orders", 1))).status_code == 201


@pytest.mark.parametrize(
    ("path", "start", "element", "end", "status"),
    [
        ("/push/queue/orders", b"[", b"1", b"]", 413),
        ("/push", b'{"items":[', b'{"queue":"orders","payload":1}', b"]}", 413),
        ("/ack/batch", b'{"acknowledgments":[', b'{"transactionId":"t","partitionId":"p"}', b"]}", 413),
        ("/fetch", b'{"entries":[', b'{"queue":"q","partition":"p","offset":0}', b"]}", 400),
        ("/partitions/changed", b'{"entries":[', b'{"queue":"q"}', b"]}", 400),
    ],
)
async def test_a_list_with_millions_of_elements_is_refused_before_they_take_memory(
    server, http, path, start, element, end, status
):
    count = (60 << 20) // (len(element) + 1)
    answer = await http.post(path, content=start + (element + b",") * count + element + end)
    assert answer.status_code == status
    assert "more than" in answer.json()["error"]
    assert peak_mb(server) < 300


async def test_a_list_of_the_greatest_length_is_accepted(http, queue):
    most = 10_000
    for path, content in [
        (f"/push/queue/{queue}", b"[" + b"1," * (most - 1) + b"1]"),
        ("/push", json.dumps({"items": [{"queue": queue, "payload": {}}] * most}).encode()),
    ]:
        assert (await http.post(path, content=content)).status_code == 201
