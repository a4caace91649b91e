"""To find a place in the log costs a search: every partition is asked once, however often the answer is used.

PostgreSQL puts the expression of a subquery wherever its column is named, unless it is kept from it.
"""

from datetime import timedelta

import pytest

pytestmark = pytest.mark.every_postgres

PARTITIONS = 3
CALLS = "select calls from pg_stat_xact_user_functions where schemaname = 'queen' and funcname = $1"


@pytest.fixture
async def orders(queue):
    """A message in each of some partitions, a minute ago."""
    await queue.push_many(*(("orders", f"p{number}", ["first"]) for number in range(PARTITIONS)))
    queue.clock.advance(60)
    return queue


async def take_all(queue, group="g", **options):
    deliveries = await queue.pop(group, "orders", partitions=PARTITIONS, **options)
    assert len(deliveries) == PARTITIONS
    return deliveries


async def begin_at_a_moment(queue):
    await take_all(queue, "new", mode="timestamp", since=queue.clock.now - timedelta(minutes=2))


async def move_to_a_moment(queue):
    await queue.seek("g", "orders", at=queue.clock.now - timedelta(minutes=2))


async def take_what_was_delayed(queue):
    await queue.configure("orders", delayed_processing_seconds=30)
    await take_all(queue)


async def find_nothing_but_old_ones(queue):
    await queue.configure("orders", max_wait_seconds=30)
    assert await queue.pop("g", "orders", partitions=PARTITIONS) == []


@pytest.mark.parametrize(
    ("work", "function"),
    [
        (begin_at_a_moment, "offset_at"),
        (move_to_a_moment, "offset_at"),
        (take_what_was_delayed, "offset_at"),
        (find_nothing_but_old_ones, "offset_at"),
        (find_nothing_but_old_ones, "ready_after"),
        (begin_at_a_moment, "ready_after"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
async def test_every_partition_is_asked_once(orders, work, function):
    [delivery, *_] = await take_all(orders)  # all under one lease
    await orders.release(delivery)
    async with orders.connection.transaction():
        await orders.connection.execute("set local track_functions = 'all'")
        await work(orders)
        assert await orders.connection.fetchval(CALLS, function) == PARTITIONS
