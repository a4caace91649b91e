"""An hour of traffic on 1,000 partitions, a second to the minute: do tables and indexes level off?"""

import asyncio
import time

import asyncpg

from bench.harness import Bench, Line
from bench.push import push
from queenmq.model import Ack, PopRequest

PARTITIONS = 1_000
MINUTES = 60
KEPT_MINUTES = 10
TABLES = ("segments", "partition_lookup", "partition_consumers")
SIZES = """
select c.relname, pg_table_size(c.oid) / 1e6 as mb, pg_indexes_size(c.oid) / 1e6 as index_mb
  from pg_class c where c.relnamespace = 'queen'::regnamespace and c.relname = any ($1)
"""
GROWTH_MAX = 1.1


async def run(bench: Bench) -> None:
    minutes = 10 if bench.quick else MINUTES
    async with bench.engine() as engine:
        connection = await asyncpg.connect(engine.database.dsn)
        await connection.execute("alter system set autovacuum_naptime = '1s'")
        await connection.execute("select pg_reload_conf()")
        work = push(engine, PARTITIONS)
        await engine.admin.configure_queue("q", completed_retention_seconds=KEPT_MINUTES)
        queue_id = (await engine.admin.queue("q")).id
        sizes: list[dict[str, tuple[float, float]]] = []
        messages = 0
        for _ in range(minutes):
            started = time.perf_counter()
            while time.perf_counter() < started + 1.0:
                messages += await work(0)
                await _drain(engine, 1_000)
            await _retain(connection, queue_id)
            sizes.append({row[0]: (float(row[1]), float(row[2])) for row in await connection.fetch(SIZES, TABLES)})
        await connection.execute("alter system reset autovacuum_naptime")
        await connection.execute("select pg_reload_conf()")
        await connection.close()
    _report(bench, sizes, messages, minutes)


async def _drain(engine: object, expected: int) -> None:
    request = PopRequest(queue="q", group="g", batch=1_000, max_partitions=200)
    left = expected

    async def consume() -> None:
        nonlocal left
        while left > 0:
            popped = await engine.pop(request)  # type: ignore[attr-defined]
            left -= len(popped.messages)
            await engine.ack([Ack.of(message) for message in popped.messages])  # type: ignore[attr-defined]
            if not popped.messages:
                await asyncio.sleep(0.001)

    await asyncio.gather(*(consume() for _ in range(4)))


async def _retain(connection: asyncpg.Connection, queue_id: int) -> None:
    cursor = None
    while True:
        step = await connection.fetchrow("select * from queen.retain($1, $2)", queue_id, cursor)
        if step["done"]:
            return
        cursor = step["cursor"]


def _report(bench: Bench, sizes: list[dict[str, tuple[float, float]]], messages: int, minutes: int) -> None:
    # Between two rounds of vacuum a table swings; what counts is how far it swings.
    third = minutes // 3
    middle = {table: max(sum(each[table]) for each in sizes[third : 2 * third]) for table in TABLES}
    end = {table: max(sum(each[table]) for each in sizes[2 * third :]) for table in TABLES}
    growth = {table: end[table] / middle[table] for table in TABLES}
    bench.report(
        Line(
            f"push, pop, ack and retention for {minutes} scaled minutes on 1,000 partitions",
            "tables and indexes level off",
            ", ".join(f"{table} {value:.2f}x" for table, value in growth.items())
            + " from the middle third to the last",
            max(growth.values()) <= GROWTH_MAX,
            f"{messages:,} messages",
        )
    )
    rows = [
        "| minute | " + " | ".join(f"{table} + indexes, MB" for table in TABLES) + " |",
        "| --- |" + " --- |" * len(TABLES),
    ]
    for minute in [*range(0, minutes, max(1, minutes // 12)), minutes - 1]:
        cells = [f"{sizes[minute][table][0]:.1f} + {sizes[minute][table][1]:.1f}" for table in TABLES]
        rows.append(f"| {minute + 1} | " + " | ".join(cells) + " |")
    bench.notes.append("### An hour of traffic, a second to the minute\n\n" + "\n".join(rows))
