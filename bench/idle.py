"""What an engine costs the database when nothing happens."""

import asyncio

import asyncpg

from bench.harness import Bench, Line
from queenmq.model import Outgoing, PopRequest

POLLS = 1_000
TRANSACTIONS = "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"


async def run(bench: Bench) -> None:
    seconds = 5.0 if bench.quick else 30.0
    async with bench.engine(upkeep=True) as engine:
        await engine.push([Outgoing(f"q{number}", b"1") for number in range(POLLS)])
        for number in range(POLLS):
            await engine.pop(PopRequest(queue=f"q{number}", group="idle", auto_ack=True))
        polls = [
            asyncio.create_task(engine.pop(PopRequest(queue=f"q{number}", group="idle"), wait_seconds=3_000))
            for number in range(POLLS)
        ]
        await asyncio.sleep(15)  # until the fallback poll has backed off
        watcher = await asyncpg.connect(engine.database.dsn)
        before = await _transactions(watcher)
        await asyncio.sleep(seconds)
        calls = (await _transactions(watcher) - before) / seconds
        await watcher.close()
        bench.report(
            Line(
                f"idle engine with {POLLS:,} parked long polls on {POLLS:,} queues",
                "under 5 database calls per second",
                f"{calls:.1f} per second",
                calls < 5,
                "counted by PostgreSQL as transactions, upkeep included",
            )
        )
        for poll in polls:
            poll.cancel()
        await asyncio.gather(*polls, return_exceptions=True)


async def _transactions(connection: asyncpg.Connection) -> int:
    await connection.execute("select pg_stat_clear_snapshot()")
    return int(await connection.fetchval(TRANSACTIONS))
