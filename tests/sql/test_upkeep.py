"""The check finds every kind of damage, the resync repairs the ends of partitions, statistics add up."""

import asyncio
from datetime import timedelta

import pytest

from queenmq.errors import QueueNotFound
from tests.queue_in_sql import NOON

pytestmark = pytest.mark.every_postgres


async def found(queue):
    rows = await queue.call("check_consistency", queue.clock.now)
    return {row["check"] for row in rows}


async def resync(queue, name=None):
    [row] = await queue.call("resync_partition_lookup", name, queue.clock.now)
    return row[0]


@pytest.fixture
async def busy(queue):
    """Two partitions and two groups in the middle of their work."""
    await queue.configure("orders", max_queue_size=100)
    for number in range(3):
        await queue.push("orders", "ann", 2 * number, 2 * number + 1)
        queue.clock.advance(1)
    await queue.call("push", "orders", "1", "bob", None, "3f0e7c1a-0000-4000-8000-000000000000", p_now=queue.clock.now)
    await queue.sequence()
    [delivery] = await queue.pop("g", "orders", "ann", batch=4)
    await queue.ack(delivery, [0, 2])
    await queue.pop("other", "orders", auto_ack=True)


@pytest.mark.parametrize(
    ("damage", "check"),
    [
        ("update queen.partition_lookup set next_offset = next_offset + 1", "stale lookup"),
        ("update queen.partition_lookup set start_offset = start_offset + 1", "stale lookup"),
        ("update queen.partition_lookup set last_message_at = '2000-01-01'", "stale lookup"),
        ("update queen.partition_lookup set last_message_at = null", "stale lookup"),
        ("delete from queen.partition_lookup", "partition without lookup"),
        ("update queen.partition_lookup set queue_id = 999", "lookup without partition"),
        ("update queen.partition_lookup set last_message_slot = null", "stale lookup"),
        ("update queen.partition_lookup set last_message_slot = '2000-01-01'", "stale lookup"),
        ("insert into queen.partition_lookup select * from queen.partition_lookup", "lookup twice"),
        ("insert into queen.partition_consumers select * from queen.partition_consumers", "place twice"),
        ("delete from queen.segments where first_offset = 2", "hole or overlap"),
        ("update queen.segments set message_count = 3 where first_offset = 0 and message_count = 2", "hole or overlap"),
        (
            "update queen.segments set created_at = created_at - interval '1 day' where first_offset = 2",
            "time runs backwards",
        ),
        ("update queen.segments set queue_id = 999", "segment without partition"),
        ("update queen.partition_consumers set committed = 999", "cursor out of range"),
        ("update queen.partition_consumers set group_id = group_id + 100", "cursor out of range"),
        ("update queen.partition_consumers set acked = '{[100,200)}'", "acknowledged out of range"),
        ("update queen.partition_consumers set completed = completed + 1", "ledger"),
        ("update queen.partition_consumers set completed = completed + 5, expired = expired - 5", "ledger"),
        (
            """update queen.partition_consumers
                  set ready_at = null, committed = 0, lease_id = null, lease_from = null, lease_to = null""",
            "never woken",
        ),
        (
            "update queen.partition_consumers set ready_at = '2040-01-01' where lease_id is null",
            "ready for nothing",
        ),
        ("update queen.partition_consumers set lease_to = 999 where lease_id is not null", "lease"),
        ("update queen.partition_consumers set lease_to = 0 where lease_id is not null", "lease"),
        ("update queen.partition_consumers set nacked = '{[90,91)}' where lease_id is not null", "lease"),
        ("""update queen.partition_consumers set retries = '{"0": 1}'""", "retry counts of done messages"),
        ('update queen.message_traces set "offset" = 77', "trace without message"),
        ("update queen.message_traces set partition_id = 77", "trace without message"),
        (
            """insert into queen.dead_letters (queue_id, partition_id, group_name, "offset", created_at, failed_at,
                                               retry_count, encrypted, payload)
               values (1, 77, 'g', 0, now(), now(), 0, false, '')""",
            "dead letter without partition",
        ),
        ("delete from queen.partition_consumers", "partition not reached"),
        ("update queen.depth_bounds set depth_bound = 0", "depth bound"),
    ],
)
async def test_damage_is_found(queue, busy, damage, check):
    assert await found(queue) == set()
    transaction = queue.connection.transaction()
    await transaction.start()
    await queue.connection.execute(damage)
    assert check in await found(queue)
    await transaction.rollback()
    assert await found(queue) == set()


