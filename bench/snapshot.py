"""Throughput while a transaction is held open elsewhere, so that nothing dead can be removed."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import asyncpg

from bench.harness import Bench, Line, median
from bench.push import push
from queenmq.model import Ack, PopRequest

ASKED = 0.9
PARTITIONS = 100
CONSUMERS = 4
ROUNDS = 3


async def run(bench: Bench) -> None:
    seconds = bench.seconds * 4
    measured: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(ROUNDS):
        for held in (False, True):
            measured[held].append(await _through(bench, seconds, held=held))
    free, pinned = median(measured[False]), median(measured[True])
    bench.report(
        Line(
            f"push, pop and ack for {seconds:.0f} s with a transaction held open",
            f"within {1 - ASKED:.0%} of without",
            f"{pinned / free:.0%}",
            pinned / free >= ASKED,
            f"without {free:,.0f}/s, with {pinned:,.0f}/s through {PARTITIONS} partitions",
        )
    )


async def _through(bench: Bench, seconds: float, *, held: bool) -> float:
    """Messages per second that went all the way: pushed, popped and acknowledged."""
    async with bench.engine() as engine, _held_open(engine.database.dsn, held=held):
        work = push(engine, PARTITIONS)
        done = 0
        waiting = asyncio.Semaphore(8)  # flushes pushed and not yet consumed: the queue stays short
        start = time.perf_counter()

        async def produce() -> None:
            while time.perf_counter() < start + seconds:
                await waiting.acquire()
                await work(0)

        async def consume() -> None:
            nonlocal done
            request = PopRequest(queue="q", group="g", batch=100, max_partitions=10)
            while time.perf_counter() < start + seconds:
                popped = await engine.pop(request, wait_seconds=0.2)
                if popped.messages:
                    await engine.ack([Ack.of(message) for message in popped.messages])
                    before, done = done, done + len(popped.messages)
                    for _ in range(done // 1_000 - before // 1_000):
                        waiting.release()
            waiting.release()  # nobody is left to wait for

        await engine.pop(PopRequest(queue="q", group="g"))
        await asyncio.gather(produce(), *(consume() for _ in range(CONSUMERS)))
        return done / (time.perf_counter() - start)


@contextlib.asynccontextmanager
async def _held_open(dsn: str, *, held: bool) -> AsyncIterator[None]:
    connection = await asyncpg.connect(dsn)
    try:
        if held:
            await connection.execute("begin isolation level repeatable read")
            await connection.execute("select pg_current_xact_id(), count(*) from queen.queues")
        yield
    finally:
        await connection.close()
