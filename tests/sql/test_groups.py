"""Groups to look at: how far behind, who is at work, what they subscribed to."""

import pytest

from queenmq.errors import GroupNotFound, InvalidArgument

pytestmark = pytest.mark.every_postgres


async def groups(queue, seconds_min=0.0):
    return await queue.call("list_groups", seconds_min, queue.clock.now)


async def places(queue, group="g", limit=1000):
    rows = await queue.call("describe_group", group, limit, queue.clock.now)
    return [(row["queue"], row["partition"], row["messages"], row["seconds"], row["completed"]) for row in rows]


async def test_a_group_is_listed_on_every_queue_with_its_lag(queue):
    await queue.push("orders", "ann", 1, 2, 3)
    await queue.push("orders", "bob", 4)
    await queue.push("letters", "ann", 5)
    [delivery] = await queue.pop("g", "orders", "ann")
    await queue.pop("g", "orders", auto_ack=True)
    await queue.pop("g", "letters", auto_ack=True)
    await queue.ack(delivery, [0, 2])
    queue.clock.advance(7)
    letters, orders = await groups(queue)
    assert (letters["group_name"], letters["queue"], letters["messages"], letters["seconds"]) == ("g", "letters", 0, 0)
    assert (orders["queue"], orders["messages"], orders["seconds"], orders["partitions_with_lag"]) == (
        "orders",
        1,
        7,
        1,
    )
    assert (orders["members"], orders["state"], letters["members"], letters["state"]) == (1, "Stable", 0, "Stable")


async def test_members_are_live_leases(queue):
    for name in ("ann", "bob", "carl"):
        await queue.push("orders", name, 1)
    await queue.pop("g", "orders")
    await queue.pop("g", "orders", partitions=2)
    assert [row["members"] for row in await groups(queue)] == [2]
    queue.clock.advance(301)
    assert [(row["members"], row["state"]) for row in await groups(queue)] == [(0, "Lagging")]


async def test_a_group_that_nobody_serves_is_dead_then_lagging(queue):
    await queue.configure("orders")
    await queue.pop("g", "orders")
    await queue.push("orders", "ann", 1)
    assert [row["state"] for row in await groups(queue)] == ["Dead"]
    queue.clock.advance(301)
    assert [row["state"] for row in await groups(queue)] == ["Lagging"]


async def test_only_groups_that_are_far_behind(queue):
    await queue.push("orders", "ann", 1)
    await queue.pop("slow", "orders")
    await queue.pop("quick", "orders", auto_ack=True)
    queue.clock.advance(30)
    assert [row["group_name"] for row in await groups(queue, 30)] == ["slow"]
    assert await groups(queue, 31) == []


async def test_the_subscription_of_a_group_is_shown(queue):
    start = queue.clock.now
    await queue.configure("orders", "shop")
    await queue.pop("all", "orders")
    await queue.pop("since", "orders", mode="timestamp", since=start)
    await queue.pop("space", namespace="shop", mode="new", since=start)
    found = {row["group_name"]: (row["mode"], row["since"]) for row in await groups(queue)}
    assert found == {"all": ("all", None), "since": ("timestamp", start), "space": ("new", start)}


@pytest.mark.parametrize(
    ("name", "mode"),
    [("all", "all"), ("from_beginning", "all"), ("", "all"), ("new", "new"), ("new-only", "new")],
)
async def test_a_mode_is_recorded_under_its_own_name(queue, name, mode):
    await queue.push("orders", "ann", 1)
    queue.clock.advance(1)
    popped = await queue.pop("g", "orders", mode=name)
    assert [delivery.values for delivery in popped] == ([[1]] if mode == "all" else [])
    await queue.call("subscribe", "early", "letters", None, None, None, name, None, p_now=queue.clock.now)
    assert [row["mode"] for row in await groups(queue)] == [mode]
    recorded = await queue.connection.fetch("select group_name, mode from queen.consumer_groups_metadata")
    assert dict(recorded) == {"g": mode, "early": mode}


async def test_an_empty_mode_leaves_the_choice_to_the_default(queue):
    asked = ("g", "orders", None, None, None, "", None)
    await queue.call("record_subscription", *asked, p_default_mode="new", p_now=queue.clock.now)
    assert await queue.connection.fetchval("select mode from queen.consumer_groups_metadata") == "new"


async def test_an_unknown_mode_is_refused_and_named(queue):
    with pytest.raises(InvalidArgument, match='unknown subscription mode "newest"; use all, new or timestamp'):
        await queue.pop("g", "orders", mode="newest")


async def test_the_places_of_a_group_come_furthest_behind_first(queue):
    await queue.push("orders", "ann", 1)
    await queue.push("orders", "bob", 1, 2)
    await queue.push("letters", "carl", 1)
    await queue.pop("g", "orders", "ann", auto_ack=True)
    await queue.pop("g", "orders", "bob", batch=1, auto_ack=True)
    await queue.push("orders", "bob", 3)
    await queue.pop("g", "letters")
    queue.clock.advance(5)
    expected = [("letters", "carl", 1, 5, 0), ("orders", "bob", 2, 5, 1), ("orders", "ann", 0, 0, 1)]
    assert await places(queue) == expected
    assert await places(queue, limit=1) == expected[:2]
    rows = await queue.call("describe_group", "g", p_now=queue.clock.now)
    assert [row["lease_id"] is not None for row in rows] == [True, False, False]
    queue.clock.advance(300)
    rows = await queue.call("describe_group", "g", p_now=queue.clock.now)
    assert [row["lease_id"] for row in rows] == [None] * 3


async def test_a_group_that_does_not_exist_has_no_place(queue):
    await queue.push("orders", "ann", 1)
    with pytest.raises(GroupNotFound):
        await places(queue)
    await queue.pop("g", "orders")
    with pytest.raises(InvalidArgument):
        await places(queue, limit=0)
