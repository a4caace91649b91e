"""Queues, partitions, groups and messages can be removed while they are in use."""

import asyncio

import pytest

from queenmq.errors import (
    GroupNotFound,
    InvalidTimestamp,
    LeaseGone,
    PartitionNotFound,
    QueueFull,
    QueueNotFound,
)
from tests.queue_in_sql import NOON

pytestmark = pytest.mark.every_postgres

TABLES = [
    "queues", "partitions", "partition_lookup", "segments", "queue_groups", "partition_consumers", "message_traces",
    "dead_letters", "inbox", "depth_bounds", "retention_history", "stats", "consumer_groups_metadata",
]  # fmt: skip


async def one(queue, function, *arguments, **named):
    [row] = await queue.call(function, *arguments, **named)
    return row[0]


async def left(queue):
    counts = {table: await queue.connection.fetchval(f"select count(*) from queen.{table}") for table in TABLES}
    return {table: count for table, count in counts.items() if count}


async def test_deleting_a_queue_leaves_nothing_of_it(queue):
    await queue.configure("orders", max_queue_size=100, retention_seconds=60, retry_limit=0)
    await queue.push("orders", "ann", 1, 2)
    await queue.call("push", "orders", "3", "ann", None, "3f0e7c1a-0000-4000-8000-000000000000", p_now=queue.clock.now)
    await queue.sequence()
    [delivery] = await queue.pop("g", "orders", mode="new", since=queue.clock.now)
    await queue.fail(delivery, [0])
    await queue.call("collect_stats", queue.clock.now)
    await queue.push_in_transaction("orders", "ann", "waiting")
    assert await one(queue, "delete_queue", "orders")
    assert await left(queue) == {}
    assert not await one(queue, "delete_queue", "orders")


async def test_deleting_rows_of_queues_leaves_nothing_of_them_and_others_alone(queue):
    for name in ["orders", "letters", "bills"]:
        await queue.configure(name, max_queue_size=100, retry_limit=0)
        await queue.push(name, "ann", 1, 2)
        await queue.push(name, "bob", 3)
        await queue.push_in_transaction(name, "ann", "waiting")
    [delivery] = await queue.pop("g", "orders", "ann", mode="new", since=queue.clock.now)
    await queue.fail(delivery, [0])
    await queue.call("collect_stats", queue.clock.now)
    [kept] = await queue.pop("g", "bills", "ann")
    assert await queue.connection.execute("delete from queen.queues where name in ('orders', 'letters')") == "DELETE 2"
    assert await queue.connection.fetchval("select array_agg(name) from queen.queues") == ["bills"]
    assert (await queue.ack(kept)).released
    assert await queue.connection.execute("delete from queen.queues where name = 'orders'") == "DELETE 0"
    assert await queue.connection.execute("delete from queen.queues") == "DELETE 1"
    assert await left(queue) == {}


async def test_a_deletion_of_queues_that_is_rolled_back_leaves_everything(queue):
    await queue.push("orders", "ann", 1)
    transaction = queue.connection.transaction()
    await transaction.start()
    await queue.connection.execute("delete from queen.queues")
    assert await left(queue) == {}
    await transaction.rollback()
    assert [delivery.values for delivery in await queue.pop("g", "orders")] == [[1]]


async def test_deleting_a_queue_leaves_others_alone(queue):
    for name in ["orders", "letters"]:
        await queue.push(name, "ann", 1)
        [delivery] = await queue.pop("g", name)
    await one(queue, "delete_queue", "orders")
    assert (await queue.ack(delivery)).released


async def test_who_holds_a_lease_on_a_deleted_queue_is_told(queue):
    await queue.push("orders", "ann", 1)
    [delivery] = await queue.pop("g", "orders")
    await one(queue, "delete_queue", "orders")
    with pytest.raises(LeaseGone):
        await queue.ack(delivery)
    with pytest.raises(LeaseGone):
        await queue.renew(delivery)


async def push_by_id(queue, partition_id):
    return await queue.call("push_segments", [partition_id], [1], [b"[1]"], p_now=queue.clock.now)


async def test_a_pusher_that_knows_a_deleted_partition_is_told(queue):
    partition_id = await queue.partition_id("orders", "ann")
    await one(queue, "delete_queue", "orders")
    with pytest.raises(PartitionNotFound) as refusal:
        await push_by_id(queue, partition_id)
    assert refusal.value.detail == f"[{partition_id}]"


async def test_a_push_that_waits_for_a_deletion_is_told(queue, another, until_blocked):
    partition_id = await queue.partition_id("orders", "ann")
    alice, bob = await another(), await another()
    transaction = alice.connection.transaction()
    await transaction.start()
    await one(alice, "delete_queue", "orders")
    pushing = asyncio.create_task(push_by_id(bob, partition_id))
    await until_blocked(bob)
    await transaction.commit()
    with pytest.raises(PartitionNotFound):
        await pushing


async def test_a_push_by_name_that_waits_for_a_deletion_begins_a_new_queue(queue, another, until_blocked):
    await queue.push("orders", "ann", 1)
    alice, bob = await another(), await another()
    transaction = alice.connection.transaction()
    await transaction.start()
    await one(alice, "delete_queue", "orders")
    pushing = asyncio.create_task(bob.push("orders", "bob", 2))
    await until_blocked(bob)
    await transaction.commit()
    assert await pushing == [0]
    assert await queue.connection.fetchval("select count(*) from queen.messages") == 1


async def test_a_deletion_waits_for_a_pop_in_flight(queue, another, until_blocked):
    await queue.push("orders", "ann", 1)
    await queue.pop("g", "orders", "nobody")
    alice, bob = await another(), await another()
    transaction = alice.connection.transaction()
    await transaction.start()
    [delivery] = await alice.pop("g", "orders")
    deleting = asyncio.create_task(one(bob, "delete_queue", "orders"))
    await until_blocked(bob)
    await transaction.commit()
    assert await deleting
    with pytest.raises(LeaseGone):
        await alice.ack(delivery)


