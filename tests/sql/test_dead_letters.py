"""What a group gave up on can be looked at, delivered again and purged."""

import asyncio
import json
import uuid

import pytest

from queenmq.errors import InvalidArgument, QueueNotFound

pytestmark = pytest.mark.every_postgres


async def one(queue, function, *arguments, **named):
    [row] = await queue.call(function, *arguments, **named)
    return row[0]


async def redrive(queue, **named):
    return await one(queue, "redrive_dead_letters", **named, p_now=queue.clock.now)


async def values(queue, group="g", name="orders", **named):
    return [value for delivery in await queue.pop(group, name, **named) for value in delivery.values]


@pytest.fixture
async def five(queue):
    """Five messages; group g has done all and given up 1 and 3, other has done all."""
    await queue.configure("orders", retry_limit=0)
    await queue.push("orders", "ann", *range(5), ids=["a", "b", "c", "d", "e"])
    [delivery] = await queue.pop("g", "orders")
    await queue.fail(delivery, [1, 3], "boom")
    await queue.ack(delivery, [0, 2, 4])
    [delivery] = await queue.pop("other", "orders")
    await queue.ack(delivery)


async def test_a_dead_letter_keeps_everything(queue, five):
    newest, oldest = await queue.dead_letters("orders")
    assert newest["id"] > oldest["id"]
    assert (oldest["queue"], oldest["partition"], oldest["group_name"]) == ("orders", "ann", "g")
    assert (oldest["offset"], oldest["transaction_id"], oldest["error"]) == (1, "b", "boom")
    assert (oldest["failed_at"], oldest["retry_count"]) == (queue.clock.now, 0)
    assert json.loads(oldest["payload"]) == 1
    [message] = await queue.call("get_message", oldest["message_id"], "g")
    assert message["status"] == "dead_letter"


async def test_dead_letters_are_filtered_and_paged(queue, five):
    queue.clock.advance(60)
    await queue.push("orders", "bob", "x")
    [delivery] = await queue.pop("other", "orders")
    await queue.fail(delivery)

    async def offsets(**named):
        return [(row["group_name"], row["offset"]) for row in await queue.call("list_dead_letters", **named)]

    assert await offsets() == [("other", 0), ("g", 3), ("g", 1)]
    assert await offsets(p_group="g") == [("g", 3), ("g", 1)]
    assert await offsets(p_partition="bob") == [("other", 0)]
    assert await offsets(p_from=queue.clock.now) == [("other", 0)]
    assert await offsets(p_to=queue.clock.now) == [("g", 3), ("g", 1)]
    [first] = await queue.call("list_dead_letters", p_limit=1)
    assert await offsets(p_before_id=first["id"]) == [("g", 3), ("g", 1)]
    with pytest.raises(QueueNotFound):
        await offsets(p_queue="nowhere")
    with pytest.raises(InvalidArgument):
        await offsets(p_limit=0)


async def test_a_redriven_message_comes_back_in_its_place_for_its_group_alone(queue, five):
    await queue.push("orders", "ann", 5)
    assert await redrive(queue, p_queue="orders") == 2
    assert await queue.dead_letters("orders") == []
    [delivery] = await queue.pop("g", "orders")
    assert delivery.messages == {1: 1, 3: 3, 5: 5}
    assert delivery.retries == {}
    await queue.ack(delivery)
    assert await values(queue, "other") == [5]
    row = await queue.connection.fetchrow("select * from queen.ledger where group_name = 'g'")
    assert (row["completed"], row["dead_lettered"], row["pending"], row["balanced"]) == (6, 0, 0, True)


async def test_only_the_named_ones_are_redriven(queue, five):
    [newest, oldest] = await queue.dead_letters("orders")
    assert await redrive(queue, p_ids=[oldest["id"], 999]) == 1
    assert await values(queue) == [1]
    assert [row["id"] for row in await queue.dead_letters("orders")] == [newest["id"]]
    assert await redrive(queue, p_group="other") == 0
    with pytest.raises(QueueNotFound):
        await redrive(queue, p_queue="nowhere")


async def test_a_redriven_message_may_fail_again(queue, five):
    await redrive(queue)
    [delivery] = await queue.pop("g", "orders", batch=1)
    await queue.fail(delivery, error="again")
    assert sorted((row["offset"], row["error"]) for row in await queue.dead_letters("orders")) == [(1, "again")]
    assert await values(queue) == [3]


async def test_a_redrive_under_a_lease_waits_for_its_end(queue, five):
    await queue.push("orders", "ann", 5, 6)
    [delivery] = await queue.pop("g", "orders", batch=1)
    assert delivery.values == [5]
    await redrive(queue)
    assert await queue.pop("g", "orders") == []
    assert (await queue.ack(delivery)).released
    assert await values(queue) == [1, 3, 6]


async def test_a_redrive_under_a_lease_that_expires_comes_first(queue, five):
    await queue.configure("orders", retry_limit=3)
    await queue.push("orders", "ann", 5, 6)
    await queue.pop("g", "orders", batch=1)
    await redrive(queue)
    queue.clock.advance(300)
    [delivery] = await queue.pop("g", "orders")
    assert delivery.values == [1, 3, 5, 6]
    await queue.ack(delivery)


