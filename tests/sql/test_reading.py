"""Looking at messages without taking them: by offset, by id, page by page, along a trace."""

import json
import uuid

import pytest

from queenmq.errors import InvalidArgument, PartitionNotFound, QueueNotFound

pytestmark = pytest.mark.every_postgres


def values(rows):
    return [json.loads(row["payload"]) for row in rows]


async def listed(queue, *arguments, **named):
    return await queue.call("list_messages", *arguments, **named, p_now=queue.clock.now)


async def segments(queue, *ranges, ahead_bytes=0):
    ids, froms, tos = zip(*ranges, strict=True)
    rows = await queue.call("fetch_segments", list(ids), list(froms), list(tos), ahead_bytes)
    return [(row["partition_id"], row["first_offset"], json.loads(row["payloads"])) for row in rows]


# Segments.


async def test_a_range_is_covered_by_whole_segments(queue):
    for number in range(0, 9, 3):
        await queue.push("orders", "ann", number, number + 1, number + 2)
    ann = await queue.partition_id("orders", "ann")
    assert await segments(queue, (ann, 4, 5)) == [(ann, 3, [3, 4, 5])]
    assert await segments(queue, (ann, 2, 4)) == [(ann, 0, [0, 1, 2]), (ann, 3, [3, 4, 5])]
    assert await segments(queue, (ann, 3, 6)) == [(ann, 3, [3, 4, 5])]
    assert await segments(queue, (ann, 8, 100)) == [(ann, 6, [6, 7, 8])]
    assert await segments(queue, (ann, 9, 100)) == []
    assert await segments(queue, (ann, 4, 4)) == []


async def test_ranges_that_share_a_segment_get_it_once(queue):
    await queue.push("orders", "ann", *range(10))
    await queue.push("orders", "bob", "x")
    ann, bob = [await queue.partition_id("orders", name) for name in ("ann", "bob")]
    found = await segments(queue, (bob, 0, 1), (ann, 0, 3), (ann, 2, 9), (ann, 5, 6), (999, 0, 5))
    assert found == [(ann, 0, list(range(10))), (bob, 0, ["x"])]


async def test_what_follows_a_range_comes_too_as_far_as_it_is_asked_for(queue):
    for number in range(0, 60, 3):
        await queue.push("orders", "ann", number + 10, number + 11, number + 12)  # [10, 11, 12]: twelve bytes
    await queue.push("orders", "bob", "x")
    ann, bob = [await queue.partition_id("orders", name) for name in ("ann", "bob")]
    for asked, expected in ((0, [3]), (23, [3]), (24, [3, 6]), (47, [3, 6, 9]), (10**6, range(3, 54, 3))):
        assert [first for _, first, _ in await segments(queue, (ann, 4, 5), ahead_bytes=asked)] == list(expected)
    found = await segments(queue, (ann, 0, 6), (ann, 3, 9), (ann, 57, 60), (bob, 0, 1), ahead_bytes=36)
    assert [(id, first) for id, first, _ in found] == [(ann, each) for each in (0, 3, 6, 9, 12, 57)] + [(bob, 0)]


async def test_a_flush_is_found_by_its_mark(queue):
    await queue.push("orders", "ann", 1, 2)
    ann, flush = await queue.partition_id("orders", "ann"), uuid.uuid4()
    bob = await queue.partition_id("orders", "bob")
    segments = [ann, ann, bob], [1, 2, 1], [b"[3]", b"[4,5]", b"[6]"]
    await queue.call("push_segments", *segments, p_flush_id=flush, p_now=queue.clock.now)
    rows = await queue.call("find_flush", [bob, ann], [0, 2], flush)
    assert [tuple(row) for row in rows] == [(2, queue.clock.now), (3, queue.clock.now), (0, queue.clock.now)]
    assert await queue.call("find_flush", [ann], [5], flush) == []
    assert await queue.call("find_flush", [ann, bob], [0, 0], uuid.uuid4()) == []


# By offset and by id.


