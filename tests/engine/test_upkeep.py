"""Upkeep: one engine among all does it, by itself, in bounded steps."""

import asyncio

import pytest

from queenmq.engine.upkeep import leader, services
from tests.engine.shorthand import ack, messages, pop, until, until_asked, values

pytestmark = pytest.mark.every_postgres

BRISK = {"upkeep": True, "retention_interval_seconds": 0.1, "tick_interval_seconds": 0.05, "stats_interval_seconds": 1}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    """The pauses that are no settings."""
    monkeypatch.setattr(leader, "CANDIDATE_SECONDS", 0.05)
    monkeypatch.setattr(services, "GROUP_PAUSE_SECONDS", 0.05)


@pytest.fixture
def open_leader(open_engine):
    """Open an engine that does the upkeep: `await open_leader(upkeep_batch=1)`."""

    async def open_one(**settings):
        engine = await open_engine(**(BRISK | settings))
        await engine.leader.leading.wait()
        return engine

    return open_one


# -- who does it


async def test_one_engine_leads_and_another_takes_over_when_it_closes(open_leader, open_engine):
    first = await open_leader()
    second = await open_engine(**BRISK)
    asked = second.database.calls
    await until(lambda: second.database.calls >= asked + 2)  # it has asked twice and been refused
    assert (first.leader.leading.is_set(), second.leader.leading.is_set()) == (True, False)
    await first.close()
    await second.leader.leading.wait()
    assert not first.leader.leading.is_set()


async def test_a_leader_whose_connection_is_lost_is_replaced(open_leader, connection):
    engine = await open_leader()
    holder = "select pid from pg_locks where locktype = 'advisory' and classid = 20814 and objid = 0 and granted"
    lost = await connection.fetchval(holder)
    await connection.fetchval("select pg_terminate_backend($1)", lost)

    async def replaced():
        return await connection.fetchval(f"{holder} and pid <> $1", lost)

    await until_asked(replaced)
    await engine.leader.leading.wait()


async def test_without_upkeep_nobody_leads(open_engine, connection):
    engine = await open_engine(**(BRISK | {"upkeep": False}))
    await connection.execute("select queen.push('orders', '1')")
    await engine.push(messages("bills", 1))
    assert values(await pop(engine, "bills", wait_seconds=10)) == [1]
    assert values(await pop(engine, "orders", wait_seconds=0.3)) == []
    assert not engine.leader.leading.is_set()
    assert await connection.fetchval("select count(*) from queen.inbox") == 1
    assert await connection.fetchval("select count(*) from queen.ticks") == 0


# -- the inbox


async def test_what_an_application_pushes_in_its_transaction_comes_after_the_commit_in_order(open_leader, connection):
    engine = await open_leader()
    poll = asyncio.create_task(pop(engine, "orders", wait_seconds=50, batch=10))
    async with connection.transaction():
        for number in range(3):
            await connection.execute("select queen.push('orders', $1, 'ann')", str(number))
        assert await connection.fetchval("select count(*) from queen.segments") == 0
    popped = await poll
    assert values(popped) == [0, 1, 2]
    assert popped.leases[0].partition == "ann"


async def test_what_an_application_takes_back_never_comes(open_leader, connection):
    engine = await open_leader()
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("select queen.push('orders', '1')")
    await transaction.rollback()
    await connection.execute("select queen.push('orders', '2')")
    assert values(await pop(engine, "orders", wait_seconds=50, batch=10)) == [2]
    [line] = await engine.admin.ledger("orders")
    assert line.pushed == 1


async def test_a_row_that_cannot_be_placed_is_logged_and_holds_nobody_up(open_leader, connection, caplog):
    for queue in ("orders", "", "orders"):
        await connection.execute(
            "insert into queen.inbox (queue_name, partition_name, payload, created_at) values ($1, 'ann', '1', now())",
            queue,
        )
    await open_leader()
    await until_asked(lambda: connection.fetchval("select count(*) = 2 from queen.messages"))
    [record] = [record for record in caplog.records if record.message == "messages of the inbox set aside"]
    assert record.messages == 1
    assert await connection.fetchval("select queen.delete_set_aside(array(select id from queen.set_aside))") == 1


@pytest.mark.parametrize("batch", [1, 7])
async def test_an_inbox_larger_than_a_batch_is_emptied_in_order(open_leader, connection, batch):
    await connection.execute("select queen.push('orders', to_jsonb(n)) from generate_series(1, 20) as n")
    engine = await open_leader(upkeep_batch=batch)
    await until_asked(lambda: connection.fetchval("select count(*) = 0 from queen.inbox"))
    assert values(await pop(engine, "orders", batch=100)) == list(range(1, 21))
    assert await connection.fetchval("select max(message_count) from queen.segments") <= batch


# -- what the queues no longer keep


