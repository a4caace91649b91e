"""Eight processes on one queue die at random, for half a minute; then their diaries and the log must agree.

    QUEEN_TEST_CHAOS_SECONDS=300 QUEEN_TEST_CHAOS_SEED=7 make test ARGS='tests/faults/test_chaos.py -s'

The seed decides what the processes do and when they die, not how the machine mixes it.
"""

import asyncio
import os
import random
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.engine.embedded import EmbeddedPostgres
from queenmq.model import Ack, PopRequest
from tests.books import assert_the_books_balance
from tests.faults.chaos.diary import Diary, read
from tests.faults.chaos.history import History
from tests.faults.chaos.verdict import complaints
from tests.faults.chaos.worker import GROUPS, ORDERS, PARTITIONS, RECEIPTS
from tests.faults.log import stored
from tests.fixtures.clusters import server_dir

PROCESSES = 8
SECONDS = float(os.environ.get("QUEEN_TEST_CHAOS_SECONDS", "30"))
DRAIN = "drain"
DRAIN_SECONDS_MAX = 60
DRAIN_LEASE_SECONDS = 60.0
ROOT = Path(__file__).parents[2]

OTHERS = "select count(*) from pg_stat_activity where datname = current_database() and pid <> all ($1)"
DEADLOCKS = "select deadlocks from pg_stat_database where datname = current_database()"
LEFT = "select coalesce(sum(pending + leased), 0) from queen.ledger where queue = $1 and group_name = $2"


@pytest.fixture
def durable_postgres():
    """A server for this test alone, as careful as servers are by default."""
    with server_dir() as directory, EmbeddedPostgres(directory / "data") as postgres:
        yield postgres


class Crowd:
    """The processes; whoever dies is replaced by one who knows what it left unfinished."""

    def __init__(self, dsn: str, directory: Path, dice: random.Random) -> None:
        self.killed = 0
        self._dsn = dsn
        self._directory = directory
        self._dice = dice
        self._numbers = count()
        self._workers = [self._start() for _ in range(PROCESSES)]

    def shake(self) -> None:
        """Wait for a random time, kill a random process, start another."""
        place = self._dice.randrange(PROCESSES)
        name, process = self._workers[place]
        try:
            code = process.wait(timeout=self._dice.uniform(0.5, 1.5))
            pytest.fail(f"{name} ended by itself with {code}; see above")
        except subprocess.TimeoutExpired:
            self._kill(process)
            self.killed += 1
            self._workers[place] = self._start(name)

    def end(self) -> None:
        for _, process in self._workers:
            self._kill(process)

    def _start(self, *predecessor: str) -> tuple[str, subprocess.Popen[bytes]]:
        name = f"w{next(self._numbers)}"
        arguments = [self._dsn, name, str(self._directory), str(self._dice.getrandbits(32)), *predecessor]
        return name, subprocess.Popen([sys.executable, "-m", "tests.faults.chaos.worker", *arguments], cwd=ROOT)

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()


def live_and_let_die(dsn: str, directory: Path, dice: random.Random) -> int:
    """Chaos, for a while; answers how many were killed in it."""
    crowd = Crowd(dsn, directory, dice)
    try:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            crowd.shake()
    finally:
        crowd.end()
    return crowd.killed


async def drain(engine: Engine, connection: Any, diary: Diary, group: str) -> None:
    """Read and complete what is left, and write it down like everybody else."""
    request = PopRequest(
        queue=ORDERS, group=group, batch=1_000, max_partitions=len(PARTITIONS), lease_seconds=DRAIN_LEASE_SECONDS
    )
    while await connection.fetchval(LEFT, ORDERS, group):
        call = diary.intend("pop", group=group)
        popped = await engine.pop(request, wait_seconds=0.5)
        diary.popped(call, group, popped, DRAIN_LEASE_SECONDS)
        if popped.messages:
            acks = [[m.lease.partition, m.offset, "completed"] for m in popped.messages]
            call = diary.intend("ack", group=group, lease=str(popped.leases[0].id), acks=acks)
            answers = await engine.ack([Ack.of(message) for message in popped.messages])
            diary.answer(call, "ack", accepted=[answer.accepted for answer in answers])


async def end_of_the_story(dsn: str, directory: Path) -> dict[tuple[str, str], list[Any]]:
    """When the last of the dead has fallen silent: empty the inbox, read what is left; answers the log."""
    connection = await asyncpg.connect(dsn)
    try:
        async with asyncio.timeout(DRAIN_SECONDS_MAX):
            while await connection.fetchval(OTHERS, [connection.get_server_pid()]):
                pass  # a killed process's last statement may still be running
            async with Engine(dsn, Settings()) as one, Engine(dsn, Settings()) as other:
                while await connection.fetchval("select exists (select from queen.inbox)"):
                    pass  # whoever leads now moves them
                for engine, group in zip((one, other), GROUPS, strict=True):
                    await drain(engine, connection, Diary(directory / f"{DRAIN}-{group}", f"{DRAIN}/{group}"), group)
        await assert_the_books_balance(connection, await connection.fetchval("select clock_timestamp()"))
        assert await connection.fetchval("select queen.resync_partition_lookup()") == 0
        assert await connection.fetchval(DEADLOCKS) == 0
        return await stored(connection)
    finally:
        await connection.close()


def test_eight_processes_that_die_at_random_lose_nothing_repeat_nothing_and_break_no_order(durable_postgres, tmp_path):
    seed = int(os.environ.get("QUEEN_TEST_CHAOS_SEED", random.randrange(2**32)))
    print(f"QUEEN_TEST_CHAOS_SEED={seed}")  # noqa: T201 (shown when it fails, and with -s)

    async def prepare() -> str:
        dsn = await durable_postgres.create_database("queen")
        async with Engine(dsn, Settings(upkeep=False)) as engine:
            # Nothing is given up, so that everything has to arrive.
            await engine.admin.configure_queue(ORDERS, retry_limit=1_000, retry_delay_ms=20)
        return dsn

    dsn = asyncio.run(prepare())
    killed = live_and_let_die(dsn, tmp_path, random.Random(seed))
    log = asyncio.run(end_of_the_story(dsn, tmp_path))
    orders, receipts = ({p: values for (q, p), values in log.items() if q == queue} for queue in (ORDERS, RECEIPTS))
    history = History(read(tmp_path.iterdir()), orders, receipts)
    print(summary(history, killed))  # noqa: T201
    assert complaints(history, GROUPS, DRAIN) == []
    assert killed >= SECONDS / 3
    for what in ("push", "outbox", "ack", "transact", "renew", "release"):
        assert any(call.answer is not None for call in history.of(what)), f"no {what} was answered"


def summary(history: History, killed: int) -> str:
    """What it was all about, in numbers."""
    deliveries = [
        (hand, offset) for hand, leases in history.leases.items() for lease in leases for offset in lease.messages
    ]
    drained = sum(len(lease.messages) for *_, lease, _ in history.handed() if lease.call.startswith(DRAIN))
    unanswered = sum(call.answer is None for call in history.calls)
    return (
        f"{sum(map(len, history.orders.values()))} pushed, {len(deliveries)} delivered, "
        f"{len(deliveries) - len(set(deliveries))} of them again, {drained} of them in the end, "
        f"{sum(map(len, history.receipts.values()))} receipts, {len(history.calls)} calls, "
        f"{unanswered} unanswered, {killed} processes killed"
    )