async def test_a_resync_of_what_is_right_changes_nothing(queue, busy):
    assert await resync(queue) == 0
    assert await resync(queue, "orders") == 0
    with pytest.raises(QueueNotFound):
        await resync(queue, "nowhere")


async def test_a_resync_repairs_the_ends_and_moves_the_groups(queue, busy):
    await queue.connection.execute(
        "delete from queen.segments where first_offset = 0 and message_count = 2;"
        "update queen.partition_lookup set last_message_at = null"
    )
    assert await found(queue) != set()
    assert await resync(queue, "orders") == 2
    assert await found(queue) == set()
    row = await queue.connection.fetchrow("select * from queen.ledger where group_name = 'g' and partition = 'ann'")
    assert (row["completed"], row["expired"], row["balanced"]) == (2, 1, True)


@pytest.mark.parametrize("slot", ["null", "'2000-01-01'"])
@pytest.mark.parametrize("function", ["repair_slots", "resync_partition_lookup"])
async def test_a_slot_that_an_earlier_version_has_not_written_is_repaired(queue, busy, slot, function):
    await queue.connection.execute(f"update queen.partition_lookup set last_message_slot = {slot}")
    assert await queue.call("changed_partitions", "orders", NOON) == []
    assert [row[0] for row in await queue.call(function)] == [2]
    assert len(await queue.call("changed_partitions", "orders", NOON)) == 2
    assert [row[0] for row in await queue.call(function)] == [0]


async def test_a_resync_wakes_groups_for_what_they_could_not_see(queue):
    await queue.push("orders", "ann", 1)
    [delivery] = await queue.pop("g", "orders")
    await queue.ack(delivery)
    await queue.push("orders", "ann", 2)
    await queue.connection.execute(
        "update queen.partition_lookup set next_offset = 1; update queen.partition_consumers set ready_at = null"
    )
    assert await queue.pop("g", "orders") == []
    assert await resync(queue) == 1
    [delivery] = await queue.pop("g", "orders")
    assert delivery.values == [2]


async def test_an_empty_partition_keeps_its_next_offset(queue):
    await queue.push("orders", "ann", 1, 2)
    await queue.call("clear_queue", "orders", queue.clock.now)
    assert await resync(queue) == 0
    assert await queue.push("orders", "ann", 3) == [2]


async def test_a_resync_waits_for_a_push_in_flight(queue, another, until_blocked):
    await queue.push("orders", "ann", 1)
    alice, bob = await another(), await another()
    pushing = alice.connection.transaction()
    await pushing.start()
    await alice.push("orders", "ann", 2)
    resyncing = asyncio.create_task(resync(bob))
    await until_blocked(bob)
    await pushing.commit()
    assert await resyncing == 0


async def test_the_totals_of_each_minute(queue, busy):
    await queue.configure("empty")
    queue.clock.now = queue.clock.now.replace(second=59)
    await queue.call("collect_stats", queue.clock.now)
    rows = await queue.connection.fetch(
        "select q.name, s.* from queen.stats s join queen.queues q on q.id = s.queue_id order by 1"
    )
    empty, orders = rows
    assert orders["minute"] == queue.clock.now.replace(second=0)
    assert (orders["partitions"], orders["pushed"], orders["stored"]) == (2, 7, 7)
    assert (orders["completed"], orders["dead_lettered"], orders["expired"]) == (2 + 6, 0, 0)
    assert (empty["partitions"], empty["pushed"], empty["completed"]) == (0, 0, 0)


async def test_within_a_minute_the_row_is_replaced_and_old_rows_go(queue, busy):
    async def pushed():
        rows = await queue.connection.fetch("select pushed from queen.stats order by minute")
        return [row["pushed"] for row in rows]

    queue.clock.now = queue.clock.now.replace(second=0)
    await queue.call("collect_stats", queue.clock.now)
    await queue.push("orders", "bob", 1)
    queue.clock.advance(30)
    await queue.call("collect_stats", queue.clock.now)
    assert await pushed() == [8]
    queue.clock.advance(30)
    await queue.call("collect_stats", queue.clock.now)
    assert await pushed() == [8, 8]
    queue.clock.now += timedelta(days=30)
    await queue.call("collect_stats", queue.clock.now)
    assert await pushed() == [8, 8]