@pytest.mark.parametrize("batch", [1, 1000])
async def test_completed_messages_are_deleted_and_others_stay(open_leader, connection, batch):
    engine = await open_leader(upkeep_batch=batch)
    await engine.admin.configure_queue("orders", retention_enabled=True, completed_retention_seconds=1)
    for number in range(4):
        await engine.push(messages("orders", number))
    await ack(engine, await pop(engine, "orders", batch=3))
    await until_asked(lambda: connection.fetchval("select start_offset = 3 from queen.partition_lookup"))
    assert [each.offset for each in await engine.admin.list_messages("orders")] == [3]
    [line] = await engine.admin.ledger("orders")
    assert (line.completed, line.pending, line.expired) == (3, 1, 0)


async def test_dead_letters_are_deleted_when_they_are_old(open_leader, connection):
    engine = await open_leader(upkeep_batch=1)
    await engine.admin.configure_queue("orders", retry_limit=0)
    for number in range(3):
        await engine.push(messages("orders", number))
        await ack(engine, await pop(engine, "orders"), "failed")
    aged = "update queen.dead_letters set failed_at = failed_at - interval '31 days' where \"offset\" < 2"
    assert await connection.execute(aged) == "UPDATE 2"
    await until_asked(lambda: connection.fetchval("select count(*) = 1 from queen.dead_letters"))
    assert [each.offset for each in await engine.admin.list_dead_letters("orders")] == [2]


async def test_idle_partitions_are_removed_and_busy_ones_stay(open_leader, connection):
    engine = await open_leader(idle_partition_seconds=0.2, upkeep_batch=2)
    await engine.push([each for n in range(5) for each in messages("orders", n, partition=str(n))])
    await pop(engine, "orders", batch=10, max_partitions=10, auto_ack=True)
    await engine.push(messages("orders", "unread", partition="busy"))
    await engine.admin.configure_queue("orders", retention_enabled=True, completed_retention_seconds=1)

    async def left():
        return [row["name"] for row in await connection.fetch("select name from queen.partitions order by name")]

    async def only_the_busy_one():
        return await left() == ["busy"]

    await until_asked(only_the_busy_one)
    assert values(await pop(engine, "orders", wait_seconds=50)) == ["unread"]  # a pop passes over what upkeep holds


async def test_partitions_are_never_removed_when_the_setting_is_nought(open_leader, connection):
    engine = await open_leader(idle_partition_seconds=0)
    await engine.push(messages("orders", 1))
    await connection.execute("update queen.queues set completed_retention_seconds = 1, retention_enabled = true")
    await pop(engine, "orders", auto_ack=True)
    await until_asked(lambda: connection.fetchval("select start_offset = 1 from queen.partition_lookup"))
    assert await connection.fetchval("select count(*) from queen.partitions") == 1


async def test_calls_that_nobody_asks_about_any_more_are_forgotten(open_leader, connection):
    engine = await open_leader(upkeep_batch=1)
    for number in range(3):
        await engine.push(messages("orders", number))
        await ack(engine, await pop(engine, "orders", wait_seconds=50), "dlq")
    assert await connection.fetchval("select count(*) from queen.calls") == 3
    await connection.execute("update queen.calls set made_at = made_at - interval '1 hour'")
    await until_asked(lambda: connection.fetchval("select count(*) = 0 from queen.calls"))


# -- what is written down


async def test_ticks_are_taken_while_there_is_activity(open_leader, connection):
    engine = await open_leader()
    for _ in range(3):
        before = await connection.fetchval("select count(*) from queen.ticks")
        await engine.push(messages("orders", 1))
        await until_asked(lambda: connection.fetchval("select count(*) > $1 from queen.ticks", before))  # noqa: B023
    snapshots = await connection.fetch(
        "select pg_snapshot_xmax(snapshot)::text::bigint as x from queen.ticks order by id"
    )
    assert [row["x"] for row in snapshots] == sorted(row["x"] for row in snapshots)


async def test_the_totals_of_a_queue_are_written_down(open_leader, connection):
    engine = await open_leader()
    await engine.push(messages("orders", 1, 2, 3))
    await pop(engine, "orders", auto_ack=True)
    await until_asked(
        lambda: connection.fetchval(
            "select exists (select from queen.stats where (partitions, pushed, stored, completed) = (1, 3, 3, 1))"
        )
    )


async def test_a_new_group_reaches_all_partitions_by_itself(open_engine, open_leader, connection):
    await open_leader()
    engine = await open_engine()
    await engine.push([each for n in range(1500) for each in messages("orders", n, partition=str(n))])
    await pop(engine, "orders", group="g")
    await until_asked(lambda: connection.fetchval("select complete from queen.queue_groups where name = 'g'"))
    assert await connection.fetchval("select count(*) from queen.partition_consumers") == 1500


async def test_a_new_group_is_walked_up_chunk_by_chunk(open_engine, open_leader, connection, monkeypatch):
    monkeypatch.setattr(services, "GROUP_CHUNK", 10)
    await open_leader()
    engine = await open_engine()
    await engine.push([each for n in range(1250) for each in messages("orders", n, partition=str(n))])
    await pop(engine, "orders", group="g")
    await until_asked(lambda: connection.fetchval("select complete from queen.queue_groups where name = 'g'"))
    assert await connection.fetchval("select count(*) from queen.partition_consumers") == 1250
