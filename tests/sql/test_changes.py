"""Reads by offset: how far they go, which partitions changed, and up to when that is the whole truth."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest

from queenmq.errors import InvalidArgument, QueueNotFound

pytestmark = pytest.mark.every_postgres

MIB = 1024 * 1024
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


# Ranges.


async def ranges(queue, *reads, most=10**9):
    names, offsets, sizes = zip(*reads, strict=True)
    rows = await queue.call("read_ranges", ["orders"] * len(reads), list(names), list(offsets), list(sizes), most)
    return [row["to_offset"] for row in rows]


@pytest.fixture
async def nine(queue):
    """Nine messages in three segments of 96 bytes each."""
    for first in (0, 3, 6):
        await queue.push("orders", "ann", *[f"{n}{'x' * 27}" for n in range(first, first + 3)])
    sizes = await queue.connection.fetch("select octet_length(payloads) from queen.segments")
    assert {size for (size,) in sizes} == {96}


@pytest.mark.parametrize(
    ("offset", "size", "to"),
    [(0, 1, 3), (0, 96, 3), (0, 97, 6), (0, 1000, 9), (4, 1, 6), (5, 97, 9), (8, 1, 9), (9, 1, 9), (10, 1, 10)],
)
async def test_a_read_ends_with_the_segment_that_passes_its_limit(queue, nine, offset, size, to):
    assert await ranges(queue, ("ann", offset, size)) == [to]


async def test_a_spent_total_leaves_one_segment_to_each_read(queue, nine):
    await queue.push("orders", "bob", 1, 2)
    await queue.push("orders", "bob", 3)
    assert await ranges(queue, ("ann", 0, 1000), ("bob", 0, 1000), most=100) == [6, 2]
    assert await ranges(queue, ("ann", 0, 1000), ("bob", 0, 1000), most=300) == [9, 3]


async def test_reads_load_a_bounded_amount(queue):
    big = json.dumps("x" * (12 * MIB))
    for name in ("ann", "bob", "carl", "dora"):
        await queue.push("orders", name, json.loads(big))
    assert await ranges(queue, *[(name, 0, 1) for name in ("ann", "bob", "carl", "dora")]) == [1, 0, 0, 0]


async def test_unknown_partitions_and_what_is_no_longer_there_have_no_range(queue, nine):
    rows = await queue.call("read_ranges", ["orders", "nowhere"], ["bob", "ann"], [0, 0], [9, 9], 99)
    assert [(row["item"], row["partition_id"], row["to_offset"]) for row in rows] == [(1, None, 0), (2, None, 0)]
    await queue.call("clear_queue", "orders", queue.clock.now)
    await queue.push("orders", "ann", "new")
    [row] = await queue.call("read_ranges", ["orders"], ["ann"], [3], [9], 99)
    assert (row["start_offset"], row["next_offset"], row["to_offset"]) == (9, 10, 3)


async def test_a_read_is_refused_if_the_message_before_it_is_another_one(queue, nine):
    written = await queue.connection.fetchval("select created_at from queen.segments where first_offset = 3")
    other = written + timedelta(microseconds=1)

    async def lost(offset, previous, partition="ann"):
        arguments = (["orders"], [partition], [offset], [9], 99, None, 99, [previous])
        [row] = await queue.call("read_ranges", *arguments)
        assert not row["lost"] or row["to_offset"] == offset
        return row["lost"]

    assert [await lost(offset, written) for offset in (4, 5, 6)] == [False] * 3
    assert [await lost(offset, other) for offset in (4, 5, 6)] == [True] * 3
    assert await lost(20, written), "the log ends before it"
    assert not await lost(0, written)
    assert not await lost(5, None)
    assert not await lost(5, written, "nobody")
    await queue.call("clear_queue", "orders", queue.clock.now)
    assert not await lost(9, other), "nobody can tell"


# Changed partitions.


async def changed(queue, since=None, cursor=None, limit=1000):
    rows = await queue.call("changed_partitions", "orders", since, cursor, limit)
    return [row["partition"] for row in rows]


async def test_partitions_are_found_by_when_they_were_last_written(queue):
    start = queue.clock.now
    await queue.partition_id("orders", "never written")
    for name in ("ann", "bob", "carl"):
        await queue.push("orders", name, 1)
        queue.clock.advance(60)
    await queue.push("orders", "ann", 2)
    await queue.push("other", "dora", 1)
    assert await changed(queue) == ["ann", "bob", "carl"]
    assert await changed(queue, start + timedelta(seconds=60)) == ["ann", "bob", "carl"]
    assert await changed(queue, start + timedelta(seconds=61)) == ["ann", "carl"]
    assert await changed(queue, queue.clock.now) == ["ann"]
    assert await changed(queue, queue.clock.now + timedelta(seconds=1)) == []
    [row] = await queue.call("changed_partitions", "orders", queue.clock.now)
    assert (row["start_offset"], row["next_offset"], row["last_message_at"]) == (0, 2, queue.clock.now)


@pytest.mark.parametrize("size", [1, 2, 3, 100])
async def test_pages_join(queue, size):
    for number in range(12):
        await queue.push("orders", f"p{number}", 1)
        queue.clock.advance(200)
    seen, cursor = [], None
    while rows := await queue.call("changed_partitions", "orders", None, cursor, size):
        seen += [row["partition"] for row in rows]
        cursor = rows[-1]["cursor"]
    assert seen == [f"p{number}" for number in range(12)]


async def test_a_partition_that_is_written_while_pages_are_turned_comes_again(queue):
    for name in ("ann", "bob"):
        await queue.push("orders", name, 1)
    [first] = await queue.call("changed_partitions", "orders", None, None, 1)
    queue.clock.advance(3600)
    await queue.push("orders", "ann", 2)
    assert await changed(queue, cursor=first["cursor"]) == ["bob", "ann"]


@pytest.mark.parametrize("arguments", [("x", 1), ("1.2.3", 1), ("1.-2", 1), (None, 0), (None, 10_001), (None, None)])
async def test_a_bad_cursor_or_limit_is_refused(queue, arguments):
    await queue.push("orders", "ann", 1)
    with pytest.raises(InvalidArgument):
        await changed(queue, None, *arguments)


async def test_changes_need_a_queue(queue):
    with pytest.raises(QueueNotFound):
        await changed(queue)


async def test_pushes_within_a_slot_leave_the_index_alone(queue, another):
    await (await another()).push("orders", "ann", 1)
    counts = "select n_tup_upd, n_tup_hot_upd from pg_stat_xact_user_tables where relname = 'partition_lookup'"
    async with queue.connection.transaction():
        for _ in range(20):
            await queue.push("orders", "ann", 1)
        assert tuple(await queue.connection.fetchrow(counts)) == (20, 20)
        queue.clock.advance(600)
        await queue.push("orders", "ann", 1)
        assert tuple(await queue.connection.fetchrow(counts)) == (21, 20)


# The safe time.


async def push_now(queue, name):
    """Push by PostgreSQL's own clock, which is what the safe time goes by."""
    [row] = await queue.call("push_segments", [await queue.partition_id("orders", name)], [1], [b"[1]"])
    return row["created_ats"][0]


