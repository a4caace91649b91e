"""What a queue need not keep is deleted, in batches, and nobody is surprised by it."""

import asyncio

import pytest

from queenmq.errors import InvalidArgument, LeaseGone

pytestmark = pytest.mark.every_postgres

DAY = 86400


async def retain(queue, name="orders", limit=1000):
    """One pass over the queue; the number of messages deleted."""
    queue_id = await queue.connection.fetchval("select id from queen.queues where name = $1", name)
    deleted, cursor, done = 0, None, False
    while not done:
        [row] = await queue.call("retain", queue_id, cursor, limit, queue.clock.now)
        deleted += row["messages"]
        cursor, done = row["cursor"], row["done"]
    assert cursor is None
    return deleted


async def read(queue, group, *offsets, partition="ann"):
    """Let a group take what is there and finish some of it, or all."""
    [delivery] = await queue.pop(group, "orders", partition)
    await queue.ack(delivery, offsets or None)
    return delivery


async def stored(queue, partition="ann"):
    row = await queue.connection.fetchrow(
        "select start_offset, next_offset from queen.partition_lookup l "
        "join queen.partitions p on p.id = l.partition_id where p.name = $1",
        partition,
    )
    return tuple(row)


async def test_a_new_queue_keeps_finished_messages_for_a_week_and_unread_ones_for_ever(queue):
    await queue.push("orders", "ann", 1, 2)
    await queue.push("orders", "bob", 3)
    await read(queue, "g")
    queue.clock.advance(7 * DAY)
    assert await retain(queue) == 0
    queue.clock.advance(1)
    assert await retain(queue) == 2
    queue.clock.advance(1000 * DAY)
    assert await retain(queue) == 0
    assert (await stored(queue), await stored(queue, "bob")) == ((2, 2), (0, 1))


async def fail(queue, *values):
    """Make dead letters; the clock goes on by a day after each."""
    for value in values:
        await queue.push("orders", "ann", value)
        [delivery] = await queue.pop("g", "orders")
        await queue.fail(delivery)
        queue.clock.advance(DAY)


async def retain_dead_letters(queue, limit=1000):
    queue_id = await queue.connection.fetchval("select id from queen.queues where name = 'orders'")
    [row] = await queue.call("retain_dead_letters", queue_id, limit, queue.clock.now)
    return row[0]


async def letters(queue):
    return [row["offset"] for row in await queue.dead_letters("orders")]


async def test_a_new_queue_keeps_dead_letters_for_thirty_days(queue):
    await queue.configure("orders", retry_limit=0)
    await fail(queue, 1, 2)
    queue.clock.advance(28 * DAY)
    assert await retain_dead_letters(queue) == 0
    queue.clock.advance(1)
    assert await retain_dead_letters(queue) == 1
    assert await letters(queue) == [1]
    history = await queue.connection.fetchrow("select * from queen.retention_history")
    assert (history["dead_letters"], history["messages"], history["ran_at"]) == (1, 0, queue.clock.now)
    assert await queue.connection.fetchval("select dead_lettered from queen.ledger") == 2


async def test_dead_letters_go_in_batches_the_oldest_first(queue):
    await queue.configure("orders", retry_limit=0, dead_letter_retention_seconds=60)
    await fail(queue, 1, 2, 3)
    assert await retain_dead_letters(queue, 2) == 2
    assert await letters(queue) == [2]
    assert [await retain_dead_letters(queue, 2) for _ in range(2)] == [1, 0]
    with pytest.raises(InvalidArgument):
        await retain_dead_letters(queue, 0)


@pytest.mark.parametrize("options", [{"dead_letter_retention_seconds": 0}, {"retention_enabled": False}])
async def test_dead_letters_stay_if_the_queue_says_so(queue, options):
    await queue.configure("orders", retry_limit=0, **options)
    await fail(queue, 1)
    queue.clock.advance(1000 * DAY)
    assert await retain_dead_letters(queue) == 0


async def test_nothing_is_deleted_without_a_limit_or_when_switched_off(queue):
    await queue.configure("orders", completed_retention_seconds=0)
    await queue.push("orders", "ann", 1)
    await read(queue, "g")
    queue.clock.advance(1000 * DAY)
    assert await retain(queue) == 0
    await queue.configure("orders", retention_seconds=60, retention_enabled=False)
    assert await retain(queue) == 0
    await queue.configure("orders", retention_enabled=True)
    assert await retain(queue) == 1


