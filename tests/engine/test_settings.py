"""Every setting changes what an engine or a server does; those without a test elsewhere have theirs here."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from queenmq.config import Settings
from queenmq.engine.postgres.database import Database
from queenmq.engine.upkeep.services import Calls, IdlePartitions, Retention, Stats, Ticks
from queenmq.engine.waiting import CHANNEL
from tests.engine.shorthand import HOUR_MS, messages, most_blocked, parked, pop, until

pytestmark = pytest.mark.every_postgres

NOT_THE_ENGINES = {"dsn", "data_dir"}  # which PostgreSQL there is, is decided before there is an engine


def test_every_setting_has_a_test():
    directories = [Path(__file__).parents[1] / name for name in ("engine", "broker", "client", "poolers")]
    tests = "".join(path.read_text() for directory in directories for path in directory.glob("test_*.py"))
    assert [name for name in Settings.__struct_fields__ if name not in tests and name not in NOT_THE_ENGINES] == []


@pytest.mark.parametrize("calls", [1, 3])
async def test_push_calls_max_is_how_many_pushes_are_in_flight(open_engine, connection, calls):
    engine = await open_engine(push_calls_max=calls, push_messages_max=1)
    await engine.push([each for n in range(8) for each in messages("orders", n, partition=str(n))])
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("lock table queen.partition_lookup in access exclusive mode")
    pushes = [asyncio.create_task(engine.push(messages("orders", n, partition=str(n)))) for n in range(8)]
    seen = await most_blocked(connection, calls)
    await transaction.rollback()
    assert [push[0].offset for push in await asyncio.gather(*pushes)] == [1] * 8
    assert seen == calls


async def test_poll_interval_max_ms_is_where_the_back_off_ends(open_engine):
    often = await open_engine(poll_interval_min_ms=10, poll_interval_max_ms=10)
    rarely = await open_engine(poll_interval_min_ms=10, poll_interval_max_ms=HOUR_MS)
    polls = [asyncio.create_task(pop(engine, "orders", wait_seconds=50)) for engine in (often, rarely)]
    await until(lambda: often.waiting.checks_missed >= 50)
    assert 1 <= rarely.waiting.checks_missed <= 12  # 10, 20, 40, … milliseconds
    for poll in polls:
        poll.cancel()


async def test_poll_interval_min_ms_is_where_the_back_off_begins(open_engine):
    soon = await open_engine(poll_interval_min_ms=10, poll_interval_max_ms=HOUR_MS)
    late = await open_engine(poll_interval_min_ms=HOUR_MS, poll_interval_max_ms=HOUR_MS)
    polls = [asyncio.create_task(pop(engine, "orders", wait_seconds=50)) for engine in (late, soon)]
    await until(lambda: soon.waiting.checks_missed >= 3)
    assert late.waiting.checks_missed == 0
    for poll in polls:
        poll.cancel()


async def test_notify_interval_ms_gathers_what_is_to_be_told(open_engine, connection):
    told = []
    await connection.add_listener(CHANNEL, lambda *heard: told.append(json.loads(heard[-1])))
    engine = await open_engine(notify_interval_ms=1_000)
    await engine.push(messages("a", 1))
    await until(lambda: told)
    for queue in "bcd":
        await engine.push(messages(queue, 1))
    await until(lambda: len(told) == 2)
    assert [set(each) for each in told] == [{"a"}, {"b", "c", "d"}]


async def test_a_short_notify_interval_ms_tells_at_once(open_engine, connection):
    told = []
    await connection.add_listener(CHANNEL, lambda *heard: told.append(json.loads(heard[-1])))
    engine = await open_engine(notify_interval_ms=1)
    for number, queue in enumerate("abc", 1):
        await engine.push(messages(queue, 1))
        await until(lambda number=number: len(told) == number)
    assert [set(each) for each in told] == [{"a"}, {"b"}, {"c"}]


@pytest.mark.parametrize(
    ("service", "setting", "calls"),
    [
        (Retention, "retention_interval_seconds", 2),
        (IdlePartitions, "retention_interval_seconds", 1),
        (Calls, "retention_interval_seconds", 1),
        (Ticks, "tick_interval_seconds", 1),
        (Stats, "stats_interval_seconds", 1),
    ],
)
async def test_the_pause_of_a_service_is_a_setting(database, service, setting, calls):
    async with AsyncExitStack() as opened:
        databases = []
        for seconds in (0.01, 3_600):
            settings = Settings(**{setting: seconds})
            databases.append(Database(database, settings))
            await databases[-1].open()
            opened.push_async_callback(databases[-1].close)
            task = asyncio.create_task(service(databases[-1], settings).run())
            opened.callback(task.cancel)
        brisk, slow = databases
        await until(lambda: brisk.calls >= 5 * calls and slow.calls >= calls)
        assert slow.calls == calls


async def test_a_thousand_polls_that_wait_for_nothing_cost_less_than_five_calls_a_second(open_engine):
    engine, clock = await open_engine(upkeep=True), await open_engine()
    await engine.leader.leading.wait()
    polls = [asyncio.create_task(pop(engine, f"q{n % 50}", group=f"g{n % 20}", wait_seconds=50)) for n in range(1_000)]
    await parked(engine, 1_000)
    await pop(clock, "nothing", wait_seconds=2)  # meanwhile the pauses grow
    before = engine.database.calls
    await pop(clock, "nothing", wait_seconds=2)
    assert engine.database.calls - before < 10
    for poll in polls:
        poll.cancel()
    await parked(engine, 0)
