"""Pops find work wherever it is; pop and ack one message at a time from SQL; whether anything is pending."""

import json
import uuid

import pytest

from queenmq.errors import InvalidArgument, InvalidStatus, LeaseGone, MessageNotFound, NotInLease

pytestmark = pytest.mark.every_postgres


async def pop(queue, *arguments, **named):
    return await queue.call("pop", *arguments, **named, p_now=queue.clock.now)


async def ack(queue, message, status="completed", error=None, lease_id=None):
    lease_id = lease_id or message["lease_id"]
    [row] = await queue.call("ack", message["message_id"], lease_id, status, error, queue.clock.now)
    return row[0]


async def pending(queue, name=None, partition=None, namespace=None, task=None, group="g"):
    [row] = await queue.call(
        "has_pending_messages", [name], [partition], [namespace], [task], [group], p_now=queue.clock.now
    )
    return row["pending"], row["next_ready_seconds"]


async def test_messages_are_popped_with_all_that_is_known_and_acknowledged(queue):
    trace = uuid.uuid4()
    await queue.call("push", "orders", '{"n": 1}', "ann", "o-1", trace, p_now=queue.clock.now)
    await queue.call("push", "orders", "null", "ann", p_now=queue.clock.now)
    await queue.sequence()
    first, second = await pop(queue, "orders", "g", 10)
    assert (first["queue"], first["partition"], first["offset"]) == ("orders", "ann", 0)
    assert (first["transaction_id"], first["trace_id"], first["retry_count"]) == ("o-1", trace, 0)
    assert json.loads(first["payload"]) == {"n": 1}
    assert second["payload"] == "null"
    assert second["transaction_id"] == str(second["message_id"])
    assert first["created_at"] == queue.clock.now
    assert not await ack(queue, second)
    assert await ack(queue, first)
    assert await pop(queue, "orders", "g", 10) == []


async def test_a_failed_message_comes_back_with_its_count(queue):
    await queue.push("orders", "ann", 1, 2)
    first, second = await pop(queue, "orders", "g", 10)
    assert not await ack(queue, first, "failed", "boom")
    assert await ack(queue, second)
    queue.clock.advance(1)
    [again] = await pop(queue, "orders", "g", 10)
    assert (again["offset"], again["retry_count"]) == (0, 1)
    assert await ack(queue, again, "dlq", "enough")
    assert [letter["error"] for letter in await queue.dead_letters("orders")] == ["enough"]


async def test_an_ack_needs_the_message_and_the_lease(queue):
    await queue.push("orders", "ann", 1, 2)
    await queue.push("orders", "bob", 3)
    [first] = await pop(queue, "orders", "g", 1, "ann")
    [other] = await pop(queue, "orders", "g", 1, "bob")
    second = {"message_id": await message_id(queue, "orders", "ann", 1), "lease_id": first["lease_id"]}
    with pytest.raises(NotInLease):
        await ack(queue, second)
    with pytest.raises(NotInLease):
        await ack(queue, other, lease_id=first["lease_id"])
    with pytest.raises(LeaseGone):
        await ack(queue, first, lease_id=uuid.uuid4())
    with pytest.raises(InvalidStatus):
        await ack(queue, first, "done")
    for stranger in [uuid.uuid4(), uuid.UUID("01900000-0000-7000-8000-010000000000")]:
        with pytest.raises(MessageNotFound):
            await ack(queue, {"message_id": stranger, "lease_id": first["lease_id"]})
    queue.clock.advance(300)
    with pytest.raises(LeaseGone):
        await ack(queue, first)


async def message_id(queue, name, partition, offset):
    [row] = await queue.call("read_messages", name, partition, offset, 1)
    return row["message_id"]


async def test_with_auto_ack_no_lease_remains(queue):
    await queue.push("orders", "ann", 1, 2)
    [message] = await pop(queue, "orders", p_auto_ack=True)
    assert message["lease_id"] is None
    [message] = await pop(queue, "orders", p_auto_ack=True)
    assert message["offset"] == 1
    assert await pop(queue, "orders", p_auto_ack=True) == []


