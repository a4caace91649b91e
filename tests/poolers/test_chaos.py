"""Server processes of PostgreSQL and the pooler itself are killed under load; then diaries and log must agree.

QUEEN_TEST_CHAOS_SECONDS=300 QUEEN_TEST_CHAOS_SEED=7 make test ARGS='tests/poolers/test_chaos.py -s'
"""

import asyncio
import random
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from time import monotonic

import asyncpg
import pytest

from queenmq.config import Settings
from queenmq.engine import Engine
from tests.faults.chaos.diary import Diary
from tests.faults.chaos.story import DRAIN, SECONDS, beginning_of_the_story, end_of_the_story, seed, summary
from tests.faults.chaos.verdict import complaints
from tests.faults.chaos.worker import GROUPS, Worker
from tests.fixtures.pgbouncer import poolers
from tests.poolers.conftest import Pooled

CHAOS_SECONDS = SECONDS / 2  # in each mode
ENGINES = 2
WORKERS = 3  # of each engine
END_SECONDS_MAX = 60

OURS = "select pid from pg_stat_activity where datname = current_database() and application_name = 'queen'"


class Chaos:
    """Engines behind a pooler, and what strikes them."""

    def __init__(self, pooled: Pooled, dsn: str, directory: Path, dice: random.Random) -> None:
        self.struck: Counter[str] = Counter()
        self._pooled = pooled
        self._dsn = dsn
        self._directory = directory
        self._dice = dice

    async def run(self) -> None:
        """Work and strikes, for a while."""
        async with AsyncExitStack() as stack:
            watcher = await asyncpg.connect(self._dsn)
            stack.push_async_callback(watcher.close)
            work = [each for number in range(ENGINES) for each in await self._open(stack, f"e{number}")]
            end = monotonic() + CHAOS_SECONDS
            try:
                while monotonic() < end:
                    await self._wait(work)
                    await self._strike(watcher)
            finally:
                for each in work:
                    each.cancel()
                await asyncio.gather(*work, return_exceptions=True)

    async def _open(self, stack: AsyncExitStack, name: str) -> list[asyncio.Task[None]]:
        engine = await stack.enter_async_context(Engine(self._pooled.dsn, Settings(**self._pooled.settings)))
        work = []
        for number in range(WORKERS):
            own = f"{name}.{number}"
            outbox = await asyncpg.connect(self._dsn)  # the application's own, which nobody strikes
            stack.push_async_callback(outbox.close)
            worker = Worker(own, engine, outbox, Diary(self._directory / own, own), random.Random(self._dice.random()))
            work.append(asyncio.create_task(worker.run()))
        return work

    async def _wait(self, work: list[asyncio.Task[None]]) -> None:
        """Let some time pass; no work ends by itself."""
        done, _ = await asyncio.wait(work, timeout=self._dice.uniform(0.05, 0.4), return_when="FIRST_COMPLETED")
        for each in done:
            each.result()
            pytest.fail("a worker has ended")

    async def _strike(self, watcher: asyncpg.Connection) -> None:
        if self._dice.random() < 0.1:
            self.struck["pooler"] += 1
            await asyncio.to_thread(self._pooled.pooler.restart)
        elif pids := [row["pid"] for row in await watcher.fetch(OURS)]:
            self.struck["process"] += 1
            await watcher.fetchval("select pg_terminate_backend($1)", self._dice.choice(pids))


async def test_a_pooler_and_processes_that_are_killed_lose_nothing_repeat_nothing_and_break_no_order(
    durable_postgres, tmp_path, mode
):
    dice = random.Random(seed())
    dsn = await beginning_of_the_story(durable_postgres)
    with poolers(dsn) as start:
        chaos = Chaos(Pooled.of(start(mode), mode, dsn), dsn, tmp_path, dice)
        await chaos.run()
    history = await end_of_the_story(dsn, tmp_path)
    print(f"{mode}: {summary(history)}, struck: {dict(chaos.struck)}")  # noqa: T201
    assert complaints(history, GROUPS, DRAIN) == []
    assert chaos.struck.keys() == {"pooler", "process"}
    for what in ("push", "outbox", "ack", "transact", "renew", "release"):
        assert any(call.answer is not None for call in history.of(what)), f"no {what} was answered"
