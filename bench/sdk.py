"""The SDK: what it adds to raw HTTP, and direct mode next to PGMQ in the same PostgreSQL."""

import itertools
import json
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import msgspec
from pgmq.async_queue import PGMQueue
from pgmq.install import get_embedded_install_sql

from bench import sdk_file
from bench.harness import Bench, Line, median, payloads, rate
from bench.http import serving
from bench.http.connection import Connection, post
from queenmq import AsyncQueen

OVERHEAD_MAX = 0.30
OVER_PGMQ = 5.0
BATCH = 500
MANY = 1_000
TASKS = 64
ROUNDS = 5
MESSAGES = 20_000  # a round, pushed and stored

Push = Callable[[int], Awaitable[None]]


async def run(bench: Bench) -> None:
    await _overhead(bench)
    await _direct(bench)
    await sdk_file.run(bench)


async def _overhead(bench: Bench) -> None:
    """A round is so many messages, from Python objects to the last answer, one request of 500 at a time."""
    async with serving(bench) as served:
        connection = await Connection.open(served.host, served.port)
        messages = MESSAGES // 10 if bench.quick else MESSAGES
        async with AsyncQueen(f"http://{served.host}:{served.port}") as queen:
            sides: dict[str, Push] = {"raw": raw(connection), "SDK": buffered(queen)}
            taken: dict[str, list[float]] = {side: [] for side in sides}
            for _ in range(ROUNDS):
                for side, push in sides.items():
                    start = time.perf_counter()
                    await push(messages)
                    taken[side].append((time.perf_counter() - start) / messages * 1_000_000)
        connection.close()
    micros = {side: median(values) for side, values in taken.items()}
    overhead = micros["SDK"] / micros["raw"] - 1
    detail = ", ".join(f"{side} {value:.1f} µs a message" for side, value in micros.items())
    case = f"SDK, buffered producer, batches of {BATCH} over HTTP, against raw HTTP"
    bench.report(Line(case, f"under {OVERHEAD_MAX:.0%} more", f"{overhead:+.0%}", overhead < OVERHEAD_MAX, detail))


def raw(connection: Connection) -> Push:
    """The least one could do: encode, one request, look at the status."""
    objects = [json.loads(text) for text in payloads()]
    prefix = uuid.uuid4().hex
    numbers = itertools.count()
    request = post("/api/v1/push")

    async def push(messages: int) -> None:
        for begin in range(0, messages, BATCH):
            items = [
                {"queue": "raw", "payload": objects[n % len(objects)], "transactionId": f"{prefix}-{next(numbers)}"}
                for n in range(begin, begin + BATCH)
            ]
            status, body = await connection.ask(request(msgspec.json.encode({"items": items})))
            assert status == 201, body

    return push


def buffered(queen: AsyncQueen) -> Push:
    """The same objects, one by one, through a producer."""
    objects = [json.loads(text) for text in payloads()]

    async def push(messages: int) -> None:
        async with queen.producer(batch_messages=BATCH) as producer:
            for n in range(messages):
                await producer.push("sdk", objects[n % len(objects)])

    return push


async def _direct(bench: Bench) -> None:
    dsn = await bench.database()
    pool = await asyncpg.create_pool(dsn, min_size=TASKS, max_size=TASKS)
    await pool.execute(get_embedded_install_sql())
    pgmq = PGMQueue(pool=pool, init_extension=False)
    await pgmq.create_queue("peer")
    objects: list[Any] = [json.loads(text) for text in payloads()][:MANY]
    async with AsyncQueen(dsn) as queen:
        queue = queen.queue("ours")

        async def push_many(_: int) -> int:
            return len(await queue.push_many(objects))

        async def send_batch(_: int) -> int:
            return len(await pgmq.send_batch("peer", objects))

        async def push(task: int) -> int:
            await queue.push(objects[task])
            return 1

        async def send(task: int) -> int:
            await pgmq.send("peer", objects[task])
            return 1

        await _compare(bench, f"direct mode, push_many({MANY:,}), one after the other", 1, push_many, send_batch)
        await _compare(bench, f"direct mode, single pushes, {TASKS} tasks", TASKS, push, send)
    await pool.close()
    await bench.drop(dsn)


async def _compare(
    bench: Bench, case: str, tasks: int, ours: Callable[[int], Awaitable[int]], peer: Callable[[int], Awaitable[int]]
) -> None:
    sides = {"Queen": ours, "PGMQ": peer}
    measured: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(ROUNDS):
        for side, work in sides.items():
            measured[side].append(await rate(bench.seconds, tasks, work))
    figures = {side: median(values) for side, values in measured.items()}
    times = figures["Queen"] / figures["PGMQ"]
    detail = ", ".join(f"{side} {value:,.0f}/s" for side, value in figures.items())
    bench.report(Line(case, f"{OVER_PGMQ:.0f}x PGMQ", f"{times:.1f}x", times >= OVER_PGMQ, detail))
