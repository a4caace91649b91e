"""Events about messages: noted, found by message and by name, and gone when the message is gone."""

import asyncio
import json

import pytest

from queenmq.errors import InvalidArgument, InvalidName, MessageNotFound, PartitionNotFound

pytestmark = pytest.mark.every_postgres


async def note(queue, transaction_id, event_type="info", data=None, names=(), group="g", partition="ann"):
    partition_id = await queue.partition_id("orders", partition)
    [row] = await queue.call(
        "record_event", partition_id, transaction_id, event_type, json.dumps(data), group, list(names), queue.clock.now
    )
    return row[0]


async def of_message(queue, transaction_id, partition="ann"):
    return await queue.call("list_message_events", await queue.partition_id("orders", partition), transaction_id)


async def count(queue):
    events = await queue.connection.fetchval("select count(*) from queen.trace_events")
    return events, await queue.connection.fetchval("select count(*) from queen.trace_event_names")


async def test_what_is_noted_about_a_message_is_read_in_order(queue):
    await queue.push("orders", "ann", "a", "b", ids=["x", "y"])
    first = await note(queue, "x", "started", {"by": "worker 7"}, ["checkout", "audit"])
    queue.clock.advance(3)
    await note(queue, "y", "other")
    await note(queue, "x", "finished")
    rows = await of_message(queue, "x")
    assert [row["event_type"] for row in rows] == ["started", "finished"]
    [started, finished] = rows
    assert (started["id"], started["queue"], started["partition"]) == (first, "orders", "ann")
    assert (json.loads(started["data"]), started["names"], started["group_name"]) == (
        {"by": "worker 7"},
        ["audit", "checkout"],
        "g",
    )
    assert (finished["names"], (finished["created_at"] - started["created_at"]).total_seconds()) == ([], 3)


async def test_a_message_is_called_by_either_of_its_ids(queue):
    await queue.push("orders", "ann", "a", "b", ids=["x", None])
    [one, two] = await queue.call("read_messages", "orders", "ann")
    await note(queue, str(one["message_id"]), "by id")
    await note(queue, "x", "by name")
    await note(queue, str(two["message_id"]), "nameless")
    assert [row["event_type"] for row in await of_message(queue, "x")] == ["by id", "by name"]
    assert [row["event_type"] for row in await of_message(queue, str(two["message_id"]))] == ["nameless"]


async def test_events_are_found_long_after_the_message(queue):
    await queue.push("orders", "ann", "a", ids=["x"])
    await note(queue, "x", "early")
    partition_id = await queue.partition_id("orders", "ann")
    segments = [partition_id] * 1001, [1] * 1001, [b"[1]"] * 1001
    await queue.call("push_segments", *segments, p_now=queue.clock.now)
    assert [row["event_type"] for row in await of_message(queue, "x")] == ["early"]


async def test_a_message_without_events_has_none(queue):
    await queue.push("orders", "ann", "a", ids=["x"])
    assert await of_message(queue, "x") == []
    with pytest.raises(MessageNotFound):
        await of_message(queue, "nothing")


async def test_names_lead_across_partitions_newest_first(queue):
    for partition in ("ann", "bob"):
        await queue.push("orders", partition, 1, ids=["x"])
        await note(queue, "x", partition, names=["checkout"], partition=partition)
    await note(queue, "x", "again", names=["checkout", "checkout"])
    await note(queue, "x", "elsewhere", names=["audit"])
    rows = await queue.call("list_named_events", "checkout")
    assert [(row["event_type"], row["partition"]) for row in rows] == [("again", "ann"), ("bob", "bob"), ("ann", "ann")]
    assert [row["event_type"] for row in await queue.call("list_named_events", "checkout", 1, 1)] == ["bob"]
    assert await queue.call("list_named_events", "nothing") == []
    names = await queue.call("list_event_names")
    assert [(row["name"], row["events"], row["messages"]) for row in names] == [("audit", 1, 1), ("checkout", 3, 2)]
    assert [row["name"] for row in await queue.call("list_event_names", 1, 1)] == ["checkout"]


@pytest.mark.parametrize("function", ["list_named_events", "list_event_names"])
@pytest.mark.parametrize(("limit", "offset"), [(0, 0), (10_001, 0), (None, 0), (1, -1), (1, 2_000_000)])
async def test_bad_pages_are_refused(queue, function, limit, offset):
    with pytest.raises(InvalidArgument):
        await queue.call(function, *(["x"] if function == "list_named_events" else []), limit, offset)


async def test_what_cannot_be_noted_is_refused(queue):
    await queue.push("orders", "ann", 1, ids=["x"])
    with pytest.raises(MessageNotFound):
        await note(queue, "nothing")
    with pytest.raises(PartitionNotFound):
        await queue.call("record_event", 99_999, "x", "info", "1")
    for bad in ({"event_type": ""}, {"names": [""]}, {"names": ["x" * 256]}, {"group": "\t"}):
        with pytest.raises(InvalidName):
            await note(queue, "x", **bad)
    with pytest.raises(InvalidArgument):
        await note(queue, "x", names=[str(n) for n in range(101)])
    assert await count(queue) == (0, 0)


async def test_retention_takes_events_with_their_messages(queue):
    await queue.configure("orders", retention_seconds=60)
    await queue.push("orders", "ann", 1, ids=["old"])
    await note(queue, "old", names=["n"])
    queue.clock.advance(61)
    await queue.push("orders", "ann", 2, ids=["new"])
    await note(queue, "new", names=["n"])
    queue_id = await queue.connection.fetchval("select id from queen.queues")
    await queue.call("retain", queue_id, p_now=queue.clock.now)
    assert [row["transaction_id"] for row in await queue.call("list_named_events", "n")] == ["new"]
    assert await count(queue) == (1, 1)
    with pytest.raises(MessageNotFound):
        await note(queue, "old")


@pytest.mark.parametrize(
    ("function", "arguments"),
    [("clear_queue", ["orders"]), ("delete_partition", ["orders", "ann"]), ("delete_queue", ["orders"])],
)
async def test_events_go_with_what_is_deleted(queue, function, arguments):
    await queue.push("orders", "ann", 1, ids=["x"])
    await note(queue, "x", names=["n"])
    await queue.call(function, *arguments)
    assert await count(queue) == (0, 0)


async def test_no_event_outlives_a_message_that_goes_meanwhile(queue, another, until_blocked):
    await queue.push("orders", "ann", 1, ids=["x"])
    alice, bob = await another(), await another()
    await alice.connection.execute("begin")
    await alice.call("clear_queue", "orders", queue.clock.now)
    noting = asyncio.create_task(note(bob, "x"))
    await until_blocked(bob)
    await alice.connection.execute("commit")
    with pytest.raises(MessageNotFound):
        await noting
    assert await count(queue) == (0, 0)