async def test_messages_are_read_by_offset(queue):
    await queue.push("orders", "ann", "a", "b", ids=["x", None])
    await queue.push("orders", "ann", "c")
    rows = await queue.call("read_messages", "orders", "ann", 1, 5)
    assert values(rows) == ["b", "c"]
    assert [row["offset"] for row in rows] == [1, 2]
    assert rows[0]["transaction_id"] == str(rows[0]["message_id"])
    assert await queue.call("read_messages", "orders", "ann", 3, 5) == []
    assert values(await queue.call("read_messages", "orders", "ann", 0, 1)) == ["a"]


@pytest.mark.parametrize(("offset", "limit"), [(-1, 10), (None, 10), (0, 0), (0, 10_001), (0, None)])
async def test_bad_offsets_and_limits_are_refused(queue, offset, limit):
    await queue.push("orders", "ann", 1)
    with pytest.raises(InvalidArgument):
        await queue.call("read_messages", "orders", "ann", offset, limit)


async def test_reading_needs_a_queue_and_a_partition(queue):
    await queue.push("orders", "ann", 1)
    with pytest.raises(QueueNotFound):
        await queue.call("read_messages", "nowhere", "ann")
    with pytest.raises(PartitionNotFound):
        await queue.call("read_messages", "orders", "bob")


async def test_a_message_is_found_by_its_id(queue):
    await queue.push("orders", "ann", "a", "b", ids=["x", "y"])
    for row in await queue.call("read_messages", "orders", "ann"):
        [found] = await queue.call("get_message", row["message_id"], p_now=queue.clock.now)
        assert (found["offset"], found["transaction_id"]) == (row["offset"], row["transaction_id"])
        assert found["status"] == "pending"


async def test_an_id_from_elsewhere_finds_nothing(queue):
    await queue.push("orders", "ann", "a")
    [row] = await queue.call("read_messages", "orders", "ann")
    other_time = uuid.UUID(int=row["message_id"].int ^ (1 << 90))
    other_place = uuid.UUID(int=row["message_id"].int + 1)
    for stranger in (other_time, other_place, uuid.uuid4(), uuid.UUID(int=0)):
        assert await queue.call("get_message", stranger) == []


async def test_messages_are_located_by_transaction_id_and_by_message_id(queue):
    await queue.push("orders", "ann", *"abc", ids=["x", 'q"\\ü', None])
    await queue.push("orders", "ann", *"de", ids=["y", "z"])
    [delivery] = await queue.pop("g", "orders", batch=2)
    third = (await queue.call("read_messages", "orders", "ann", 2, 1))[0]["message_id"]
    names = ["x", 'q"\\ü', str(third), str(third).upper(), "z", "nothing", str(uuid.uuid4())]
    rows = await queue.call(
        "locate_messages",
        [delivery.partition_id] * len(names),
        ["g"] * len(names),
        names,
        queue.clock.now,
    )
    assert [row["offset"] for row in rows] == [0, 1, 2, 2, 4, None, None]
    assert {(row["group_id"], row["lease_id"], row["lease_live"]) for row in rows} == {
        (delivery.group_id, delivery.lease_id, True)
    }
    assert {(row["queue_name"], row["partition_name"]) for row in rows} == {("orders", "ann")}


async def test_a_repeated_id_is_located_in_the_lease_before_the_newest(queue):
    await queue.configure("orders", dedup_window_seconds=0)
    for number in range(3):
        await queue.push("orders", "ann", number, ids=["same"])
    [delivery] = await queue.pop("g", "orders", batch=2)
    ann = delivery.partition_id
    [leased, free, stranger, nowhere] = await queue.call(
        "locate_messages", [ann, ann, ann, 999], ["g", "other", "?", "g"], ["same"] * 4, queue.clock.now
    )
    assert leased["offset"] == 1
    assert (free["offset"], free["group_id"], free["lease_live"]) == (2, None, False)
    assert stranger["group_id"] is None
    assert (nowhere["offset"], nowhere["group_id"], nowhere["partition_name"]) == (None, None, None)
    queue.clock.advance(300)
    [late] = await queue.call("locate_messages", [ann], ["g"], ["same"], queue.clock.now)
    assert not late["lease_live"]


# Page by page.


