"""The load generator, a process of its own: `python -m bench.http.load` with a case as JSON prints what it measured."""

import asyncio
import itertools
import json
import random
import resource
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import uvloop

from bench.harness import payloads, percentile
from bench.http.connection import Connection

API = "/api/v1"


class Popped(msgspec.Struct):
    """As much of a delivered message as an ack needs."""

    transactionId: str  # noqa: N815
    partitionId: str  # noqa: N815
    leaseId: str  # noqa: N815


class Answer(msgspec.Struct):
    messages: list[Popped]


_answer = msgspec.json.Decoder(Answer)
_results = msgspec.json.Decoder(list[dict[str, Any]])


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
        self.taken: list[float] = []  # milliseconds a request

    async def open(self) -> Connection:
        return await Connection.open(self.host, self.port, self.token)

    async def run(self, work: Callable[[Connection], Awaitable[int]], *, until_empty: bool = False) -> dict[str, Any]:
        opened = [await self.open() for _ in range(self.connections)]
        cpu = time.process_time()
        start = time.perf_counter()
        await asyncio.gather(*(self._loop(each, work, start, until_empty) for each in opened))
        seconds = time.perf_counter() - start
        for each in opened:
            each.close()
        return {
            "rate": self.messages / seconds,
            "messages": self.messages,
            "p50": percentile(self.taken, 50),
            "p99": percentile(self.taken, 99),
            "cpu": (time.process_time() - cpu) / seconds,
        }

    async def _loop(
        self,
        connection: Connection,
        work: Callable[[Connection], Awaitable[int]],
        start: float,
        until_empty: bool,  # noqa: FBT001
    ) -> None:
        now = time.perf_counter()
        while until_empty or now < start + self.seconds:
            done = await work(connection)
            after = time.perf_counter()
            self.taken.append((after - now) * 1000)
            now = after
            self.messages += done
            if until_empty and not done:
                return


def push(load: Load, batch: int, partitions: int) -> Callable[[Connection], Awaitable[int]]:
    """Push `batch` messages, each with a transaction id of its own."""
    prefix = uuid.uuid4().hex
    numbers = itertools.count()
    heads = [
        b'{"queue":"%b","partition":"p%d","payload":%b,"transactionId":"%b-'
        % (load.queue.encode(), number % partitions, text, prefix.encode())
        for number, text in enumerate(payloads())
    ]
    turn = itertools.cycle(range(0, len(heads), batch) if batch < len(heads) else [0])

    async def work(connection: Connection) -> int:
        start = next(turn)
        items = b",".join(b'%b%d"}' % (head, next(numbers)) for head in heads[start : start + batch])
        status, body = await connection.post(f"{API}/push", b'{"items":[%b]}' % items)
        assert status == 201, body
        return batch

    return work


def drain(load: Load, batch: int, group: str, partitions: int = 1) -> Callable[[Connection], Awaitable[int]]:
    """Pop a batch and acknowledge it."""
    path = f"{API}/pop/queue/{load.queue}?batch={batch}&consumerGroup={group}&partitions={partitions}"

    async def work(connection: Connection) -> int:
        status, body = await connection.get(path)
        if status == 204:
            return 0
        assert status == 200, body
        messages = _answer.decode(body).messages
        acks = {"acknowledgments": messages, "consumerGroup": group}
        status, body = await connection.post(f"{API}/ack/batch", msgspec.json.encode(acks))
        assert status == 200, body
        assert body.count(b'"success":true') == len(messages), body[:500]
        return len(messages)

    return work


async def pop(load: Load, group: str, count: int, push_first: bool) -> dict[str, Any]:  # noqa: FBT001
    """Milliseconds of pops of one message that stay leased; if asked, each after a push of one."""
    connection = await load.open()
    path = f"{API}/pop/queue/{load.queue}?consumerGroup={group}"
    taken = []
    for number in range(count):
        if push_first:
            await push(load, 1, 1)(connection)
        start = time.perf_counter()
        status, body = await connection.get(path)
        taken.append((time.perf_counter() - start) * 1000)
        assert status in (200, 204), (number, body)
    return {"p50": percentile(taken, 50), "p99": percentile(taken, 99)}


async def wake(load: Load, count: int, per_second: float, push_port: int | None = None) -> dict[str, Any]:
    """Milliseconds from the beginning of a push, perhaps to another server, to the end of the poll that brings it."""
    polling = await load.open()
    pushing = await Connection.open(load.host, push_port or load.port, load.token)
    path = f"{API}/pop/queue/{load.queue}?wait=true&timeout=30000&autoAck=true&consumerGroup=wake"
    taken = []
    for number in range(count):
        poll = polling.get(path)
        await asyncio.sleep(random.expovariate(per_second))
        start = time.perf_counter()
        items = b'{"items":[{"queue":"%b","payload":%d}]}' % (load.queue.encode(), number)
        pushed = pushing.post(f"{API}/push", items)
        status, body = await poll
        taken.append((time.perf_counter() - start) * 1000)
        assert status == 200, body
        await pushed
    return {"p50": percentile(taken, 50), "p99": percentile(taken, 99), "count": count}


async def park(load: Load, count: int) -> dict[str, Any]:
    """Park polls, tell, wait for a line, push one message, and count who was served."""
    opened = [await load.open() for _ in range(count)]
    polls = [
        each.get(f"{API}/pop/queue/{load.queue}?wait=true&timeout=120000&autoAck=true&consumerGroup=park")
        for each in opened
    ]
    print("parked", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    pushing = await load.open()
    await pushing.post(f"{API}/push", b'{"items":[{"queue":"%b","payload":1}]}' % load.queue.encode())
    await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.sleep(1)
    served = sum(poll.done() for poll in polls)
    for each in opened:
        each.close()
    return {"served": served}


def fan_out(load: Load, batch: int, group: str, groups: int) -> Callable[[Connection], Awaitable[int]]:
    """Every connection works for one of the groups."""
    works = itertools.cycle([drain(load, batch, f"{group}{number}") for number in range(groups)])
    dealt: dict[Connection, Callable[[Connection], Awaitable[int]]] = {}

    async def work(connection: Connection) -> int:
        if connection not in dealt:
            dealt[connection] = next(works)
        return await dealt[connection](connection)

    return work


LOOPS = {"push": push, "drain": drain, "fan_out": fan_out}
STORIES = {"pop": pop, "wake": wake, "park": park}


async def main(case: str, load: dict[str, Any], **options: Any) -> dict[str, Any]:
    if case in STORIES:
        return await STORIES[case](Load(**load), **options)
    generator = Load(**load)
    until_empty = options.pop("until_empty", False)
    return await generator.run(LOOPS[case](generator, **options), until_empty=until_empty)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    print(json.dumps(uvloop.run(main(**json.loads(sys.argv[1])))), flush=True)