async def test_any_message_goes_after_the_retention_time(queue):
    await queue.configure("orders", retention_seconds=60)
    await queue.push("orders", "ann", 0, 1)
    queue.clock.advance(30)
    await queue.push("orders", "ann", 2)
    await queue.push("orders", "bob", 3)
    queue.clock.advance(30)
    assert await retain(queue) == 0
    queue.clock.advance(0.001)
    assert await retain(queue) == 2
    assert await stored(queue) == (2, 3)
    queue.clock.advance(30)
    assert await retain(queue) == 2
    assert (await stored(queue), await stored(queue, "bob")) == ((3, 3), (1, 1))
    assert await queue.connection.fetchval("select count(*) from queen.segments") == 0


async def test_unread_messages_that_go_count_as_expired(queue):
    await queue.configure("orders", retention_seconds=60)
    await queue.push("orders", "ann", *range(4))
    delivery = await read(queue, "g", 0, 2)
    await queue.pop("unread", "orders", "nobody")
    queue.clock.advance(400)
    await queue.push("orders", "ann", 4)
    assert await retain(queue) == 4
    row = await queue.connection.fetchrow("select * from queen.ledger where group_name = 'g'")
    assert (row["completed"], row["expired"], row["pending"], row["balanced"]) == (2, 2, 1, True)
    with pytest.raises(LeaseGone):
        await queue.renew(delivery)
    [delivery] = await queue.pop("g", "orders")
    assert (delivery.values, delivery.retry_counts) == ([4], [0])
    history = await queue.connection.fetchrow("select * from queen.retention_history")
    assert (history["partitions"], history["segments"], history["messages"]) == (1, 1, 4)
    assert (history["unread"], history["ran_at"]) == (2, queue.clock.now)


async def test_a_group_that_read_everything_is_not_woken_and_one_that_lost_everything_rests(queue):
    await queue.configure("orders", retention_seconds=60)
    await queue.push("orders", "ann", 1)
    await read(queue, "done")
    await queue.pop("late", "orders", lease_seconds=1)
    queue.clock.advance(61)
    await retain(queue)
    for group in ("done", "late"):
        assert await queue.pop(group, "orders") == []
        rows = await queue.connection.fetch("select ready_at, lease_id from queen.partition_consumers")
    assert [tuple(row) for row in rows] == [(None, None)] * 2


async def test_completed_messages_go_when_every_group_is_done(queue):
    await queue.configure("orders", completed_retention_seconds=60)
    await queue.push("orders", "ann", 0)
    await queue.push("orders", "ann", 1)
    await read(queue, "fast")
    delivery = await read(queue, "slow", 0)
    queue.clock.advance(61)
    assert await retain(queue) == 1
    assert await stored(queue) == (1, 2)
    await queue.ack(delivery)
    assert await retain(queue) == 1


async def test_nothing_is_completed_where_no_group_reads(queue):
    await queue.configure("orders", completed_retention_seconds=60)
    await queue.push("orders", "ann", 0)
    queue.clock.advance(61)
    assert await retain(queue) == 0


async def test_a_group_that_has_yet_to_reach_a_partition_still_has_to_read_it(queue):
    await queue.configure("orders", completed_retention_seconds=60)
    await queue.push("orders", "ann", 0)
    await read(queue, "g")
    await queue.call("subscribe", "new", "orders", None, None, None, "all", None, queue.clock.now)
    queue.clock.advance(61)
    assert await retain(queue) == 0
    await read(queue, "new")
    assert await retain(queue) == 1


async def test_a_partly_finished_segment_stays_whole(queue):
    await queue.configure("orders", completed_retention_seconds=60)
    await queue.push("orders", "ann", 0, 1, 2)
    await read(queue, "g", 0, 1)
    queue.clock.advance(61)
    assert await retain(queue) == 0
    assert await stored(queue) == (0, 3)


async def test_a_live_lease_protects_what_it_still_has_to_deliver(queue):
    await queue.configure("orders", retention_seconds=60)
    for number in range(4):
        await queue.push("orders", "ann", number)
    [delivery] = await queue.pop("g", "orders", lease_seconds=1000)
    await queue.ack(delivery, [0, 2])
    queue.clock.advance(61)
    assert await retain(queue) == 1
    assert await stored(queue) == (1, 4)
    await queue.ack(delivery, [1])
    assert await retain(queue) == 2
    assert (await queue.ack(delivery, [3])).released
    assert await retain(queue) == 1


