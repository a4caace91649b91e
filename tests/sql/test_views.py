"""The views, which live in real time: this is what an operator looks at."""

import json
from datetime import UTC, datetime

import pytest

from tests.sql.plans import pages_of

pytestmark = pytest.mark.every_postgres


@pytest.fixture(autouse=True)
def real_time(queue):
    queue.clock.now = datetime.now(UTC)


async def view(queue, name, columns, order="1, 2"):
    rows = await queue.connection.fetch(f"select {columns} from queen.{name} order by {order}")
    return [tuple(row) for row in rows]


async def test_messages(queue):
    await queue.push("orders", "ann", {"n": 1}, 2, ids=["a", None])
    rows = await queue.connection.fetch('select * from queen.messages order by "offset"')
    assert [json.loads(row["payload"]) for row in rows] == [{"n": 1}, 2]
    assert [row["transaction_id"] for row in rows] == ["a", str(rows[1]["id"])]
    assert (rows[0]["queue"], rows[0]["partition"], rows[0]["encrypted"]) == ("orders", "ann", False)
    [message] = await queue.call("get_message", rows[0]["id"])
    assert message["offset"] == 0


async def test_queue_depths_tell_how_many_more_messages_a_queue_takes(queue):
    await queue.configure("small", max_queue_size=3)
    await queue.push("small", "ann", 1, 2)
    await queue.push("unlimited", "ann", 1)
    columns = "queue_name, current_depth, max_queue_size, remaining_capacity"
    assert await view(queue, "queue_depths", columns) == [("small", 2, 3, 1), ("unlimited", 1, 0, None)]
    await queue.connection.execute("update queen.queues set max_queue_size = 1 where name = 'small'")
    assert await view(queue, "queue_depths", columns) == [("small", 2, 1, 0), ("unlimited", 1, 0, None)]


async def test_the_ledger_accounts_for_every_message(queue):
    await queue.configure("orders", retry_limit=0)
    await queue.push("orders", "ann", *range(10))
    [delivery] = await queue.pop("g", "orders", batch=6)
    await queue.ack(delivery, [0, 1, 3])
    await queue.fail(delivery, [2])
    columns = "pushed, skipped, completed, dead_lettered, expired, leased, pending, balanced"
    assert await view(queue, "ledger", columns) == [(10, 0, 3, 1, 0, 2, 4, True)]
    await queue.connection.execute("update queen.partition_consumers set completed = 4")
    assert await view(queue, "ledger", "balanced", "1") == [(False,)]
    await queue.connection.execute("update queen.partition_consumers set completed = 3")


async def test_active_leases(queue):
    await queue.push("orders", "ann", *range(5))
    [delivery] = await queue.pop("g", "orders", lease_seconds=100)
    await queue.ack(delivery, [0, 3])
    await queue.ack(delivery, [1], "retry")
    [row] = await queue.connection.fetch("select * from queen.active_leases")
    assert (row["lease_id"], row["queue"], row["group_name"]) == (delivery.lease_id, "orders", "g")
    assert (row["from_offset"], row["to_offset"], row["remaining"]) == (0, 5, 2)
    assert 90 < row["seconds_left"] <= 100
    assert (row["queue_name"], row["partition_name"], row["consumer_group"]) == ("orders", "ann", "g")
    assert (row["lease_expires_at"], row["message_count"]) == (row["expires_at"], 2)
    assert row["seconds_remaining"] == row["seconds_left"]
    queue.clock.advance(-200)
    await queue.connection.execute("update queen.partition_consumers set ready_at = $1", queue.clock.now)
    assert await queue.connection.fetch("select * from queen.active_leases") == []


async def test_partition_utilisation(queue):
    await queue.configure("empty")
    for name in ("a", "b", "c"):
        await queue.push("orders", name, 1)
    await queue.partition_id("orders", "never used")
    [delivery] = await queue.pop("g", "orders")
    await queue.ack(delivery)
    await queue.pop("g", "orders")
    columns = "queue, partitions, with_messages, leased, ready, idle"
    assert await view(queue, "partition_utilisation", columns) == [("empty", 0, 0, 0, 0, 0), ("orders", 4, 3, 1, 1, 1)]
    columns = "queue_name, total_partitions, leased_partitions, utilisation_pct::text, utilization_pct::text"
    assert await view(queue, "partition_utilisation", columns) == [
        ("empty", 0, 0, None, None),
        ("orders", 4, 1, "25.00", "25.00"),
    ]


async def test_stuck_partitions_say_why(queue):
    await queue.configure("orders", lease_seconds=100, retry_limit=2)
    for name in ("abandoned", "expiring", "fine", "poison", "retrying"):
        await queue.push("orders", name, 1)
    start = queue.clock.now

    queue.clock.advance(-200)
    await queue.pop("g", "orders", "abandoned")
    for _ in range(3):
        queue.clock.advance(-200)
        await queue.connection.execute(
            "update queen.partition_consumers set ready_at = $1 where lease_id is not null "
            "and partition_id in (select id from queen.partitions where name = 'poison')",
            queue.clock.now,
        )
        queue.clock.now = start
        [delivery] = await queue.pop("g", "orders", "poison", lease_seconds=1000)
    assert delivery.retry_counts == [2]
    await queue.pop("g", "orders", "expiring", lease_seconds=5)
    await queue.pop("g", "orders", "fine")
    [delivery] = await queue.pop("g", "orders", "retrying")
    await queue.fail(delivery)
    assert await view(queue, "stuck_partitions", 'partition, reason, "offset", failures') == [
        ("abandoned", "abandoned", 0, 0),
        ("expiring", "expiring", 0, 0),
        ("poison", "poison", 0, 2),
        ("retrying", "retrying", 0, 1),
    ]


