"""A queue that is archived keeps what the archive does not have, however old it is."""

import pytest

pytestmark = pytest.mark.every_postgres

DAY = 86400


async def retain(queue):
    queue_id = await queue.connection.fetchval("select id from queen.queues where name = 'orders'")
    [row] = await queue.call("retain", queue_id, None, 1000, queue.clock.now)
    return row["messages"]


async def archive_up_to(queue, tick):
    await queue.connection.execute(
        "insert into queen.archives (queue_id, location, tick) "
        "select id, 'somewhere', $1 from queen.queues where name = 'orders' "
        "on conflict (queue_id) do update set tick = excluded.tick",
        tick,
    )


async def test_retention_waits_for_the_archive(queue):
    await queue.configure("orders", retention_seconds=60)
    await queue.push("orders", "ann", 1, 2)
    await archive_up_to(queue, 0)
    queue.clock.advance(DAY)
    assert await retain(queue) == 0
    tick = await queue.connection.fetchval("select queen.take_tick()")
    await queue.push("orders", "ann", 3)
    await queue.push("orders", "bob", 4)
    queue.clock.advance(DAY)
    await archive_up_to(queue, tick)
    assert await retain(queue) == 2
    assert await retain(queue) == 0
    await archive_up_to(queue, await queue.connection.fetchval("select queen.take_tick()"))
    assert await retain(queue) == 2


async def test_what_was_being_pushed_at_the_tick_is_not_in_the_archive(queue, another):
    await queue.configure("orders", retention_seconds=60)
    await queue.push("orders", "ann", 1)
    alice = await another()
    transaction = alice.connection.transaction()
    await transaction.start()
    await alice.push("orders", "bob", 2)
    await queue.push("orders", "ann", 3)
    await archive_up_to(queue, await queue.connection.fetchval("select queen.take_tick()"))
    await transaction.commit()
    queue.clock.advance(DAY)
    assert await retain(queue) == 2
    assert await retain(queue) == 0
    rows = await queue.connection.fetch("select partition from queen.messages")
    assert [row["partition"] for row in rows] == ["bob"]


async def test_completed_messages_wait_for_the_archive_too(queue):
    await queue.configure("orders", completed_retention_seconds=60)
    await queue.push("orders", "ann", 1)
    [delivery] = await queue.pop("g", "orders")
    await queue.ack(delivery)
    await archive_up_to(queue, 0)
    queue.clock.advance(DAY)
    assert await retain(queue) == 0
    await archive_up_to(queue, await queue.connection.fetchval("select queen.take_tick()"))
    assert await retain(queue) == 1


async def test_what_an_older_epoch_has_written_is_archived_with_any_later_tick(queue):
    await queue.configure("orders", retention_seconds=60)
    await queue.push("orders", "ann", 1)
    await queue.connection.execute("update queen.segments set xid = '9000000000000'")  # of a cluster that had seen more
    assert await queue.connection.fetchval("select queen.check_epoch()") == 2
    await archive_up_to(queue, await queue.connection.fetchval("select queen.take_tick()"))
    queue.clock.advance(DAY)
    assert await retain(queue) == 1


async def test_the_tick_with_which_an_archive_ends_is_kept(queue):
    await queue.push("orders", "ann", 1)
    kept = await queue.connection.fetchval("select queen.take_tick($1)", queue.clock.now)
    await queue.push("orders", "ann", 2)
    other = await queue.connection.fetchval("select queen.take_tick($1)", queue.clock.now)
    await archive_up_to(queue, kept)
    queue.clock.advance(40 * DAY)
    await queue.push("orders", "ann", 3)
    await queue.connection.fetchval("select queen.take_tick($1)", queue.clock.now)
    rows = await queue.connection.fetch("select id from queen.ticks")
    assert kept in {row["id"] for row in rows}
    assert other not in {row["id"] for row in rows}


async def test_a_queue_that_is_deleted_is_not_archived_any_more(queue):
    await queue.push("orders", "ann", 1)
    await archive_up_to(queue, 0)
    await queue.call("delete_queue", "orders")
    assert await queue.connection.fetchval("select count(*) from queen.archives") == 0