async def test_both_limits_work_together(queue):
    await queue.configure("orders", retention_seconds=100, completed_retention_seconds=10)
    await queue.push("orders", "ann", "aged, unread")
    queue.clock.advance(95)
    await queue.push("orders", "ann", "read")
    await queue.push("orders", "ann", "fresh")
    [delivery] = await queue.pop("g", "orders")
    await queue.ack(delivery, [1])
    queue.clock.advance(11)
    await queue.push("orders", "ann", "newest")
    await queue.release(delivery)
    assert await retain(queue) == 2
    [delivery] = await queue.pop("g", "orders")
    assert delivery.values == ["fresh", "newest"]


async def test_small_batches_delete_the_same(queue):
    await queue.configure("orders", retention_seconds=60)
    for number in range(5):
        await queue.push_many(*[("orders", f"p{n}", [number]) for n in range(4)])
    await queue.push("orders", "p0", "alone")
    queue.clock.advance(61)
    await queue.push("orders", "p1", "fresh")
    assert await retain(queue, limit=3) == 21
    assert await queue.connection.fetchval("select count(*) from queen.messages") == 1
    assert await queue.connection.fetchval("select sum(messages) from queen.retention_history") == 21


async def test_traces_go_with_their_messages(queue):
    await queue.configure("orders", retention_seconds=60)
    await queue.call("push", "orders", "1", "ann", None, "3f0e7c1a-0000-4000-8000-000000000000", p_now=queue.clock.now)
    await queue.sequence()
    queue.clock.advance(61)
    await retain(queue)
    assert await queue.connection.fetchval("select count(*) from queen.message_traces") == 0


async def test_a_queue_that_is_gone_and_a_bad_cursor(queue):
    [row] = await queue.call("retain", 999)
    assert (row["messages"], row["done"]) == (0, True)
    for cursor, limit in [("x", 1), ("1.2.3", 1), (None, 0)]:
        with pytest.raises(InvalidArgument):
            await queue.call("retain", 1, cursor, limit)


# Idle partitions.


async def remove_idle(queue, seconds=60.0, limit=1000):
    [row] = await queue.call("remove_idle_partitions", seconds, limit, queue.clock.now)
    return row[0]


async def emptied(queue, *partitions):
    for partition in partitions:
        await queue.push("orders", partition, 1)
        await read(queue, "g", partition=partition)
    await queue.call("clear_queue", "orders", queue.clock.now)


async def test_a_partition_that_is_empty_and_unused_is_removed_and_may_come_back(queue):
    await emptied(queue, "ann", "bob")
    queue.clock.advance(60)
    await queue.push("orders", "bob", 2)
    assert await remove_idle(queue) == 0
    queue.clock.advance(1)
    assert await remove_idle(queue) == 1
    assert await queue.push("orders", "ann", 3) == [0]
    [delivery] = await queue.pop("g", "orders", "ann")
    assert delivery.values == [3]


async def test_a_partition_that_was_never_written_goes_by_its_age(queue):
    await queue.partition_id("orders", "ann")
    created = await queue.connection.fetchval("select created_at from queen.partitions")
    queue.clock.now = created
    assert await remove_idle(queue) == 0
    queue.clock.advance(61)
    assert await remove_idle(queue) == 1


async def test_a_partition_with_dead_letters_stays(queue):
    await queue.configure("orders", retry_limit=0)
    await queue.push("orders", "ann", 1)
    [delivery] = await queue.pop("g", "orders")
    await queue.fail(delivery)
    await queue.call("clear_queue", "orders", queue.clock.now)
    queue.clock.advance(61)
    assert await remove_idle(queue) == 0
    await queue.call("purge_dead_letters", p_queue="orders")
    assert await remove_idle(queue) == 1


async def test_a_partition_that_is_written_at_the_last_moment_stays(queue, another, until_blocked):
    await emptied(queue, "ann")
    queue.clock.advance(61)
    alice, bob = await another(), await another()
    pushing = alice.connection.transaction()
    await pushing.start()
    await alice.push("orders", "ann", 2)
    removing = asyncio.create_task(remove_idle(bob))
    await until_blocked(bob)
    await pushing.commit()
    assert await removing == 0
    [delivery] = await queue.pop("g", "orders")
    assert delivery.values == [2]


async def test_no_more_than_asked_for_are_removed(queue):
    await emptied(queue, "a", "b", "c")
    queue.clock.advance(61)
    assert [await remove_idle(queue, limit=2) for _ in range(3)] == [2, 1, 0]
    with pytest.raises(InvalidArgument):
        await remove_idle(queue, limit=0)
