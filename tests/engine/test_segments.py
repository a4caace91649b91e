"""The segment cache: what is read once is not read again, and memory has an end."""

import asyncio
from datetime import UTC, datetime

import pytest
from msgspec import Raw

from queenmq.engine.segments import Segment, SegmentCache
from tests.engine.shorthand import ack, messages, pop, values

pytestmark = pytest.mark.every_postgres

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def segment(first_offset, count, partition_id=1, size=100, headers=None):
    array = b",".join(b"%d" % n for n in range(first_offset, first_offset + count))
    array = b"[%b]" % array.rjust(size - 2)
    return Segment(partition_id, first_offset, count, NOON, array, None, None, headers, None)


def starts(found):
    return None if found is None else [each.first_offset for each in found]


def test_a_range_is_found_when_all_of_it_is_there():
    cache = SegmentCache(1_000_000)
    for first in (20, 0, 10):
        cache.put([segment(first, 10)])
    assert starts(cache.covering(1, 0, 10)) == [0]
    assert starts(cache.covering(1, 5, 25)) == [0, 10, 20]
    assert starts(cache.covering(1, 10, 11)) == [10]
    assert (cache.hits, cache.misses) == (3, 0)


@pytest.mark.parametrize("range_", [(1, 0, 31), (1, 30, 31), (2, 0, 1), (1, 5, 15)])
def test_a_range_with_a_gap_is_not_found(range_):
    cache = SegmentCache(1_000_000)
    cache.put([segment(0, 10)])
    cache.put([segment(20, 10)])
    assert cache.covering(*range_) is None
    assert cache.misses == 1


def test_the_least_recently_used_segment_goes_first():
    cache = SegmentCache(3 * 1_300)
    for first in (0, 10, 20):
        cache.put([segment(first, 10)])
    assert cache.covering(1, 0, 10)
    cache.put([segment(30, 10)])
    assert starts(cache.covering(1, 0, 10)) == [0]
    assert cache.covering(1, 10, 20) is None


def test_a_segment_too_large_for_the_cache_drives_nothing_out():
    cache = SegmentCache(2_000)
    cache.put([segment(0, 10)])
    cache.put([segment(10, 10, size=5_000)])
    assert starts(cache.covering(1, 0, 10)) == [0]
    assert cache.covering(1, 10, 20) is None


def test_headers_take_room_in_the_cache():
    cache = SegmentCache(2_000)
    cache.put([segment(0, 10)])
    cache.put([segment(10, 2, headers=[None, Raw(b'{"a":"%b"}' % (b"x" * 1_000))])])
    assert cache.covering(1, 0, 10) is None
    assert starts(cache.covering(1, 10, 12)) == [10]


def test_a_segment_that_is_put_twice_counts_once():
    cache = SegmentCache(2_000)
    for _ in range(5):
        cache.put([segment(0, 10)])
    assert starts(cache.covering(1, 0, 10)) == [0]


# -- on a database


async def test_what_was_pushed_here_is_not_fetched(engine):
    await engine.push(messages("orders", *range(1000)))
    await drain(engine, "g", 100)
    assert (engine.segments.hits, engine.segments.misses) == (10, 0)


async def test_a_thousand_messages_read_one_by_one_are_fetched_once(open_engine):
    producer, consumer = await open_engine(), await open_engine()
    await producer.push(messages("orders", *range(1000)))
    assert await drain(consumer, "g", 1) == list(range(1000))
    assert consumer.segments.misses == 1


async def test_five_groups_read_the_table_once(open_engine):
    producer, consumer = await open_engine(), await open_engine()
    for n in range(5):
        await producer.push(messages("orders", *range(n * 10, n * 10 + 10)))
    for n in range(5):
        assert await drain(consumer, f"g{n}", 10) == list(range(50))
    assert consumer.segments.misses == 1  # the first one who asked; what follows came with it


async def test_a_backlog_is_read_ahead_as_far_as_there_is_room_for_all(open_engine):
    producer = await open_engine()
    for partition in ("ann", "bob"):
        for _ in range(40):
            await producer.push(messages("orders", *["x" * 1_000] * 2, partition=partition))
    roomy, narrow = await open_engine(), await open_engine(segment_cache_bytes_max=20_000)
    for consumer, group in ((roomy, "roomy"), (narrow, "narrow")):
        assert len(await drain(consumer, group, 2)) == 160
    assert roomy.segments.misses < 10  # sixteen more segments at a time
    assert roomy.segments.misses < narrow.segments.misses < 80


async def test_groups_that_ask_together_are_served_by_one_fetch(open_engine):
    producer, consumer = await open_engine(), await open_engine()
    await producer.push(messages("orders", *range(10)))
    before = consumer.database.calls
    popped = await asyncio.gather(*(pop(consumer, "orders", group=f"g{n}", batch=n + 1) for n in range(5)))
    assert [values(each) for each in popped] == [list(range(n + 1)) for n in range(5)]
    assert consumer.database.calls - before == 2  # a pop and a fetch


async def test_without_a_cache_everything_works(open_engine):
    engine = await open_engine(segment_cache_bytes_max=0)
    await engine.push(messages("orders", *range(30)))
    assert await drain(engine, "g", 10) == list(range(30))
    assert (engine.segments.hits, engine.segments.misses) == (0, 3)


async def test_a_small_cache_knows_what_was_used_last(open_engine):
    engine = await open_engine(segment_cache_bytes_max=1_000)
    for n in range(10):
        await engine.push(messages("orders", n))
    assert await drain(engine, "g", 1) == list(range(10))
    hits, misses = engine.segments.hits, engine.segments.misses
    for offset in (9, 0):
        await engine.admin.seek_group("g", "orders", partition="Default", offset=offset)
        assert values(await pop(engine, "orders", group="g")) == [offset]
    assert (engine.segments.hits, engine.segments.misses) == (hits + 1, misses + 1)


async def test_what_was_deleted_is_not_delivered_from_memory(engine):
    await engine.push(messages("orders", 1, 2))
    assert values(await pop(engine, "orders", batch=9, group="g")) == [1, 2]
    await engine.admin.clear_queue("orders")
    await engine.push(messages("orders", 3))
    assert values(await pop(engine, "orders", batch=9, group="h")) == [3]


async def test_what_is_stored_reads_like_what_was_pushed(open_engine):
    producer, consumer = await open_engine(), await open_engine()
    given = messages("orders", {"a": [1, "ä", None]}, "x", ids=["a", None], producer="p")
    await producer.push(given)
    at_home, abroad = [await pop(e, "orders", group=g, batch=2) for e, g in [(producer, "p"), (consumer, "c")]]
    for one, other in zip(at_home.messages, abroad.messages, strict=True):
        assert bytes(one.payload) == bytes(other.payload)
        assert (one.id, one.transaction_id, one.producer) == (other.id, other.transaction_id, other.producer)


async def drain(engine, group, batch):
    """Read and acknowledge everything; the values, in order."""
    read = []
    while values_ := values(popped := await pop(engine, "orders", group=group, batch=batch)):
        read += values_
        await ack(engine, popped)
    return read