async def safe_time(queue):
    return await queue.connection.fetchval("select queen.safe_time()")


async def test_with_nobody_at_work_the_safe_time_is_now(queue):
    before = await queue.connection.fetchval("select clock_timestamp()")
    written_at = await push_now(queue, "ann")
    safe = await safe_time(queue)
    assert before < written_at < safe <= await queue.connection.fetchval("select clock_timestamp()")


@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_a_push_in_flight_holds_the_safe_time_back(queue, another, end):
    alice, bob = await another(), await another()
    await push_now(queue, "ann")
    await alice.connection.execute("begin")
    written_at = await push_now(alice, "ann")
    later_at = await push_now(bob, "bob")
    safe = await safe_time(bob)
    assert safe <= written_at < later_at
    assert await changed(bob, safe) == ["bob"]
    await alice.connection.execute(end)
    assert await changed(bob, safe) == (["ann", "bob"] if end == "commit" else ["bob"])
    assert await safe_time(bob) > later_at


async def test_a_push_that_waits_for_another_takes_its_time_afterwards(queue, another, until_blocked):
    alice, bob, carl = await another(), await another(), await another()
    await push_now(queue, "ann")
    await alice.connection.execute("begin")
    await push_now(alice, "ann")
    waiting = asyncio.create_task(push_now(bob, "ann"))
    await until_blocked(bob)
    safe = await safe_time(carl)
    await alice.connection.execute("commit")
    assert safe <= await waiting


async def test_a_transaction_that_begins_later_is_not_older_than_the_safe_time(queue, another):
    alice = await another()
    await alice.connection.execute("begin")
    await alice.connection.execute("select 1")
    safe = await safe_time(queue)
    assert safe <= await push_now(alice, "ann")
    await alice.connection.execute("commit")
    assert await changed(queue, safe) == ["ann"]


async def test_long_readers_do_not_hold_the_safe_time_back(queue, another):
    alice = await another()
    await push_now(queue, "ann")
    await alice.connection.execute("begin isolation level repeatable read")
    await alice.connection.fetch("select * from queen.partition_lookup for share")
    written_at = await push_now(queue, "bob")
    assert await safe_time(queue) > written_at
    await alice.connection.execute("rollback")


async def test_where_the_writer_cannot_be_seen_nothing_is_known(queue, another):
    alice, bob = await another(), await another()
    role = f"blind_{queue.connection.get_server_pid()}"
    await queue.connection.execute(
        f"create role {role}; grant usage on schema queen to {role}; alter function queen.safe_time() owner to {role}"
    )
    try:
        assert await safe_time(bob) > EPOCH
        await alice.connection.execute("begin")
        await push_now(alice, "ann")
        assert await safe_time(bob) == EPOCH
        await alice.connection.execute("commit")
        assert await safe_time(bob) > EPOCH
    finally:
        await queue.connection.execute("alter function queen.safe_time() owner to current_user")
        await queue.connection.execute(f"drop owned by {role}; drop role {role}")
