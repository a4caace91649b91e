"""What a call goes through does not depend on what PostgreSQL knows of the tables.

A session keeps the plans of its first calls until the tables are counted. Those that were made for ten partitions serve
thousands, and those of thousands that nobody has counted are no worse.
"""

import uuid
from datetime import timedelta

import pytest

from tests.sql.test_plans import FEW, HOT, Explained, grow, make_ready, pairs_compared, rows_touched

pytestmark = pytest.mark.every_postgres

MANY = 3_000
CALLS = 7  # five of them are planned anew
ROWS_MAX = 50  # of a statement
BY_THE_TEST = ("select first_offset, payloads from queen.segments", "where partition_id <= 5")


async def new_group(queue):
    name = str(uuid.uuid4())
    await queue.call("subscribe", name, "orders", None, None, None, "all", None, queue.clock.now)
    await reach_five_more(queue, name)


async def next_of_a_group(queue):
    """A group that has most of the partitions gets some more."""
    await queue.connection.execute("delete from queen.partition_consumers where partition_id <= 5")
    await queue.connection.execute("update queen.queue_groups set complete = false, reached_partition_id = 0")
    await reach_five_more(queue, "g")


async def reach_five_more(queue, name):
    group = await queue.connection.fetchval("select id from queen.queue_groups where name = $1", name)
    [[reached]] = await queue.call("extend_group", group, 5)
    assert reached == 5


async def failure(queue):
    [delivery] = await queue.pop("g", "orders")
    assert (await queue.fail(delivery)).accepted


async def lapse(queue):
    [delivery] = await queue.pop("g", "orders", partition="p3")
    queue.clock.advance(1_000)
    [delivery] = await queue.pop("g", "orders", partition="p3")
    assert delivery.retry_counts[0] == 1
    await queue.ack(delivery)
    await queue.seek("g", "orders", "p3", to="beginning")


async def release(queue):
    [delivery] = await queue.pop("g", "orders")
    await queue.release(delivery)


async def transaction(queue):
    [delivery] = await queue.pop("g", "orders")
    await queue.transact([(delivery, delivery.offsets, "completed")], [("orders", "p3", ["receipt"])])


async def outbox(queue):
    await queue.push_in_transaction("orders", "p3", "letter")
    assert (await queue.sequence())["stored"] == 1


async def seek(queue):
    await queue.seek("g", "orders", "p5", at=queue.clock.now - timedelta(days=1))


async def ack_by_id(queue):
    id = str(uuid.uuid4())
    await queue.push("orders", "p5", "named", ids=[id])
    partition_id = await queue.partition_id("orders", "p5")
    [found] = await queue.call("locate_messages", [partition_id], ["g"], [id], queue.clock.now)
    assert found["offset"] is not None
    await queue.call("delete_message", partition_id, id, queue.clock.now)


async def redrive(queue):
    [delivery] = await queue.pop("g", "orders")
    await queue.ack(delivery, status="dlq")
    [[redriven]] = await queue.call("redrive_dead_letters", p_queue="orders", p_now=queue.clock.now)
    assert redriven == 1


async def retention(queue):
    await queue.configure("orders", retention_seconds=60)
    cursor = await queue.connection.fetchval("select pg_current_xact_id()::text")
    await queue.push("orders", "p3", "old")
    [orders] = await queue.connection.fetchrow("select id from queen.queues")
    later = queue.clock.now + timedelta(days=1)
    [row] = await queue.call("retain", orders, f"1.{cursor}", 5, p_now=later)
    assert row["segments"] > 0


async def reading(queue):
    assert await queue.call("read_messages", "orders", "p5")


async def removal(queue):
    await queue.partition_id("orders", "short-lived")
    await queue.call("delete_partition", "orders", "short-lived")


WORK = [
    new_group, next_of_a_group, failure, lapse, release, transaction, outbox, seek, ack_by_id, redrive, retention,
    reading, removal,
]  # fmt: skip


@pytest.fixture
async def orders(queue):
    """A queue that a group reads, with few partitions; nothing is counted."""
    for table in (*HOT, "partitions"):
        await queue.connection.execute(f"alter table queen.{table} set (autovacuum_enabled = off)")
    await queue.configure("orders")
    await queue.call("subscribe", "g", "orders", None, None, None, "all", None, queue.clock.now)
    await queue.connection.execute("update queen.queue_groups set complete = true")
    await grow(queue.connection, 0, FEW)
    await make_ready(queue.connection, "true")
    return queue


async def many(queue):
    await grow(queue.connection, FEW, MANY)
    await make_ready(queue.connection, f"partition_id > {FEW}")


async def assert_it_stays_small(queue, work):
    async with Explained(queue.connection) as explained:
        await work(queue)
    texts = [text for text in explained.texts() if not any(own in text for own in BY_THE_TEST)]
    touched = {text: rows_touched(explained.scans(text)) for text in texts}
    assert {text: rows for text, rows in touched.items() if rows > ROWS_MAX} == {}
    assert pairs_compared(explained) == {}


@pytest.mark.parametrize("work", WORK, ids=lambda work: work.__name__)
async def test_a_plan_for_few_partitions_serves_many(orders, work):
    for _ in range(CALLS):
        await work(orders)
    await many(orders)
    await assert_it_stays_small(orders, work)


@pytest.mark.parametrize("work", WORK, ids=lambda work: work.__name__)
async def test_many_partitions_that_nobody_has_counted(orders, work):
    await many(orders)
    for _ in range(CALLS):
        await assert_it_stays_small(orders, work)
