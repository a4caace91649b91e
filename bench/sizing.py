"""What steady traffic needs: cores, memory and disk of a server and of PostgreSQL, at rates that are given.

A producer pushes at a fixed rate, and consumers pop and acknowledge all of it. Both are in this process, and what they
use of the processor does not count. The rows of the report are those of the table in docs/deployment.md.
"""

import asyncio
import json
import os
import random
import time
from pathlib import Path

import asyncpg

from bench.harness import Bench, Line, payloads
from bench.http import Served, serving
from queenmq import AsyncQueen

STEADY = ((100, 1), (1_000, 10), (10_000, 100), (20_000, 100))  # messages a second, and in each push
PARTITIONS = 100
LANES = 4  # of the producer
CONSUMERS = 4
SECONDS = 20.0
DAY_SECONDS = 86_400
TICKS = os.sysconf("SC_CLK_TCK")


async def run(bench: Bench) -> None:
    for per_second, batch in STEADY[:1] if bench.quick else STEADY:
        async with serving(bench) as served:
            await _measure(bench, served, per_second, batch)


async def _measure(bench: Bench, served: Served, per_second: int, batch: int) -> None:
    connection = await asyncpg.connect(served.dsn)
    seconds = 1.0 if bench.quick else SECONDS
    async with AsyncQueen(f"http://{served.host}:{served.port}") as queen:
        done = asyncio.Event()
        consumers = [asyncio.create_task(_consume(queen, done)) for _ in range(CONSUMERS)]
        await _produce(queen, per_second, batch, 1.0)  # what is made once is made before
        before = await _state(bench, served, connection)
        start = time.perf_counter()
        pushed = await _produce(queen, per_second, batch, seconds)
        took = time.perf_counter() - start
        after = await _state(bench, served, connection)
        done.set()
        backlog = await connection.fetchval("select coalesce(sum(messages), 0) from queen.lag")
        await asyncio.gather(*consumers)
    await connection.close()
    server, postgres, wal, stored = ((now - then) for now, then in zip(after, before, strict=True))
    per_day = DAY_SECONDS * per_second / pushed / 1e9
    bench.report(
        Line(
            f"{per_second:,}/s in pushes of {batch}",
            "for the table",
            f"{pushed / took:,.0f}/s",
            None,
            f"server {server / took:.2f} cores, {served.memory_mb():.0f} MB; PostgreSQL {postgres / took:.2f} cores; "
            f"a day: {stored * per_day:.1f} GB of messages, {wal * per_day:.1f} GB of log; {backlog} left",
        )
    )


async def _produce(queen: AsyncQueen, per_second: int, batch: int, seconds: float) -> int:
    """Push at the rate, over several lanes."""
    return sum(await asyncio.gather(*(_lane(queen, per_second / LANES, batch, seconds) for _ in range(LANES))))


async def _lane(queen: AsyncQueen, per_second: float, batch: int, seconds: float) -> int:
    orders = list(map(json.loads, payloads()))
    pushed = 0
    start = time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        early = pushed / per_second - elapsed
        if early > 0:
            await asyncio.sleep(min(early, seconds - elapsed))
        else:
            lane = queen.queue("steady").partition(f"p{random.randrange(PARTITIONS)}")
            await lane.push_many(orders[pushed % len(orders) :][:batch])
            pushed += batch
    return pushed


async def _consume(queen: AsyncQueen, done: asyncio.Event) -> None:
    source = queen.queue("steady").group("readers").batch(100).wait(1)
    while not done.is_set():
        if messages := await source.pop():
            await queen.ack_many(messages)


async def _state(bench: Bench, served: Served, connection: asyncpg.Connection) -> tuple[float, float, int, int]:
    """Seconds of the processor that the server and PostgreSQL have used, and bytes of the log and of messages."""
    postmaster = int((bench.server.pgdata / "postmaster.pid").read_text().split()[0])
    wal, stored = await connection.fetchrow(
        "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint, pg_total_relation_size('queen.segments')"
    )
    return served.cpu_seconds(), _cpu_seconds(postmaster), wal, stored


def _cpu_seconds(pid: int) -> float:
    """Of a process, its children, and those of them that have ended."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if path.parent.name == str(pid):
            total += sum(map(int, fields[11:15]))
        elif fields[1] == str(pid):
            total += sum(map(int, fields[11:13]))
    return total / TICKS
