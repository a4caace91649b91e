"""Drain by pop and ack, against the push that filled the queue."""

import asyncio
import time

from bench.harness import Bench, Line, median
from bench.push import push
from queenmq.engine import Engine
from queenmq.model import PopRequest

CONSUMERS = 16
IN_FLIGHT = 2  # pushes
ROUNDS = 3


async def run(bench: Bench) -> None:
    for partitions in (10, 1_000):
        for batch in (100, 1_000):
            pushed, drained = [], []
            for _ in range(ROUNDS):
                async with bench.engine(push_calls_max=IN_FLIGHT) as engine:
                    filled, seconds = await _fill(engine, partitions, bench.seconds)
                    pushed.append(filled / seconds)
                    drained.append(filled / await _drain(engine, filled, batch))
            ratio = median([drain / push for push, drain in zip(pushed, drained, strict=True)])
            bench.report(
                Line(
                    f"pop+ack drain, batch {batch:,}, {partitions:,} partitions",
                    "the push rate of the same case",
                    f"{ratio:.2f}x",
                    ratio >= 1,
                    f"push {median(pushed):,.0f}/s, drain {median(drained):,.0f}/s",
                )
            )


async def _fill(engine: Engine, partitions: int, seconds: float) -> tuple[int, float]:
    work = push(engine, partitions)
    start = time.perf_counter()
    count = 0

    async def loop(worker: int) -> None:
        nonlocal count
        while time.perf_counter() < start + seconds:
            more = await work(worker)
            count += more

    await asyncio.gather(*(loop(worker) for worker in range(IN_FLIGHT)))
    return count, time.perf_counter() - start


async def _drain(engine: Engine, expected: int, batch: int) -> float:
    """Seconds until all is acknowledged, as the server does it; consumers wait where there is nothing to take."""
    request = PopRequest(queue="q", group="drain", batch=batch)
    left = expected
    start = time.perf_counter()
    drained = asyncio.Event()

    async def consume() -> None:
        nonlocal left
        while True:
            popped = await engine.pop(request, wait_seconds=60)
            payloads = [payload for run in popped.runs for payload in run.picked(run.segment.payloads)]
            offsets = [offset for run in popped.runs for offset in run.offsets]
            for lease in popped.leases:  # one, as no more was asked for
                assert lease.id is not None
                await engine.complete(lease.partition_id, lease.group_id, lease.id, offsets)
            left -= len(payloads)
            if left <= 0:
                drained.set()

    consumers = [asyncio.create_task(consume()) for _ in range(CONSUMERS)]
    await drained.wait()
    seconds = time.perf_counter() - start
    for consumer in consumers:
        consumer.cancel()
    await asyncio.gather(*consumers, return_exceptions=True)
    return seconds
