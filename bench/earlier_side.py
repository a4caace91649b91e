"""One side of the case `earlier`, as a program of its own: pushes for a while, then pops and acknowledges all of it.

    python bench/earlier_side.py DSN SECONDS

It prints one line of JSON. It imports nothing of `bench`, so that it also measures another version of Queen: the one
in PYTHONPATH.
"""

import asyncio
import json
import sys
import time

import uvloop

from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.model import Ack, Outgoing, PopRequest

PARTITIONS = 100
BATCH = 100
TASKS = 16
PAYLOAD = b'{"text":"' + b"x" * 245 + b'"}'
QUEUE = "earlier"


async def main(dsn: str, seconds: float) -> None:
    async with Engine(dsn, Settings.load({}, upkeep="false")) as engine:
        await _push(engine, 0.5)
        pushed, push_seconds = await _push(engine, seconds)
        drained, drain_seconds = await _drain(engine)
        assert drained >= pushed
    print(json.dumps({"push": pushed / push_seconds, "drain": drained / drain_seconds}))


async def _push(engine: Engine, seconds: float) -> tuple[int, float]:
    began = time.perf_counter()
    counts = [0] * TASKS

    async def task(number: int) -> None:
        turn = 0
        while time.perf_counter() - began < seconds:
            turn += 1
            partition = str((number + turn * TASKS) % PARTITIONS)
            counts[number] += len(await engine.push([Outgoing(QUEUE, PAYLOAD, partition)] * BATCH))

    await asyncio.gather(*map(task, range(TASKS)))
    return sum(counts), time.perf_counter() - began


async def _drain(engine: Engine) -> tuple[int, float]:
    began = time.perf_counter()
    counts = [0] * TASKS

    async def task(number: int) -> None:
        while True:
            popped = await engine.pop(PopRequest(queue=QUEUE, group="g", batch=BATCH))
            if not popped.messages:
                return
            counts[number] += len(popped.messages)
            await engine.ack([Ack.of(each, "completed") for each in popped.messages])

    await asyncio.gather(*map(task, range(TASKS)))
    return sum(counts), time.perf_counter() - began


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], float(sys.argv[2])))
