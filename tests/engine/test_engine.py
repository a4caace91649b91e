"""An engine's life: it opens whole or not at all, and closes without losing, or leaving, anything."""

import asyncio
from uuid import uuid4

import pytest

from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.engine.ack.acker import completed
from queenmq.errors import Closed, SchemaTooNew
from queenmq.model import PopRequest
from tests.engine.shorthand import HOUR_MS, ack, messages, parked, pop, until, until_asked, values

pytestmark = pytest.mark.every_postgres

OURS = "select count(*) from pg_stat_activity where application_name = 'queen' and datname = current_database()"
WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"


@pytest.fixture
async def locked(connect):
    """Somebody else's lock on all partitions; `await locked()` takes it, and gives the function that lets go."""

    async def lock():
        connection = await connect()
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("select from queen.partition_lookup for update")
        return transaction.rollback

    return lock


async def closing(engine):
    """An engine that has begun to close."""
    task = asyncio.create_task(engine.close())
    await until(lambda: engine._closing)
    return task


async def test_pushes_that_were_accepted_are_finished(engine, connection, locked):
    await engine.push(messages("orders", 0))
    let_go = await locked()
    pushes = [asyncio.create_task(engine.push(messages("orders", n))) for n in range(1, 10)]
    await until_asked(lambda: connection.fetchval(WAITING))
    task = await closing(engine)
    await let_go()
    await task
    assert sorted(push.result()[0].offset for push in pushes) == list(range(1, 10))
    assert await connection.fetchval("select next_offset from queen.partition_lookup") == 10


async def test_pops_and_acks_that_were_accepted_are_finished(engine, connection):
    await engine.push(messages("orders", 1, partition="a") + messages("orders", 2, partition="b"))
    popped = await pop(engine, "orders")
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("lock table queen.partition_consumers in share mode")
    popping, acking = asyncio.create_task(pop(engine, "orders")), asyncio.create_task(ack(engine, popped))
    await until_asked(lambda: connection.fetchval("select count(*) > 1 from pg_locks where not granted"))
    task = await closing(engine)
    await transaction.rollback()
    await task
    assert sorted(values(popped) + values(popping.result())) == [1, 2]
    assert acking.result()[0].accepted


async def test_a_transaction_that_was_accepted_is_finished_and_answered(open_engine, connection, locked):
    engine, another = await open_engine(), await open_engine()
    await engine.push(messages("orders", 1) + messages("bills", 0, ids=["w"]))
    await another.push(messages("bills", 0, ids=["x"]))  # of which the first call will tell, and a second is needed
    popped = await pop(engine, "orders")
    let_go = await locked()
    running = asyncio.create_task(
        engine.transaction(completed(popped.messages), messages("bills", 1, 2, ids=["x", "y"]))
    )
    await until_asked(lambda: connection.fetchval(WAITING))
    task = await closing(engine)
    await let_go()
    await task
    assert [answer.duplicate for answer in running.result()] == [True, False]


async def test_parked_polls_go_home_with_nothing(open_engine):
    engine = await open_engine(poll_interval_min_ms=HOUR_MS, poll_interval_max_ms=HOUR_MS)
    polls = [asyncio.create_task(pop(engine, queue, wait_seconds=60)) for queue in ("a", "a", "b")]
    await parked(engine, 3)
    await engine.close()
    assert [values(await poll) for poll in polls] == [[], [], []]


async def test_new_requests_are_turned_away_while_old_ones_are_finished(engine, connection, locked):
    await engine.push(messages("orders", 1))
    popped = await pop(engine, "orders")
    let_go = await locked()
    push = asyncio.create_task(engine.push(messages("orders", 2)))
    await until_asked(lambda: connection.fetchval(WAITING))
    task = await closing(engine)
    for ask in asks(engine, popped):
        with pytest.raises(Closed):
            await ask()
    await let_go()
    await task
    assert (await push)[0].offset == 1


async def test_a_closed_engine_turns_everything_away(engine):
    await engine.push(messages("orders", 1))
    popped = await pop(engine, "orders")
    await engine.close()
    for ask in [*asks(engine, popped), lambda: engine.admin.queue("orders")]:
        with pytest.raises(Closed):
            await ask()


def asks(engine, popped):
    """One of everything that can be asked for."""
    return [
        lambda: engine.push(messages("orders", 9)),
        lambda: engine.push([]),
        lambda: engine.pop(PopRequest(queue="orders")),
        lambda: engine.pop(PopRequest(queue="orders"), wait_seconds=60),
        lambda: ack(engine, popped),
        lambda: engine.renew(uuid4()),
        lambda: engine.release(uuid4()),
        lambda: engine.transaction(messages=messages("orders", 9)),
    ]


@pytest.mark.parametrize("upkeep", [True, False])
async def test_no_task_and_no_connection_is_left_behind(database, connection, upkeep):
    before = asyncio.all_tasks()
    async with Engine(database, Settings(upkeep=upkeep)) as engine:
        if upkeep:
            await engine.leader.leading.wait()
        poll = asyncio.create_task(pop(engine, "unknown", wait_seconds=60))
        await parked(engine)
        await engine.push(messages("orders", 1))
        going = asyncio.create_task(pop(engine, "orders"))
        await asyncio.wait([going], timeout=0)
        going.cancel()
        assert await connection.fetchval(OURS) >= 2
    assert asyncio.all_tasks() - {poll, going} == before

    async def gone():  # PostgreSQL's processes take a moment to end
        return await connection.fetchval(OURS) == 0

    await until_asked(gone)


async def test_an_engine_may_be_closed_twice_at_once_and_again(database):
    engine = Engine(database, Settings())
    await engine.open()
    await asyncio.gather(engine.close(), engine.close())
    await engine.close()


async def test_an_engine_that_was_never_opened_may_be_closed(database):
    await Engine(database, Settings()).close()


async def test_an_engine_that_cannot_start_leaves_nothing_open(database, connection):
    before = asyncio.all_tasks()
    await connection.execute(
        "insert into queen.schema_version (version, name, breaking) values (9999, 'from the future', true)"
    )
    with pytest.raises(SchemaTooNew):
        await Engine(database, Settings()).open()
    assert asyncio.all_tasks() == before

    async def gone():
        return await connection.fetchval(OURS) == 0

    await until_asked(gone)
    await connection.execute("delete from queen.schema_version where version = 9999")


async def test_what_one_engine_pushed_another_reads_after_the_first_has_closed(open_engine):
    first = await open_engine()
    await first.push(messages("orders", 1, 2))
    popped = await pop(first, "orders")
    await first.close()
    second = await open_engine()
    assert (await ack(second, popped))[0].accepted
    assert values(await pop(second, "orders")) == [2]
