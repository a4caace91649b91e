"""Reading by offset: fetch, read and tail see what is stored, and disturb nobody."""

import asyncio
import sys
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from queenmq import AsyncQueen, Outgoing
from queenmq.errors import PositionLost

TAIL_SECONDS_MAX = 60


async def fill(queen, queue, **partitions):
    await queen.queue(queue).push_many(
        [Outgoing(payload, partition=name) for name, payloads in partitions.items() for payload in payloads]
    )


async def take(iterable, count):
    """The first so many of an endless iteration."""
    taken = []
    async with asyncio.timeout(TAIL_SECONDS_MAX):
        async for each in iterable:
            taken.append(each)
            if len(taken) == count:
                break
    return taken


def told(records):
    return sorted((each.partition, each.offset, each.payload) for each in records)


async def test_partitions_are_fetched_from_an_offset_on(queen, queue):
    await fill(queen, queue, ann=[1, 2, 3], bob=[7])
    found = await queen.queue(queue).fetch({"ann": 1, "bob": 0, "eve": 0})
    assert told(found["ann"].records) == [("ann", 1, 2), ("ann", 2, 3)]
    assert (found["ann"].start_offset, found["ann"].next_offset, found["ann"].error) == (0, 3, None)
    assert told(found["bob"].records) == [("bob", 0, 7)]
    assert (found["eve"].records, found["eve"].error) == ([], "UNKNOWN_TOPIC_OR_PARTITION")
    assert (await queen.queue(queue).fetch({"ann": 9}))["ann"].error == "OFFSET_OUT_OF_RANGE"


async def test_an_answer_has_about_as_many_bytes_as_asked_for(queen, queue):
    await fill(queen, queue, ann=["x" * 100, "y" * 100])
    found = await queen.queue(queue).fetch({"ann": 0}, bytes_max=150)
    assert [each.offset for each in found["ann"].records] == [0]


async def test_all_that_is_stored_is_read_without_taking_it(queen, queue):
    await fill(queen, queue, ann=[1, 2], bob=[7])
    assert told([each async for each in queen.queue(queue).read()]) == [("ann", 0, 1), ("ann", 1, 2), ("bob", 0, 7)]
    assert told([each async for each in queen.queue(queue).partition("bob").read()]) == [("bob", 0, 7)]
    assert [each async for each in queen.queue(queue).partition("nobody").read()] == []
    assert len(await queen.queue(queue).batch(10).max_partitions(10).pop()) == 3


async def test_a_reading_can_be_limited_to_a_time(queen, queue):
    await fill(queen, queue, ann=[1])
    [first] = [each async for each in queen.queue(queue).read()]
    await fill(queen, queue, ann=[2])
    [_, second] = [each async for each in queen.queue(queue).read()]
    reading = queen.queue(queue).read(since=first.created_at, until=second.created_at)
    assert [each.payload async for each in reading] == [1]
    assert [each.payload async for each in queen.queue(queue).read(since=second.created_at)] == [2]
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    assert [each async for each in queen.queue(queue).read(since=tomorrow)] == []


async def test_a_reading_becomes_a_table(queen, queue):
    await queen.queue(queue).push({"id": 1}, transaction_id="a", headers={"kind": "order"})
    await queen.queue(queue).push(Outgoing([1, "ü"], transaction_id="b"))
    table = await queen.queue(queue).read().to_arrow()
    assert table.column("payload").to_pylist() == ['{"id":1}', '[1,"ü"]']
    assert table.column("headers").to_pylist() == [[("kind", "order")], []]
    assert table.schema.field("created_at").type.tz == "UTC"
    frame = await queen.queue(queue).read().to_pandas()
    assert frame["transaction_id"].tolist() == ["a", "b"]
    assert frame["offset"].tolist() == [0, 1]


@pytest.mark.parametrize(("missing", "method"), [("pyarrow", "to_arrow"), ("pandas", "to_pandas")])
async def test_a_table_without_its_library_names_the_extra(queen, queue, monkeypatch, missing, method):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=rf"{missing}.*queenmq\[arrow\]"):
        await getattr(queen.queue(queue).read(), method)()


@pytest.mark.parametrize("partition", [None, "ann"])
async def test_a_tail_from_the_beginning_sees_what_is_there(queen, queue, partition):
    await fill(queen, queue, ann=[1, 2])
    source = queen.queue(queue) if partition is None else queen.queue(queue).partition(partition)
    assert told(await take(source.tail(start="beginning"), 2)) == [("ann", 0, 1), ("ann", 1, 2)]


async def test_a_tail_sees_what_is_written_later_in_old_and_new_partitions(queen, queue):
    await fill(queen, queue, ann=[1])
    tail = asyncio.ensure_future(take(queen.queue(queue).tail(start="beginning"), 4))
    await fill(queen, queue, ann=[2], bob=[7])
    await fill(queen, queue, ann=[3])
    assert told(await tail) == [("ann", 0, 1), ("ann", 1, 2), ("ann", 2, 3), ("bob", 0, 7)]


