"""One message, called by its name: found, given up, kept from everybody, delivered again."""

import json

import pytest

from queenmq.errors import GroupNotFound, MessageNotFound, NotPending

pytestmark = pytest.mark.every_postgres


@pytest.fixture
async def partition(queue):
    """Five messages a .. e in one partition."""
    await queue.push("orders", "ann", *range(5), ids=["a", "b", "c", "d", "e"])
    return await queue.partition_id("orders", "ann")


async def find(queue, partition, name, group="g"):
    return await queue.call("find_message", partition, name, group, queue.clock.now)


async def give_up(queue, partition, name, group="g", error=None):
    await queue.call("dead_letter_message", partition, name, group, error, queue.clock.now)


async def delete(queue, partition, name):
    [row] = await queue.call("delete_message", partition, name, queue.clock.now)
    return row["groups"], row["dead_letters"]


async def retry(queue, partition, name, group=None):
    [row] = await queue.call("retry_message", partition, name, group, queue.clock.now)
    return row[0]


async def values(queue, group="g", **named):
    return [value for delivery in await queue.pop(group, "orders", **named) for value in delivery.values]


async def ledger(queue, group="g"):
    row = await queue.connection.fetchrow("select * from queen.ledger where group_name = $1", group)
    return row["completed"], row["dead_lettered"], row["expired"], row["pending"] + row["leased"]


async def test_a_message_is_found_by_both_its_names(queue, partition):
    [by_name] = await find(queue, partition, "c")
    assert (by_name["queue"], by_name["partition"], by_name["offset"], by_name["status"]) == (
        "orders",
        "ann",
        2,
        "pending",
    )
    assert json.loads(by_name["payload"]) == 2
    assert await find(queue, partition, str(by_name["message_id"])) == [by_name]
    assert await find(queue, partition, "z") == []
    assert await find(queue, partition + 1, "c") == []


async def test_a_message_is_given_up_before_anybody_took_it(queue, partition):
    assert await values(queue, "g", batch=1) == [0]
    queue.clock.advance(300)
    await give_up(queue, partition, "a", error="will never work")
    await give_up(queue, partition, "c")
    assert await values(queue) == [1, 3, 4]
    letters = await queue.dead_letters("orders")
    assert [(row["transaction_id"], row["error"]) for row in letters] == [("c", None), ("a", "will never work")]
    assert await ledger(queue) == (0, 2, 0, 3)


async def test_a_group_that_has_not_reached_the_partition_gives_up_there_too(queue, partition):
    await queue.call("subscribe", "g", "orders", None, None, None, "all", None, queue.clock.now)
    await give_up(queue, partition, "a")
    assert await values(queue) == [1, 2, 3, 4]


async def test_a_message_is_given_up_under_the_hands_of_its_consumer(queue, partition):
    [delivery] = await queue.pop("g", "orders", batch=3)
    await give_up(queue, partition, "b")
    answer = await queue.ack(delivery, [0, 1])
    assert (answer.accepted, answer.released) == ([0, 1], False)
    assert (await queue.ack(delivery, [2])).released
    assert await ledger(queue) == (2, 1, 0, 2)
    assert await values(queue) == [3, 4]


async def test_a_lease_of_which_nothing_is_left_ends(queue, partition):
    [delivery] = await queue.pop("g", "orders", batch=2)
    await queue.ack(delivery, [0])
    await give_up(queue, partition, "b")
    assert await values(queue) == [2, 3, 4]
    for name in "cde":
        await give_up(queue, partition, name)
    assert await values(queue) == []
    assert await queue.connection.fetchval("select ready_at is null from queen.partition_consumers")
    await queue.push("orders", "ann", 5)
    assert await values(queue) == [5]


async def test_what_comes_back_after_a_pause_still_does(queue, partition):
    [delivery] = await queue.pop("g", "orders", batch=2)
    await queue.fail(delivery, [0])
    await queue.ack(delivery, [1])
    await give_up(queue, partition, "d")
    assert await values(queue) == []
    queue.clock.advance(1)
    assert await values(queue) == [0, 2, 4]


async def test_a_group_gives_up_only_what_it_has_to_do(queue, partition):
    [delivery] = await queue.pop("g", "orders", batch=2)
    await queue.ack(delivery)
    with pytest.raises(NotPending, match="is done with"):
        await give_up(queue, partition, "a")
    with pytest.raises(MessageNotFound):
        await give_up(queue, partition, "z")
    with pytest.raises(GroupNotFound):
        await give_up(queue, partition, "c", "nobody")
    await queue.push("orders", "bob", "x")
    await queue.pop("one", "orders", "bob")
    with pytest.raises(NotPending, match="does not read"):
        await give_up(queue, partition, "c", "one")
    assert await queue.dead_letters("orders") == []


