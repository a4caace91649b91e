"""The load generator, a process of its own: `python -m bench.http.load` with a case as JSON prints what it measured."""

import asyncio
import itertools
import json
import random
import resource
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import uvloop

from bench.harness import payloads, percentile
from bench.http.connection import Answer, Connection, Talk, get, post

API = "/api/v1"

Piece = Callable[[], Generator[bytes, Answer, int]]  # some requests, and how many messages they were about
Work = Callable[[], Piece]  # a connection's own


class Load:
    """One measurement: `connections` loops of one kind of work for some seconds."""

    def __init__(
        self, host: str, port: int, queue: str, connections: int = 1, seconds: float = 3.0, token: str | None = None
    ) -> None:
        self.host = host
        self.port = port
        self.queue = queue
        self.token = token
        self.connections = connections
        self.seconds = seconds
        self.messages = 0
        self.last = 0.0  # when the last of them were done: a queue that was drained before the end is not waited for
        self.taken: list[float] = []  # milliseconds a piece of work

    async def open(self) -> Connection:
        return await Connection.open(self.host, self.port)

    def get(self, path: str) -> bytes:
        return get(API + path, self.token)

    def post(self, path: str) -> Callable[[bytes], bytes]:
        return post(API + path, self.token)

    async def run(self, work: Work, *, until_empty: bool = False) -> dict[str, Any]:
        opened = [await self.open() for _ in range(self.connections)]
        cpu = time.process_time()
        start = self.last = time.perf_counter()
        end = float("inf") if until_empty else start + self.seconds
        await asyncio.gather(*(each.converse(self._loop(work(), end, until_empty=until_empty)) for each in opened))
        seconds = self.last - start
        for each in opened:
            each.close()
        return {
            "rate": self.messages / seconds if seconds else 0.0,
            "messages": self.messages,
            "p50": percentile(self.taken, 50),
            "p99": percentile(self.taken, 99),
            "cpu": (time.process_time() - cpu) / (time.perf_counter() - start),
        }

    def _loop(self, work: Piece, end: float, *, until_empty: bool) -> Talk:
        now = time.perf_counter()
        while now < end:
            done = yield from work()
            after = time.perf_counter()
            self.taken.append((after - now) * 1000)
            now = after
            if done:
                self.messages += done
                self.last = after
            elif until_empty:
                return


def push(load: Load, batch: int, partitions: int) -> Work:
    """Push `batch` messages, each with a transaction id of its own."""
    prefix = uuid.uuid4().hex
    items = [
        b'{"queue":"%b","partition":"p%d","payload":%b,"transactionId":"%b-%%d"}'
        % (load.queue.encode(), number % partitions, text.replace(b"%", b"%%"), prefix.encode())
        for number, text in enumerate(payloads())
    ]
    bodies = [b'{"items":[%b]}' % b",".join(items[start : start + batch]) for start in range(0, len(items), batch)]
    turn = itertools.cycle(bodies)
    numbers = itertools.count(step=batch)
    request = load.post("/push")

    def work() -> Generator[bytes, Answer, int]:
        number = next(numbers)
        status, body = yield request(next(turn) % (*range(number, number + batch),))
        assert status == 201, body
        return batch

    return lambda: work


def drain(load: Load, batch: int, group: str) -> Work:
    """Pop a batch of one partition and acknowledge it, with as little of its own as will do: reading JSON would take
    as long as the server takes to write it."""
    pop = load.get(f"/pop/queue/{load.queue}?batch={batch}&consumerGroup={group}")
    ack = load.post("/ack/batch")
    end = b'"}],"consumerGroup":"%b"}' % group.encode()

    def work() -> Generator[bytes, Answer, int]:
        status, body = yield pop
        if status == 204:
            return 0
        assert status == 200, body
        head, *messages = body.split(b'"transactionId":"')
        lease = b'","partitionId":"%b","leaseId":"%b' % (_text(head, b"partitionId"), _text(head, b"leaseId"))
        names = [each[: each.index(b'"')] for each in messages]
        acks = (lease + b'"},{"transactionId":"').join(names)
        status, body = yield ack(b'{"acknowledgments":[{"transactionId":"%b%b%b' % (acks, lease, end))
        assert status == 200, body
        assert body.count(b'"success":true') == len(messages), body[:500]
        return len(messages)

    return lambda: work