async def test_auto_ack_steps_over_what_was_done_before(queue):
    await queue.push("orders", "ann", *range(6))
    [delivery] = await queue.pop("g", "orders")
    await queue.ack(delivery, [3, 4, 5])
    queue.clock.advance(300)
    [delivery] = await queue.pop("g", "orders", auto_ack=True)
    assert delivery.values == [0, 1, 2]
    assert await pending(queue, "orders") == (False, None)
    assert await queue.pop("g", "orders") == []


@pytest.mark.parametrize("arguments", [{"p_batch": 0}, {"p_lease_seconds": 0.0}, {"p_lease_seconds": 1e6}])
async def test_a_pop_that_asks_for_nonsense_is_refused(queue, arguments):
    await queue.push("orders", "ann", 1)
    with pytest.raises(InvalidArgument):
        await pop(queue, "orders", **arguments)
    assert await queue.connection.fetchval("select count(*) from queen.queue_groups") == 0


async def test_a_pop_from_a_queue_that_does_not_exist_leaves_one_subscription_behind(queue):
    for _ in range(2):
        assert await pop(queue, "nowhere") == []
    assert await queue.connection.fetchval("select count(*) from queen.queues") == 0
    assert await queue.connection.fetchval("select array_agg(mode) from queen.consumer_groups_metadata") == ["all"]


async def test_a_partition_with_nothing_to_deliver_does_not_stand_in_the_way(queue):
    await queue.configure("orders", max_wait_seconds=60)
    for number in range(5):
        await queue.push("orders", f"old {number}", number)
    queue.clock.advance(61)
    await queue.push("orders", "new", "fresh")
    [delivery] = await queue.pop("g", "orders")
    assert delivery.values == ["fresh"]


async def test_a_partition_of_which_all_was_given_up_rests_even_if_there_was_no_room_for_it(queue):
    await queue.configure("orders", max_wait_seconds=60)
    await queue.push("orders", "ann", "old")
    queue.clock.advance(1)
    await queue.push("orders", "bob", "old")
    queue.clock.advance(59)
    await queue.push("orders", "ann", "fresh")
    queue.clock.advance(5)
    [delivery] = await queue.pop("g", "orders", batch=1, partitions=2)
    assert (delivery.partition, delivery.values) == ("ann", ["fresh"])
    bob = await queue.partition_id("orders", "bob")
    query = "select committed, ready_at from queen.partition_consumers where partition_id = $1"
    assert await queue.connection.fetchrow(query, bob) == (1, None)


async def test_each_of_several_pops_is_served_past_empty_partitions(queue):
    await queue.configure("orders", max_wait_seconds=60)
    for number in range(3):
        await queue.push("orders", f"old {number}", number)
    queue.clock.advance(61)
    for number in range(3):
        await queue.push("orders", f"new {number}", f"fresh {number}")
    rows = await queue.call(
        "pop_batch", ["orders"] * 3, [None] * 3, [None] * 3, [None] * 3, ["g"] * 3, [1] * 3, [1] * 3, [None] * 3,
        [False] * 3, [uuid.uuid4() for _ in range(3)], ["all"] * 3, [None] * 3, p_now=queue.clock.now,
    )  # fmt: skip
    assert sorted(row["request"] for row in rows) == [1, 2, 3]
    assert {row["partition_name"] for row in rows} == {"new 0", "new 1", "new 2"}


async def test_a_group_that_does_not_exist_has_all_of_a_queue_pending(queue):
    assert await pending(queue, "orders") == (False, None)
    await queue.configure("orders")
    assert await pending(queue, "orders") == (False, None)
    await queue.push("orders", "ann", 1)
    assert await pending(queue, "orders") == (True, 0)
    assert await pending(queue, "orders", "ann") == (True, 0)
    assert await pending(queue, "orders", "bob") == (False, None)
    assert await queue.connection.fetchval("select count(*) from queen.queue_groups") == 0