async def test_a_deleted_message_is_for_nobody_any_more(queue, partition):
    [delivery] = await queue.pop("g", "orders", batch=2)
    await queue.pop("other", "orders", batch=1)
    await queue.ack(delivery, [0])
    assert await delete(queue, partition, "a") == (1, 0)
    assert await delete(queue, partition, "d") == (2, 0)
    assert await delete(queue, partition, "d") == (0, 0)
    assert await values(queue, "other") == [1, 2, 4]
    assert (await queue.ack(delivery, [1])).released
    assert await values(queue) == [2, 4]
    assert await ledger(queue) == (2, 0, 1, 2)
    assert await ledger(queue, "other") == (0, 0, 2, 3)
    [row] = await find(queue, partition, "d")
    assert row["status"] == "completed"


async def test_a_deleted_message_is_no_dead_letter_any_more(queue, partition):
    await queue.call("subscribe", "g", "orders", None, None, None, "all", None, queue.clock.now)
    await give_up(queue, partition, "b")
    assert await delete(queue, partition, "b") == (0, 1)
    with pytest.raises(NotPending):
        await retry(queue, partition, "b")


async def test_a_message_that_nobody_reads_cannot_be_kept_from_anybody(queue, partition):
    with pytest.raises(NotPending, match="no group reads"):
        await delete(queue, partition, "a")
    with pytest.raises(MessageNotFound):
        await delete(queue, partition, "z")


async def test_a_dead_message_is_retried_by_those_who_gave_it_up(queue, partition):
    for group in ("g", "other", "third"):
        await queue.pop(group, "orders", auto_ack=group == "third")
        if group != "third":
            await give_up(queue, partition, "b", group)
    queue.clock.advance(300)
    assert await retry(queue, partition, "b", "other") == 1
    assert await values(queue) == [0, 2, 3, 4]
    assert await values(queue, "other") == [0, 1, 2, 3, 4]
    [row] = await find(queue, partition, "b")
    assert await retry(queue, partition, str(row["message_id"])) == 1
    assert await values(queue, "third") == []
    with pytest.raises(NotPending, match="no dead letter"):
        await retry(queue, partition, "b")
    with pytest.raises(MessageNotFound):
        await retry(queue, partition, "z")


async def test_a_message_that_has_left_the_log_is_retried_as_a_new_one(queue, partition):
    await queue.pop("g", "orders")
    await give_up(queue, partition, "b")
    await queue.call("clear_queue", "orders", queue.clock.now)
    assert await retry(queue, partition, "b", "g") == 1
    assert await values(queue) == [1]


async def test_dead_letters_are_counted_skipped_and_redriven_in_portions(queue, partition):
    await queue.pop("g", "orders")
    for name in "abc":
        await give_up(queue, partition, name)

    async def count(**named):
        [row] = await queue.call("count_dead_letters", **named)
        return row[0]

    assert await count() == await count(p_queue="orders", p_group="g", p_partition="ann") == 3
    assert await count(p_group="other") == await count(p_partition="bob") == await count(p_to=queue.clock.now) == 0
    assert await count(p_from=queue.clock.now) == 3
    rows = await queue.call("list_dead_letters", p_skip=1, p_limit=1)
    assert [row["transaction_id"] for row in rows] == ["b"]
    [row] = await queue.call("redrive_dead_letters", p_limit=2, p_now=queue.clock.now)
    assert row[0] == 2
    assert [row["transaction_id"] for row in await queue.dead_letters("orders")] == ["c"]


async def test_messages_of_several_queues_are_listed_together(queue, partition):
    await queue.configure("orders", "shop", "sell")
    await queue.configure("bills", "shop", "bill")
    await queue.push("bills", "x", "y", "z")
    await queue.push("mail", "x", "m")

    async def listed(**named):
        rows = await queue.call("list_messages", **named, p_now=queue.clock.now)
        return [json.loads(row["payload"]) for row in rows], rows[-1]["cursor"] if rows else None

    page, cursor = await listed(p_limit=4)
    assert page == ["m", "z", "y", 4]
    assert (await listed(p_cursor=cursor))[0] == [3, 2, 1, 0]
    assert (await listed(p_namespace="shop", p_limit=3))[0] == ["z", "y", 4]
    assert (await listed(p_namespace="shop", p_task="bill"))[0] == ["z", "y"]
    assert (await listed(p_queue="orders", p_namespace="nowhere"))[0] == []