async def test_stuck_partitions_tell_since_when_a_lease_is_held(queue):
    await queue.push("orders", "held", 1)
    await queue.push("orders", "failed", 1)
    queue.clock.advance(-100)
    started = queue.clock.now
    [held] = await queue.pop("g", "orders", "held", lease_seconds=60)
    queue.clock.advance(50)
    await queue.renew(held, 55)
    queue.clock.advance(50)
    [delivery] = await queue.pop("g", "orders", "failed")
    await queue.fail(delivery)
    columns = "partition_name, queue_name, consumer_group, lease_started_at, lease_expires_at = ready_at"
    assert await view(queue, "stuck_partitions", columns) == [
        ("failed", "orders", "g", None, None),
        ("held", "orders", "g", started, True),
    ]
    [(seconds,), _] = await view(queue, "stuck_partitions", "lease_held_seconds", "lease_started_at")
    assert 100 <= seconds < 160


async def test_depth_is_what_some_group_has_yet_to_finish(queue):
    await queue.configure("orders", max_queue_size=50)
    await queue.push("orders", "ann", *range(5))
    await queue.push_in_transaction("orders", "ann", "waits")
    [delivery] = await queue.pop("fast", "orders")
    await queue.ack(delivery)
    assert await view(queue, "depth", "*") == [("orders", 5, 0, 1, 50)]
    await queue.pop("slow", "orders")
    assert await view(queue, "depth", "*") == [("orders", 5, 5, 1, 50)]


async def test_lag_in_messages_and_seconds(queue):
    queue.clock.advance(-100)
    await queue.push("orders", "ann", 1, 2)
    queue.clock.advance(50)
    await queue.push("orders", "bob", 3)
    queue.clock.advance(50)
    await queue.pop("behind", "orders", "nobody")
    for partition in ("ann", "bob"):
        [delivery] = await queue.pop("partly", "orders", partition)
        await queue.ack(delivery, delivery.offsets[:1])
    columns = "group_name, partitions_with_lag, messages, round(seconds::numeric, -1)::int, complete"
    assert await view(queue, "lag", columns) == [
        ("behind", 0, 0, 0, True),
        ("partly", 1, 1, 100, True),
    ]
    await queue.pop("behind", "orders", lease_seconds=1)
    assert await view(queue, "lag", columns) == [
        ("behind", 2, 3, 100, True),
        ("partly", 1, 1, 100, True),
    ]
    columns = "group_name, partition, messages, round(seconds::numeric, -1)::int"
    assert await view(queue, "lag_by_partition", columns) == [
        ("behind", "ann", 2, 100),
        ("behind", "bob", 1, 50),
        ("partly", "ann", 1, 100),
        ("partly", "bob", 0, 0),
    ]


UNREAD = "queue, partitions, pushed, messages, round(seconds::numeric, -1)::int"


async def test_unread_is_what_no_group_has_asked_for(queue):
    await queue.configure("empty")
    queue.clock.advance(-100)
    await queue.push_many(("orders", "ann", [1, 2]), ("orders", "bob", [3]))
    queue.clock.advance(50)
    await queue.push("orders", "bob", 4)
    await queue.push("bills", "ann", 5)
    queue.clock.advance(50)
    assert await view(queue, "unread", UNREAD) == [("bills", 1, 1, 1, 50), ("orders", 2, 4, 4, 100)]
    await queue.pop("g", "orders", "ann")
    assert await view(queue, "unread", UNREAD) == [("bills", 1, 1, 1, 50), ("orders", 1, 2, 2, 100)]
    await queue.pop("h", "orders")
    await queue.pop("h", "bills")
    assert await view(queue, "unread", UNREAD) == []


async def test_messages_that_retention_has_taken_are_not_unread(queue):
    await queue.push("orders", "ann", 1, 2)
    await queue.push("orders", "bob", 3)
    await queue.call("clear_queue", "orders")
    assert await view(queue, "unread", UNREAD) == []
    await queue.push("orders", "bob", 4)
    assert await view(queue, "unread", "queue, partitions, pushed, messages") == [("orders", 1, 4, 1)]


@pytest.mark.parametrize("partly_read", [False, True])
async def test_unread_costs_the_same_for_few_messages_and_for_many(queue, partly_read):
    await queue.push_many(("orders", "ann", [0]), ("orders", "bob", [0]))
    if partly_read:
        await queue.pop("g", "orders", "ann")
    few = await pages_of(queue.connection, "select * from queen.unread")
    for number in range(100):
        await queue.push("orders", "bob", number)
    await queue.connection.execute("vacuum queen.partition_lookup")  # a version per push, which HOT pruning may leave
    assert await pages_of(queue.connection, "select * from queen.unread") <= few + 3
