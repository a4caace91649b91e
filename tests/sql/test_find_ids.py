"""Whether a message has an id: asked of the log, where it is."""

import pytest

from tests.sql.plans import pages

pytestmark = pytest.mark.every_postgres


async def found(queue, partition, **offsets):
    """Those of the ids that messages at these offsets have."""
    partition_id = await queue.partition_id("orders", partition)
    ids = list(offsets)
    asked = [partition_id] * len(ids), list(offsets.values()), ids
    return {ids[row["item"] - 1]: row["created_at"] for row in await queue.call("find_ids", *asked, queue.clock.now)}


async def test_an_id_is_found_where_it_is_and_nowhere_else(queue):
    await queue.push("orders", "a", 0, 1, 2, ids=["x", None, "y"])
    written = queue.clock.now
    queue.clock.advance(1)
    await queue.push("orders", "a", 3, ids=["z"])
    await queue.push("orders", "b", 0, ids=["z"])
    await queue.push("orders", "b", 1)
    assert await found(queue, "a", x=0, y=2, z=3) == {"x": written, "y": written, "z": queue.clock.now}
    assert await found(queue, "a", x=1, y=0, z=4) == {}
    assert await found(queue, "b", x=0, z=1) == {}
    assert list(await found(queue, "b", z=0)) == ["z"]


async def test_an_id_outside_the_window_is_not_found(queue):
    await queue.configure("orders", dedup_window_seconds=60)
    await queue.push("orders", "a", 0, ids=["x"])
    queue.clock.advance(60)
    await queue.push("orders", "a", 1, ids=["y"])
    assert list(await found(queue, "a", x=0, y=1)) == ["x", "y"]
    queue.clock.advance(1)
    assert list(await found(queue, "a", x=0, y=1)) == ["y"]
    await queue.configure("orders", dedup_window_seconds=0)
    assert await found(queue, "a", x=0, y=1) == {}


async def test_it_costs_the_same_in_a_long_window_as_in_a_short_one(queue):
    async def push(start, end):
        for number in range(start, end):
            await queue.push("orders", "a", *range(10), ids=[f"{number} {n}" for n in range(10)])

    partition_id = await queue.partition_id("orders", "a")
    asked = [partition_id] * 20, list(range(20)), [f"{n // 10} {n % 10}" for n in range(20)]
    await push(0, 20)
    short = await pages(queue, "find_ids", *asked)
    await push(20, 300)
    assert await pages(queue, "find_ids", *asked) < 2 * short
