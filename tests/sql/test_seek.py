"""A group can be moved to an offset, a moment, the beginning or the end."""

import asyncio

import pytest

from queenmq.errors import (
    GroupNotFound,
    InvalidArgument,
    LeaseGone,
    PartitionNotFound,
    QueueFull,
    QueueNotFound,
)

pytestmark = pytest.mark.every_postgres


async def read_all(queue, group="g", name="orders"):
    values = {}
    while deliveries := await queue.pop(group, name, partitions=10):
        for delivery in deliveries:
            values.setdefault(delivery.partition, []).extend(delivery.values)
            await queue.ack(delivery)
    return values


@pytest.fixture
async def moments(queue):
    """Three pushes a minute apart to two partitions, all read."""
    times = []
    for number in range(3):
        times.append(queue.clock.now)
        await queue.push_many(("orders", "ann", [f"a{number}"]), ("orders", "bob", [f"b{number}"]))
        queue.clock.advance(60)
    await read_all(queue)
    return times


async def test_to_the_beginning(queue, moments):
    await queue.seek("g", "orders", to="beginning")
    assert await read_all(queue) == {"ann": ["a0", "a1", "a2"], "bob": ["b0", "b1", "b2"]}


async def test_to_the_end(queue, moments):
    await queue.push("orders", "ann", "skipped")
    await queue.seek("g", "orders", to="end")
    await queue.push("orders", "ann", "seen")
    assert await read_all(queue) == {"ann": ["seen"]}


async def test_to_a_moment(queue, moments):
    await queue.seek("g", "orders", at=moments[1])
    assert await read_all(queue) == {"ann": ["a1", "a2"], "bob": ["b1", "b2"]}


async def test_one_partition_to_an_offset(queue, moments):
    [row] = await queue.call("seek_group", "g", "orders", "ann", 2, p_now=queue.clock.now)
    assert row[0] == 1
    assert await read_all(queue) == {"ann": ["a2"]}


async def test_an_offset_is_cut_to_what_is_stored(queue, moments):
    await queue.seek("g", "orders", offset=999)
    assert await read_all(queue) == {}
    await queue.push("orders", "ann", "next")
    assert await read_all(queue) == {"ann": ["next"]}


async def test_other_groups_stay_where_they_are(queue, moments):
    await read_all(queue, "other")
    await queue.seek("g", "orders", to="beginning")
    assert await read_all(queue, "other") == {}


async def test_a_lease_ends_and_its_holder_is_told(queue, moments):
    await queue.push("orders", "ann", "a3")
    [delivery] = await queue.pop("g", "orders")
    await queue.seek("g", "orders", "bob", to="beginning")
    await queue.renew(delivery)
    await queue.seek("g", "orders", "ann", offset=3)
    with pytest.raises(LeaseGone):
        await queue.ack(delivery)
    [again] = await queue.pop("g", "orders", "ann")
    assert (again.values, again.retry_counts) == (["a3"], [0])


async def test_the_book_begins_anew(queue, moments):
    await queue.seek("g", "orders", "ann", offset=1)
    row = await queue.connection.fetchrow("select * from queen.ledger where partition = 'ann'")
    assert (row["skipped"], row["completed"], row["pending"], row["balanced"]) == (1, 0, 2, True)


async def test_a_group_that_has_not_reached_every_partition_is_moved_in_all(queue):
    for number in range(5):
        await queue.push("orders", f"p{number}", number)
    await queue.call("subscribe", "g", "orders", None, None, None, "all", None, queue.clock.now)
    [row] = await queue.call("seek_group", "g", "orders", p_to="end", p_now=queue.clock.now)
    assert row[0] == 5
    assert await read_all(queue) == {}


async def test_going_back_fills_a_limited_queue(queue, moments):
    await queue.configure("orders", max_queue_size=6)
    await queue.push("orders", "ann", 1)
    await read_all(queue)
    await queue.seek("g", "orders", to="beginning")
    with pytest.raises(QueueFull):
        await queue.push("orders", "ann", 2)


async def test_a_group_that_subscribes_fills_a_limited_queue(queue):
    await queue.configure("orders", max_queue_size=3)
    for value in range(5):  # the last one has the depth counted: there is room for two more
        await queue.push("orders", "ann", value)
        await read_all(queue)
    await queue.call("subscribe", "late", "orders", None, None, None, "all", None, queue.clock.now)
    with pytest.raises(QueueFull):
        await queue.push("orders", "ann", 5)


async def test_a_seek_of_a_group_on_its_way_does_not_meet_a_push_head_on(queue, another, until_blocked):
    await queue.configure("orders", max_queue_size=100)
    names = [f"p{number:04}" for number in range(1200)]
    await queue.call("ensure_partitions", ["orders"] * 1200, names)
    await queue.push("orders", names[0], 1)
    await queue.call("subscribe", "g", "orders", None, None, None, "all", None, queue.clock.now)
    carl, bob, alice = await another(), await another(), await another()
    counting = carl.connection.transaction()
    await counting.start()
    await carl.connection.execute("select from queen.depth_bounds for update")
    seeking = asyncio.create_task(bob.seek("g", "orders", to="end"))
    await until_blocked(bob)
    pushing = asyncio.create_task(alice.push("orders", names[-1], 2))
    await until_blocked(alice)
    await counting.commit()
    await seeking
    await pushing
    assert await read_all(queue) == {names[-1]: [2]}


@pytest.mark.parametrize(
    "target",
    [
        {},
        {"offset": 1, "to": "end"},
        {"to": "middle"},
        {"offset": -1},
    ],
)
async def test_a_seek_has_one_target(queue, moments, target):
    with pytest.raises(InvalidArgument):
        await queue.seek("g", "orders", **target)
    assert await read_all(queue) == {}


async def test_a_seek_needs_queue_group_and_partition(queue, moments):
    with pytest.raises(QueueNotFound):
        await queue.seek("g", "nowhere", to="end")
    with pytest.raises(GroupNotFound):
        await queue.seek("stranger", "orders", to="end")
    with pytest.raises(PartitionNotFound):
        await queue.seek("g", "orders", "carl", to="end")


@pytest.mark.parametrize("first", ["push", "seek"])
async def test_a_push_and_a_seek_to_the_end_at_once_lose_nothing(queue, another, until_blocked, moments, first):
    alice, bob = await another(), await another()

    async def push(client):
        await client.push("orders", "ann", "raced")

    async def seek(client):
        await client.seek("g", "orders", to="end")

    steps = [push, seek] if first == "push" else [seek, push]
    transaction = alice.connection.transaction()
    await transaction.start()
    await steps[0](alice)
    second = asyncio.create_task(steps[1](bob))
    await until_blocked(bob)
    await transaction.commit()
    await second
    assert await read_all(queue) == ({} if first == "push" else {"ann": ["raced"]})