def take(load: Load, batch: int, group: str, partitions: int) -> Work:
    """Take messages for good."""
    pop = load.get(f"/pop/queue/{load.queue}?batch={batch}&consumerGroup={group}&partitions={partitions}&autoAck=true")

    def work() -> Generator[bytes, Answer, int]:
        status, body = yield pop
        assert status in (200, 204), body
        return body.count(b'"transactionId":')

    return lambda: work


def _text(json: bytes, name: bytes) -> bytes:
    """The first text of that name."""
    return json.partition(b'"%b":"' % name)[2].partition(b'"')[0]


async def pop(load: Load, group: str, count: int, push_first: bool) -> dict[str, Any]:  # noqa: FBT001
    """Milliseconds of pops of one message that stay leased; if asked, each after a push of one."""
    connection = await load.open()
    request = load.get(f"/pop/queue/{load.queue}?consumerGroup={group}")
    push = load.post("/push")
    taken = []
    for number in range(count):
        if push_first:
            await connection.ask(push(b'{"items":[{"queue":"%b","partition":"p0","payload":1}]}' % load.queue.encode()))
        start = time.perf_counter()
        status, body = await connection.ask(request)
        taken.append((time.perf_counter() - start) * 1000)
        assert status in (200, 204), (number, body)
    return {"p50": percentile(taken, 50), "p99": percentile(taken, 99)}


async def wake(load: Load, count: int, per_second: float, push_port: int | None = None) -> dict[str, Any]:
    """Milliseconds from the beginning of a push, perhaps to another server, to the end of the poll that brings it."""
    polling = await load.open()
    pushing = await Connection.open(load.host, push_port or load.port)
    request = load.get(f"/pop/queue/{load.queue}?wait=true&timeout=30000&autoAck=true&consumerGroup=wake")
    push = load.post("/push")
    taken = []
    for number in range(count):
        poll = polling.ask(request)
        await asyncio.sleep(random.expovariate(per_second))
        start = time.perf_counter()
        items = b'{"items":[{"queue":"%b","payload":%d}]}' % (load.queue.encode(), number)
        pushed = pushing.ask(push(items))
        status, body = await poll
        taken.append((time.perf_counter() - start) * 1000)
        assert status == 200, body
        await pushed
    return {"p50": percentile(taken, 50), "p99": percentile(taken, 99), "count": count}


async def park(load: Load, count: int) -> dict[str, Any]:
    """Park polls, tell, wait for a line, push one message, and count who was served."""
    opened = [await load.open() for _ in range(count)]
    request = load.get(f"/pop/queue/{load.queue}?wait=true&timeout=120000&autoAck=true&consumerGroup=park")
    polls = [each.ask(request) for each in opened]
    print("parked", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    pushing = await load.open()
    await pushing.ask(load.post("/push")(b'{"items":[{"queue":"%b","payload":1}]}' % load.queue.encode()))
    await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.sleep(1)
    served = sum(poll.done() for poll in polls)
    for each in opened:
        each.close()
    return {"served": served}


def fan_out(load: Load, batch: int, group: str, groups: int) -> Work:
    """Every connection works for one of the groups."""
    works = itertools.cycle([drain(load, batch, f"{group}{number}")() for number in range(groups)])
    return lambda: next(works)


LOOPS: dict[str, Callable[..., Work]] = {"push": push, "drain": drain, "take": take, "fan_out": fan_out}
STORIES: dict[str, Callable[..., Awaitable[dict[str, Any]]]] = {"pop": pop, "wake": wake, "park": park}


async def main(case: str, load: dict[str, Any], **options: Any) -> dict[str, Any]:
    if case in STORIES:
        return await STORIES[case](Load(**load), **options)
    generator = Load(**load)
    until_empty = options.pop("until_empty", False)
    return await generator.run(LOOPS[case](generator, **options), until_empty=until_empty)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    print(json.dumps(uvloop.run(main(**json.loads(sys.argv[1])))), flush=True)