@pytest.mark.parametrize("partition", [None, "ann"])
async def test_a_tail_from_the_end_sees_only_what_is_new(queen, queue, partition):
    await fill(queen, queue, ann=["old"])
    source = queen.queue(queue) if partition is None else queen.queue(queue).partition(partition)
    tail = asyncio.ensure_future(take(source.tail(), 1))
    async with asyncio.timeout(TAIL_SECONDS_MAX):
        while not tail.done():  # nobody tells when it has begun: write until it sees something
            await fill(queen, queue, ann=["new"])
    [record] = await tail
    assert record.payload == "new"


async def test_a_settled_tail_sees_all_that_is_written_from_then_on(queen, queue):
    source = queen.queue(queue).partition("ann")
    await source.push(1)
    tail = await queen.queue(queue).tail().settle()
    await source.push_many([2, 3])
    assert told(await take(tail, 2)) == [("ann", 1, 2), ("ann", 2, 3)]


async def test_a_tail_waits_for_a_queue_that_does_not_exist_yet(queen, queue):
    tail = asyncio.ensure_future(take(queen.queue(queue).tail(start="beginning"), 1))
    await fill(queen, queue, ann=["first"])
    assert told(await tail) == [("ann", 0, "first")]


async def test_a_tail_misses_nothing_when_an_answer_is_full_before_a_partitions_turn(address, queue):
    """An answer ends when 32 MiB of segments were read for it: the last partitions get nothing."""
    large = "x" * 8_000_000
    partitions = [f"p{n}" for n in range(6)]
    async with AsyncQueen(address) as queen:
        for name in partitions:
            await queen.queue(queue).partition(name).push_many([large, name])
        records = await take(queen.queue(queue).tail(start="beginning"), 2 * len(partitions))
    assert sorted((each.partition, each.offset) for each in records) == [
        (name, offset) for name in partitions for offset in (0, 1)
    ]


async def test_a_tail_goes_on_when_the_queue_is_deleted_before_it_was_read(queen, queue):
    await fill(queen, queue, ann=["old"])
    tail = await queen.queue(queue).tail(start="beginning").settle()
    await queen.admin.delete(queue)
    await fill(queen, queue, bob=["new"])
    assert told(await take(tail, 1)) == [("bob", 0, "new")]


LOSE = """
delete from queen.segments s using queen.partitions p, queen.queues q
 where s.partition_id = p.id and p.queue_id = q.id and q.name = $1 and s.first_offset > 0
"""
SHORTEN = """
update queen.partition_lookup l set next_offset = 1
  from queen.partitions p, queen.queues q where l.partition_id = p.id and p.queue_id = q.id and q.name = $1
"""


async def lose_all_but_the_first(dsn, queue):
    """What a database does that goes back to an earlier state; servers notice it by the incarnation."""
    connection = await asyncpg.connect(dsn)
    async with connection.transaction():
        await connection.execute(LOSE, queue)
        await connection.execute(SHORTEN, queue)
        await connection.execute("truncate queen.incarnations")
    await connection.close()


@pytest.mark.parametrize("pushed_after", [1, 5])
@pytest.mark.parametrize("partition", [None, "ann"])
async def test_a_tail_ends_with_an_error_when_what_it_has_read_was_lost(
    queen, queue, module_database, partition, pushed_after
):
    for value in range(3):
        await fill(queen, queue, ann=[value])
    source = queen.queue(queue) if partition is None else queen.queue(queue).partition(partition)
    tail = aiter(source.tail(start="beginning"))
    assert told([await anext(tail) for _ in range(3)]) == [("ann", n, n) for n in range(3)]
    await lose_all_but_the_first(module_database, queue)
    await fill(queen, queue, ann=[f"new {n}" for n in range(pushed_after)])
    with pytest.raises(PositionLost, match='lost the message before offset 3 of partition "ann"'):
        async with asyncio.timeout(TAIL_SECONDS_MAX):
            await anext(tail)


async def test_a_tail_reads_a_partition_that_was_deleted_and_made_again_from_its_beginning(queen, queue):
    await fill(queen, queue, ann=[1, 2, 3])
    tail = aiter(queen.queue(queue).tail(start="beginning"))
    assert told([await anext(tail) for _ in range(3)]) == [("ann", 0, 1), ("ann", 1, 2), ("ann", 2, 3)]
    await queen.admin.delete(queue)
    await fill(queen, queue, ann=["new"])
    async with asyncio.timeout(TAIL_SECONDS_MAX):
        assert told([await anext(tail)]) == [("ann", 0, "new")]
