"""queen.why: every cause, provoked, and gone again when it is over."""

from datetime import timedelta

import pytest

from queenmq.errors import InvalidArgument

pytestmark = pytest.mark.every_postgres


async def why(queue, group="g", partition=None, name="orders", **named):
    return await queue.call("why", name, group, partition, p_now=queue.clock.now, **named)


async def cause(queue, *arguments, **named):
    """The cause of the only row."""
    [row] = await why(queue, *arguments, **named)
    assert row["explanation"]
    return row["cause"]


async def popped(queue, *values, group="g", **options):
    """The group has popped from a partition with these messages."""
    await queue.push("orders", "ann", *values)
    return await queue.pop(group, "orders", **options)


def after(queue, seconds):
    return queue.clock.now + timedelta(seconds=seconds)


async def test_what_does_not_exist_is_said(queue):
    assert await cause(queue) == "no_queue"
    await queue.push("orders", "ann", 1)
    assert await cause(queue) == "no_group"
    assert [row["cause"] for row in await why(queue, partition="bob")] == ["no_partition", "no_group"]
    await queue.pop("g", "orders", auto_ack=True)
    assert await cause(queue, partition="bob") == "no_partition"


async def test_a_lease_is_named_with_its_end(queue):
    [delivery] = await popped(queue, 1, 2, 3, batch=2, lease_seconds=60)
    await queue.ack(delivery, [0])
    [row] = await why(queue)
    assert (row["partition"], row["cause"], row["lease_id"]) == ("ann", "leased", delivery.lease_id)
    assert (row["until"], row["messages"], row["offset"]) == (after(queue, 60), 1, 1)
    assert "since 2030-01-01 12:00:00 UTC and until 2030-01-01 12:01:00 UTC" in row["explanation"]
    queue.clock.advance(60)
    assert await cause(queue) == "ready"


async def test_other_groups_are_not_meant(queue):
    await popped(queue, 1)
    await queue.pop("h", "orders", auto_ack=True)
    assert (await cause(queue), await cause(queue, "h")) == ("leased", "read")


async def test_a_delay_is_told_with_its_end(queue):
    await queue.configure("orders", delayed_processing_seconds=30)
    assert await popped(queue, 1) == []
    [row] = await why(queue)
    assert (row["cause"], row["until"], row["messages"]) == ("delayed", after(queue, 30), 1)
    queue.clock.advance(30)
    assert await cause(queue) == "ready"


async def test_a_window_that_is_not_quiet_is_told_with_its_end(queue):
    await queue.configure("orders", window_buffer_seconds=30)
    assert await popped(queue, 1) == []
    queue.clock.advance(20)
    await queue.push("orders", "ann", 2)
    [row] = await why(queue)
    assert (row["cause"], row["until"], row["messages"]) == ("debounced", after(queue, 30), 2)
    queue.clock.advance(30)
    assert await cause(queue) == "ready"


async def test_a_lapsed_lease_in_a_window_that_is_not_quiet_is_debounced(queue):
    await queue.configure("orders", window_buffer_seconds=30)
    await popped(queue, 1)
    queue.clock.advance(30)
    assert await queue.pop("g", "orders", lease_seconds=10)
    queue.clock.advance(5)
    await queue.push("orders", "ann", 2)
    queue.clock.advance(5)
    assert await cause(queue) == "debounced"
    assert await queue.pop("g", "orders") == []


async def test_a_retry_is_counted_against_its_limit(queue):
    await queue.configure("orders", retry_limit=3, retry_delay_ms=5000)
    [delivery] = await popped(queue, 1)
    await queue.fail(delivery)
    [row] = await why(queue)
    assert (row["cause"], row["until"], row["failures"]) == ("retrying", after(queue, 5), 1)
    assert "retry 1 of 3" in row["explanation"]
    queue.clock.advance(5)
    assert await cause(queue) == "ready"


async def test_a_head_that_lets_leases_expire_is_poison(queue):
    await queue.configure("orders", retry_limit=1)
    await popped(queue, 1, lease_seconds=10)
    queue.clock.advance(10)
    assert await cause(queue) == "ready"
    await queue.pop("g", "orders", lease_seconds=10)
    queue.clock.advance(10)
    [row] = await why(queue)
    assert (row["cause"], row["failures"]) == ("poison", 1)
    assert "2 leases" in row["explanation"]
    await queue.pop("g", "orders")
    assert await cause(queue) == "read"


async def test_messages_that_waited_too_long_are_told(queue):
    await queue.configure("orders", max_wait_seconds=30)
    await queue.pop("g", "orders")
    await queue.push("orders", "ann", 1, 2)
    assert await cause(queue) == "ready"
    queue.clock.advance(40)
    await queue.push("orders", "ann", 3)
    [row] = await why(queue)
    assert (row["cause"], row["messages"], row["offset"]) == ("too_old", 2, 0)


async def test_a_group_that_subscribed_later_has_nothing_to_read(queue):
    await queue.push("orders", "ann", 1, 2)
    queue.clock.advance(10)
    assert await queue.pop("g", "orders", mode="new") == []
    [row] = await why(queue)
    assert (row["cause"], row["messages"]) == ("subscribed_later", 2)
    await queue.push("orders", "ann", 3)
    assert await cause(queue) == "ready"


async def test_a_partition_that_the_group_has_not_reached_is_told(queue):
    await popped(queue, 1, partition="ann")
    await queue.push("orders", "bob", 2)
    assert [(row["partition"], row["cause"]) for row in await why(queue)] == [("ann", "leased"), ("bob", "not_reached")]


async def test_read_and_empty_are_not_the_same(queue):
    await popped(queue, 1, auto_ack=True)
    assert await cause(queue) == "read"
    await queue.call("clear_queue", "orders")
    assert await cause(queue) == "empty"


async def test_paused_deliveries_are_told(queue):
    await popped(queue, 1)
    await queue.connection.execute("update queen.system_state set pop_paused = true")
    assert [row["cause"] for row in await why(queue)] == ["paused", "leased"]


async def test_a_paused_queue_and_a_paused_group_are_told(queue):
    await popped(queue, 1)
    await queue.call("pause", "orders")
    await queue.call("pause", "orders", "g")
    assert [row["cause"] for row in await why(queue)] == ["queue_paused", "group_paused", "leased"]
    await queue.call("resume", "orders")
    assert [row["cause"] for row in await why(queue)] == ["group_paused", "leased"]


async def test_messages_in_the_inbox_are_told(queue):
    await popped(queue, 1, auto_ack=True)
    await queue.push_in_transaction("orders", "ann", 2, 3)
    [inbox, ann] = await why(queue)
    assert (inbox["cause"], inbox["messages"], ann["cause"]) == ("inbox", 2, "read")
    assert [row["cause"] for row in await why(queue, partition="ann")] == ["inbox", "read"]
    await queue.sequence()
    assert await cause(queue) == "ready"


async def test_partitions_with_work_come_first_and_the_limit_holds(queue):
    for name in ("a", "b", "c", "d"):
        await queue.push("orders", name, 1)
        await queue.pop("g", "orders", name, auto_ack=True)
    await queue.push("orders", "c", 2)
    queue.clock.advance(1)
    await queue.push("orders", "b", 2)
    assert [row["partition"] for row in await why(queue)] == ["c", "b", "a", "d"]
    assert [row["partition"] for row in await why(queue, p_limit=3)] == ["c", "b", "a"]
    assert [row["partition"] for row in await why(queue, p_limit=1)] == ["c"]
    with pytest.raises(InvalidArgument):
        await why(queue, p_limit=0)