async def test_pending_follows_lease_ack_and_push(queue):
    await queue.push("orders", "ann", 1)
    [delivery] = await queue.pop("g", "orders", lease_seconds=30)
    assert await pending(queue, "orders") == (False, 30)
    assert await pending(queue, "orders", "ann") == (False, 30)
    queue.clock.advance(30)
    assert await pending(queue, "orders") == (True, 0)
    [delivery] = await queue.pop("g", "orders")
    await queue.ack(delivery)
    assert await pending(queue, "orders") == (False, None)
    assert await pending(queue, "orders", "ann") == (False, None)
    await queue.push("orders", "bob", 2)
    assert await pending(queue, "orders") == (True, 0)
    assert await pending(queue, "orders", "ann") == (False, None)
    assert await pending(queue, "orders", group="other") == (True, 0)


async def test_pending_in_a_namespace_is_pending_in_one_of_its_queues(queue):
    await queue.configure("orders", "shop", "billing")
    await queue.configure("letters", "shop", "printing", delayed_processing_seconds=60)
    await queue.push("letters", "ann", 1)
    assert await queue.pop("g", namespace="shop") == []
    assert await pending(queue, namespace="shop") == (False, 60)
    assert await pending(queue, task="printing") == (False, 60)
    assert await pending(queue, namespace="shop", task="billing") == (False, None)
    await queue.push("orders", "ann", 1)
    assert await pending(queue, namespace="shop") == (True, 0)
    assert await pending(queue, namespace="bank") == (False, None)


async def test_a_group_that_is_still_walking_has_something_pending(queue):
    for number in range(3):
        await queue.push("orders", f"p{number}", number)
    await queue.call("subscribe", "g", "orders", None, None, None, "all", None, queue.clock.now)
    group = await queue.connection.fetchval("select id from queen.queue_groups")
    await queue.call("extend_group", group, 2, p_now=queue.clock.now)
    for _ in range(2):
        [delivery] = await queue.pop("g", "orders", partition=f"p{_}")
        await queue.ack(delivery)
    assert await pending(queue, "orders") == (True, 0)


async def test_one_request_is_answered_with_true_or_false(queue):
    await queue.push("orders", "ann", 1)
    ask = "select queen.has_pending_messages($1, $2, $3, $4)"
    for partition, expected in ((None, True), ("*", True), ("ann", True), ("bob", False)):
        assert await queue.connection.fetchval(ask, "orders", partition, "g", queue.clock.now) is expected
    [delivery] = await queue.pop("g", "orders")
    await queue.ack(delivery)
    assert await queue.connection.fetchval(ask, "orders", None, "g", queue.clock.now) is False
    assert await queue.connection.fetchval(ask, "nowhere", None, "g", queue.clock.now) is False


async def test_sql_pop_takes_from_any_queue_of_a_namespace_and_task(queue):
    await queue.configure("orders", "shop", "mail")
    await queue.configure("letters", "shop", "print")
    await queue.push("orders", "ann", 1)
    await queue.push("letters", "bob", 2)
    [row] = await queue.call("pop", p_group="g", p_namespace="shop", p_task="print", p_now=queue.clock.now)
    assert (row["queue"], row["payload"]) == ("letters", "2")
    [row] = await queue.call("pop", p_group="g", p_namespace="shop", p_now=queue.clock.now)
    assert (row["queue"], row["payload"]) == ("orders", "1")


async def test_many_requests_are_answered_in_one_call(queue):
    await queue.push("orders", "ann", 1)
    rows = await queue.call(
        "has_pending_messages",
        ["orders", "nowhere", "orders"], [None, None, "bob"], [None] * 3, [None] * 3, ["g"] * 3,
        p_now=queue.clock.now,
    )  # fmt: skip
    assert [(row["item"], row["pending"]) for row in rows] == [(1, True), (2, False), (3, False)]