async def test_a_deleted_partition_begins_anew_for_every_group(queue):
    await queue.push("orders", "ann", 1, 2)
    await queue.push("orders", "bob", 3)
    [delivery] = await queue.pop("g", "orders", "ann")
    assert await one(queue, "delete_partition", "orders", "ann")
    assert not await one(queue, "delete_partition", "orders", "ann")
    with pytest.raises(LeaseGone):
        await queue.ack(delivery)
    assert await queue.push("orders", "ann", 4) == [0]
    [delivery] = await queue.pop("g", "orders", "ann")
    assert delivery.values == [4]
    [delivery] = await queue.pop("g", "orders", "bob")
    assert delivery.values == [3]


async def test_clearing_drops_the_messages_and_keeps_the_queue(queue):
    await queue.push("orders", "ann", 1, 2, 3)
    await queue.push("orders", "bob", 4)
    [delivery] = await queue.pop("g", "orders", "ann", batch=2)
    await queue.ack(delivery, [0])
    [untouched] = await queue.pop("other", "orders", "bob")
    await queue.ack(untouched)
    assert await one(queue, "clear_queue", "orders", queue.clock.now) == 4
    with pytest.raises(LeaseGone):
        await queue.renew(delivery)
    assert (await queue.ack(delivery, [1])).already
    rows = await queue.connection.fetch(
        "select group_name, partition, completed, expired, pending + leased as open from queen.ledger order by 1, 2"
    )
    assert [tuple(row) for row in rows] == [("g", "ann", 1, 2, 0), ("other", "bob", 1, 0, 0)]
    assert await queue.push("orders", "ann", 5) == [3]
    [delivery] = await queue.pop("g", "orders")
    assert delivery.values == [5]
    with pytest.raises(QueueNotFound):
        await queue.call("clear_queue", "nowhere", queue.clock.now)


async def test_clearing_makes_room_in_a_full_queue(queue):
    await queue.configure("orders", max_queue_size=2)
    await queue.push("orders", "ann", 1, 2)
    with pytest.raises(QueueFull):
        await queue.push("orders", "ann", 3)
    await one(queue, "clear_queue", "orders", queue.clock.now)
    await queue.push("orders", "ann", 3, 4)


async def test_a_deleted_group_subscribes_anew(queue):
    await queue.push("orders", "ann", 1)
    queue.clock.advance(10)
    [delivery] = await queue.pop("g", "orders")
    assert await one(queue, "delete_group", "g", "orders") == 1
    with pytest.raises(LeaseGone):
        await queue.ack(delivery)
    assert await queue.pop("g", "orders", mode="new", since=queue.clock.now) == []
    await queue.push("orders", "ann", 2)
    [delivery] = await queue.pop("g", "orders")
    assert delivery.values == [2]


async def test_a_group_deleted_without_its_subscription_starts_again_from_it(queue):
    await queue.push("orders", "ann", "before")
    queue.clock.advance(10)
    assert await queue.pop("g", "orders", mode="new", since=queue.clock.now) == []
    await queue.push("orders", "ann", 1, 2)
    [delivery] = await queue.pop("g", "orders")
    await queue.ack(delivery)
    await one(queue, "delete_group", "g", "orders", p_with_subscription=False)
    [delivery] = await queue.pop("g", "orders", mode="all")
    assert delivery.values == [1, 2]


async def test_a_group_is_deleted_on_all_queues_and_its_dead_letters_stay(queue):
    for name in ["orders", "letters"]:
        await queue.configure(name, retry_limit=0)
        await queue.push(name, "ann", 1)
        [delivery] = await queue.pop("g", name)
        await queue.fail(delivery)
        [delivery] = await queue.pop("other", name)
    assert await one(queue, "delete_group", "g") == 2
    assert await one(queue, "delete_group", "g") == 0
    assert len(await queue.call("list_dead_letters")) == 2
    assert (await queue.ack(delivery)).released
    with pytest.raises(QueueNotFound):
        await queue.call("delete_group", "g", "nowhere")


async def test_without_its_only_group_a_queue_counts_everything_stored(queue):
    await queue.configure("orders", max_queue_size=3)
    await queue.push("orders", "ann", 1, 2)
    [delivery] = await queue.pop("g", "orders")
    await queue.ack(delivery)
    await queue.push("orders", "ann", 3, 4)
    await one(queue, "delete_group", "g")
    with pytest.raises(QueueFull):
        await queue.push("orders", "ann", 5)


async def test_a_subscription_can_be_moved(queue):
    for number in range(3):
        await queue.push("orders", f"p{number}", f"early {number}")
        queue.clock.advance(10)
    await queue.pop("g", "orders", mode="new", since=queue.clock.now)
    assert await one(queue, "set_subscription", "g", "orders", NOON, queue.clock.now) == 1
    await one(queue, "delete_group", "g", "orders", p_with_subscription=False)
    assert len(await queue.pop("g", "orders", partitions=5)) == 3


async def test_a_subscription_that_does_not_exist_or_has_no_past_is_not_moved(queue):
    await queue.push("orders", "ann", 1)
    await queue.pop("g", "orders")
    with pytest.raises(GroupNotFound):
        await queue.call("set_subscription", "stranger", "orders", queue.clock.now, queue.clock.now)
    with pytest.raises(InvalidTimestamp):
        await queue.call("set_subscription", "g", "orders", None, queue.clock.now)
    with pytest.raises(InvalidTimestamp):
        await queue.call("set_subscription", "g", "orders", queue.clock.now.replace(year=2040), queue.clock.now)
