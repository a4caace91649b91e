"""Deliveries of a queue, or of one group on it, stop while they are paused; nothing else does."""

import json

import pytest

from queenmq.errors import GroupNotFound, InvalidSetting, QueueNotFound

pytestmark = pytest.mark.every_postgres


async def pause(queue, *names):
    [row] = await queue.call("pause", *names)
    return row[0]


async def resume(queue, *names):
    [row] = await queue.call("resume", *names)
    return row[0]


async def values(queue, group, name="orders", **options):
    return [value for delivery in await queue.pop(group, name, **options) for value in delivery.values]


async def pending(queue, group, name="orders"):
    call = "select queen.has_pending_messages($1, '*', $2, $3)"
    return await queue.connection.fetchval(call, name, group, queue.clock.now)


@pytest.fixture
async def orders(queue):
    """A queue that two groups have read to its end, with one message more."""
    await queue.push("orders", "ann", 1)
    for group in ("billing", "audit"):
        assert await values(queue, group, auto_ack=True) == [1]
    await queue.push("orders", "ann", 2)
    return queue


async def test_a_paused_queue_delivers_to_no_group(orders):
    assert await pause(orders, "orders")
    assert await values(orders, "billing") == []
    assert await values(orders, "audit", partition="ann") == []
    assert not await pending(orders, "billing")
    assert await resume(orders, "orders")
    assert await pending(orders, "billing")
    assert await values(orders, "billing") == [2]


async def test_a_paused_group_is_the_only_one_that_gets_nothing(orders):
    assert await pause(orders, "orders", "billing")
    assert await values(orders, "billing") == []
    assert not await pending(orders, "billing")
    assert await values(orders, "audit") == [2]
    assert await resume(orders, "orders", "billing")
    assert await values(orders, "billing") == [2]


async def test_a_group_gets_messages_only_if_neither_it_nor_its_queue_is_paused(orders):
    await pause(orders, "orders")
    await pause(orders, "orders", "billing")
    await resume(orders, "orders")
    assert await values(orders, "billing") == []
    await pause(orders, "orders")
    await resume(orders, "orders", "billing")
    assert await values(orders, "billing") == []


async def test_the_answer_says_whether_anything_changed(orders):
    assert [await pause(orders, "orders"), await pause(orders, "orders")] == [True, False]
    assert [await resume(orders, "orders"), await resume(orders, "orders")] == [True, False]
    assert [await pause(orders, "orders", "audit"), await pause(orders, "orders", "audit")] == [True, False]


async def test_pushes_go_on_while_a_queue_is_paused(orders):
    await pause(orders, "orders")
    await orders.push("orders", "ann", 3)
    await orders.push("orders", "bob", 4)
    await resume(orders, "orders")
    assert sorted(await values(orders, "billing", batch=10, partitions=10)) == [2, 3, 4]


async def test_a_lease_that_was_there_before_the_pause_can_be_acknowledged(orders):
    [delivery] = await orders.pop("billing", "orders")
    await pause(orders, "orders")
    await orders.ack(delivery)
    await resume(orders, "orders")
    assert await values(orders, "billing") == []


async def test_a_lease_that_expires_during_the_pause_is_delivered_again_after_it(orders):
    await orders.pop("billing", "orders", lease_seconds=5)
    await pause(orders, "orders", "billing")
    orders.clock.advance(6)
    assert await values(orders, "billing") == []
    await resume(orders, "orders", "billing")
    assert await values(orders, "billing") == [2]


async def test_a_group_that_comes_during_the_pause_starts_where_its_first_pop_says(orders):
    await pause(orders, "orders")
    orders.clock.advance(1)
    assert await values(orders, "late", mode="new") == []
    orders.clock.advance(1)
    await orders.push("orders", "ann", 3)
    await resume(orders, "orders")
    assert await values(orders, "late", batch=10) == [3]


async def test_a_pop_of_a_namespace_passes_over_the_paused_queue_and_finds_it_later(orders):
    for name in ("orders", "letters"):
        await orders.configure(name, namespace="shop")
    await orders.push("letters", "ann", 5)
    [first] = await orders.pop("billing", None, namespace="shop", auto_ack=True)
    await pause(orders, first.queue)
    [second] = await orders.pop("billing", None, namespace="shop", auto_ack=True)
    assert {first.queue, second.queue} == {"orders", "letters"}
    assert second.ready_since is None
    assert await orders.pop("billing", None, namespace="shop") == []


async def test_a_paused_group_is_listed_as_such(orders):
    await pause(orders, "orders", "billing")
    rows = await orders.call("list_groups", 0.0, orders.clock.now)
    assert {row["group_name"]: row["paused"] for row in rows} == {"audit": False, "billing": True}
    await pause(orders, "orders")
    rows = await orders.call("list_groups", 0.0, orders.clock.now)
    assert {row["paused"] for row in rows} == {True}


async def test_what_does_not_exist_cannot_be_paused(orders):
    for function in (pause, resume):
        with pytest.raises(QueueNotFound, match='there is no queue "nowhere"'):
            await function(orders, "nowhere")
        with pytest.raises(GroupNotFound, match='there is no group "nobody" on queue "orders"'):
            await function(orders, "orders", "nobody")


async def test_a_pause_is_not_a_setting(orders):
    with pytest.raises(InvalidSetting):
        await orders.call("configure_queue", "orders", None, None, json.dumps({"paused": True}))