async def test_a_poisonous_message_is_given_up_even_when_a_redriven_one_lies_before_it(queue, five):
    await queue.push("orders", "ann", "poison", "good")
    [delivery] = await queue.pop("g", "orders", batch=1)
    assert delivery.values == ["poison"]
    await redrive(queue)
    queue.clock.advance(300)
    [delivery] = await queue.pop("g", "orders")
    assert "poison" not in delivery.values
    await queue.ack(delivery)
    [letter] = await queue.dead_letters("orders")
    assert json.loads(letter["payload"]) == "poison"


async def test_age_is_not_held_against_a_redriven_message(queue):
    await queue.configure("orders", max_wait_seconds=60)
    await queue.push("orders", "ann", 1, 2)
    queue.clock.advance(61)
    assert await queue.pop("g", "orders") == []
    assert await redrive(queue) == 2
    [delivery] = await queue.pop("g", "orders")
    assert delivery.values == [1, 2]
    await queue.ack(delivery, [0])
    await queue.ack(delivery, [1], "retry")
    [delivery] = await queue.pop("g", "orders")
    assert (delivery.values, delivery.retry_counts) == ([2], [0])


async def test_what_has_left_the_log_is_pushed_again_for_everyone(queue, five):
    trace = uuid.uuid4()
    await queue.call("push", "orders", '"traced"', "ann", "t", trace, p_now=queue.clock.now)
    await queue.sequence()
    [delivery] = await queue.pop("g", "orders")
    await queue.fail(delivery)
    await queue.call("clear_queue", "orders", queue.clock.now)
    assert await redrive(queue) == 3
    assert await values(queue, "other") == [1, 3, "traced"]
    [delivery] = await queue.pop("g", "orders")
    assert delivery.messages == {6: 1, 7: 3, 8: "traced"}
    assert [row["offset"] for row in await queue.call("trace", trace)] == [8]
    rows = await queue.call("read_messages", "orders", "ann")
    assert all(row["transaction_id"] == str(row["message_id"]) for row in rows)


async def test_a_group_that_is_gone_leaves_its_dead_letters_to_everyone(queue, five):
    await queue.call("delete_group", "g")
    assert await redrive(queue) == 2
    assert await values(queue, "other") == [1, 3]


async def test_after_a_seek_a_dead_letter_is_open_again_or_redriven_once(queue, five):
    await queue.seek("g", "orders", offset=2)
    [delivery] = await queue.pop("g", "orders")
    assert delivery.values == [2, 3, 4]
    await queue.ack(delivery, [2, 3])
    assert await redrive(queue) == 2  # 1 lies before the new beginning and is pushed, 3 is done again
    assert (await queue.ack(delivery, [4])).released
    assert await values(queue) == [3, 1]
    assert await values(queue, "other") == [1]


async def test_an_open_message_is_not_opened_twice(queue, five):
    await queue.seek("g", "orders", to="beginning")
    assert await redrive(queue) == 2
    assert await values(queue) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("other", ["redrive", "purge"])
async def test_a_dead_letter_that_someone_else_takes_at_the_same_time_is_not_redriven(
    queue, another, until_blocked, five, other
):
    alice, bob = await another(), await another()
    first = alice.connection.transaction()
    await first.start()
    if other == "redrive":
        assert await redrive(alice) == 2
    else:
        await alice.call("purge_dead_letters", p_queue="orders")
    second = asyncio.create_task(redrive(bob))
    await until_blocked(bob)
    await first.commit()
    assert await second == 0
    assert await values(queue) == ([1, 3] if other == "redrive" else [])


async def test_redriving_keeps_an_encrypted_message_encrypted(queue):
    await queue.configure("orders", retry_limit=0, encryption_enabled=True)
    ann = await queue.partition_id("orders", "ann")
    await queue.call("push_segments", [ann], [1], [b'["cipher"]'], p_encrypted=[True], p_now=queue.clock.now)
    [delivery] = await queue.pop("g", "orders")
    await queue.fail(delivery)
    await queue.call("clear_queue", "orders", queue.clock.now)
    await redrive(queue)
    [row] = await queue.call("read_messages", "orders", "ann")
    assert (row["encrypted"], json.loads(row["payload"])) == (True, "cipher")


async def test_a_message_from_before_encryption_can_still_be_redriven(queue, five):
    await queue.configure("orders", encryption_enabled=True)
    await queue.call("clear_queue", "orders", queue.clock.now)
    await redrive(queue)
    rows = await queue.call("read_messages", "orders", "ann")
    assert [row["encrypted"] for row in rows] == [False, False]


async def test_dead_letters_are_purged_by_any_filter_but_never_by_none(queue, five):
    async def purge(**named):
        return await one(queue, "purge_dead_letters", **named)

    with pytest.raises(InvalidArgument):
        await purge()
    assert await purge(p_group="other") == 0
    assert await purge(p_older_than=queue.clock.now) == 0
    newest, _ = await queue.dead_letters("orders")
    assert await purge(p_ids=[newest["id"]]) == 1
    queue.clock.advance(1)
    assert await purge(p_queue="orders", p_older_than=queue.clock.now) == 1
    with pytest.raises(QueueNotFound):
        await purge(p_queue="nowhere")
    assert await redrive(queue) == 0