@pytest.fixture
async def seven(queue):
    """Seven messages in two partitions, pushed by four transactions."""
    await queue.push("orders", "ann", 0, 1)
    await queue.push("orders", "bob", 2)
    await queue.push_many(("orders", "ann", [3]), ("orders", "bob", [4, 5]))
    await queue.push("orders", "ann", 6)


async def test_the_newest_come_first(queue, seven):
    assert values(await listed(queue, "orders")) == [6, 5, 4, 3, 2, 1, 0]
    assert values(await listed(queue, "orders", "ann")) == [6, 3, 1, 0]


@pytest.mark.parametrize("partition", [None, "ann"])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
async def test_pages_join_whatever_is_pushed_meanwhile(queue, seven, partition, size):
    expected = values(await listed(queue, "orders", partition))
    seen, cursor = [], None
    while rows := await listed(queue, "orders", partition, p_cursor=cursor, p_limit=size):
        seen += values(rows)
        cursor = rows[-1]["cursor"]
        await queue.push("orders", "ann", "meanwhile")
        await queue.push("orders", "bob", "meanwhile")
    assert seen == expected


async def test_each_status_is_one_groups_view(queue, seven):
    await queue.configure("orders", retry_limit=0)
    [delivery] = await queue.pop("g", "orders", "ann", batch=3)
    await queue.ack(delivery, [0])
    await queue.fail(delivery, [1])
    statuses = {"leased": [3], "completed": [0], "dead_letter": [1], "pending": [6, 5, 4, 2]}
    for status, expected in statuses.items():
        assert values(await listed(queue, "orders", None, "g", status)) == expected
    rows = await listed(queue, "orders", "ann", "g")
    assert [row["status"] for row in rows] == ["pending", "leased", "dead_letter", "completed"]
    assert {row["status"] for row in await listed(queue, "orders")} == {"pending"}
    queue.clock.advance(300)
    assert values(await listed(queue, "orders", "ann", "g", "leased")) == []


async def test_pages_of_a_status_join(queue, seven):
    [delivery] = await queue.pop("g", "orders", "ann")
    await queue.ack(delivery, [1, 2])
    seen, cursor = [], None
    while rows := await listed(queue, "orders", None, "g", "pending", cursor, 1):
        seen += values(rows)
        cursor = rows[-1]["cursor"]
    assert seen == [5, 4, 2]


@pytest.mark.parametrize(
    "arguments",
    [
        {"p_cursor": "yesterday"},
        {"p_cursor": "1.2.3"},
        {"p_cursor": "99999.1.1.1"},
        {"p_cursor": "1.2.3.4; drop table"},
        {"p_status": "lost"},
        {"p_limit": 0},
        {"p_limit": 10_001},
    ],
)
async def test_a_bad_cursor_status_or_limit_is_refused(queue, seven, arguments):
    with pytest.raises(InvalidArgument):
        await listed(queue, "orders", **arguments)


async def test_listing_needs_a_queue(queue, seven):
    with pytest.raises(QueueNotFound):
        await listed(queue, "nowhere")
    with pytest.raises(PartitionNotFound):
        await listed(queue, "orders", "carl")


# Traces.


async def test_a_trace_shows_every_step_with_its_time(queue):
    trace = uuid.uuid4()
    for seconds, name in [(0, "orders"), (1.5, "invoices"), (10, "letters")]:
        queue.clock.advance(seconds)
        await queue.call("push", name, json.dumps(name), "ann", None, trace, p_now=queue.clock.now)
        await queue.call("push", name, '"other"', "ann", None, uuid.uuid4(), p_now=queue.clock.now)
        await queue.sequence()
    rows = await queue.call("trace", trace)
    assert [(row["step"], row["queue"], row["offset"]) for row in rows] == [
        (1, "orders", 0),
        (2, "invoices", 0),
        (3, "letters", 0),
    ]
    assert [row["seconds_since_previous"] for row in rows] == [None, 1.5, 10]
    assert [row["seconds_since_start"] for row in rows] == [0, 1.5, 11.5]
    assert values(rows) == ["orders", "invoices", "letters"]
    assert await queue.call("trace", uuid.uuid4()) == []
