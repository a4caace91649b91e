"""Recent ids are read page by page: after a restart there may be more of them than should be in memory at once."""

import asyncio

import pytest

from queenmq.engine.dedup import duplicate_lookup as originals
from queenmq.engine.dedup import id_spill as key_files
from tests.engine.shorthand import messages

pytestmark = pytest.mark.every_postgres

PARTITIONS = "abc"
MANY = 100_001  # messages: one more than a push is told of


def given(*ids, partition):
    return messages("orders", *range(len(ids)), partition=partition, ids=ids)


@pytest.fixture
async def written(open_engine):
    """Three segments of two ids in each of three partitions, others without ids between them, and in a fourth."""
    engine = await open_engine()
    pushed = []
    for number in range(3):
        pushed += await engine.push(
            [each for partition in PARTITIONS for each in given(f"{number} x", f"{number} y", partition=partition)]
        )
        await engine.push([each for partition in "abcd" for each in messages("orders", "no id", partition=partition)])
    await engine.close()
    return pushed


def all_again():
    return [
        each
        for number in range(3)
        for partition in PARTITIONS
        for each in given(f"{number} x", f"{number} y", partition=partition)
    ]


@pytest.mark.parametrize("page_bytes", [1, 14, 30, 1_000], ids="{} bytes a page".format)
async def test_duplicates_are_recognised_wherever_a_page_ends(open_engine, monkeypatch, written, page_bytes):
    monkeypatch.setattr(originals, "PAGE_BYTES", page_bytes)
    engine = await open_engine()
    again = await engine.push([*all_again(), *given("new", partition="d"), *given("new", partition="a")])
    assert [each.duplicate for each in again] == [True] * len(written) + [False] * 2
    assert [each.offset for each in again] == [*(each.offset for each in written), 3, 9]
    assert (await engine.push(given("new", partition="d")))[0].duplicate


async def test_pages_are_as_many_as_it_takes(open_engine, monkeypatch, written):
    made = []
    for page_bytes in (1, 1_000):
        monkeypatch.setattr(originals, "PAGE_BYTES", page_bytes)
        engine = await open_engine()
        before = engine.database.calls
        await engine.push(all_again())
        made.append(engine.database.calls - before)
    assert made[0] == made[1] + 3 * len(PARTITIONS)


async def test_who_needs_what_another_one_reads_waits_for_it(open_engine, monkeypatch, written):
    monkeypatch.setattr(originals, "PAGE_BYTES", 1)
    alone, together = await open_engine(), await open_engine(push_messages_max=1)
    await alone.push(given("new", partition="a"))
    answers = await asyncio.gather(*(together.push(given("new", partition="a")) for _ in range(5)))
    assert all(each.duplicate for [each] in answers)
    assert (
        together.history.memory.dedup.window.lessons == alone.history.memory.dedup.window.lessons + 1
    )  # the page with what is new


async def test_a_window_that_is_too_large_for_memory_is_read_nevertheless(open_engine, monkeypatch, written):
    monkeypatch.setattr(originals, "PAGE_BYTES", 1)
    for bytes_max in (0, key_files.BYTES_MIN):
        engine = await open_engine(dedup_bytes_max=bytes_max)
        assert all(each.duplicate for each in await engine.push(all_again()))


async def test_who_has_missed_too_much_to_be_told_reads_it(open_engine, monkeypatch, written):
    behind, busy = await open_engine(), await open_engine()
    await behind.push([*given("first", partition="a"), *given("first", partition="new")])
    many = [str(number) for number in range(MANY)]
    for partition in ("a", "new"):  # of a partition without a past it knows all, without having read anything
        await busy.push(given(*many, partition=partition))
    monkeypatch.setattr(originals, "PAGE_BYTES", 1)
    again = await behind.push(
        [each for partition in ("new", "a", "b") for each in given("first", "7", "fresh", partition=partition)]
    )
    assert [each.duplicate for each in again] == [True, True, False] * 2 + [False, False, False]
    assert [each.offset for each in again] == [0, 8, MANY + 1, 9, 17, MANY + 10, 9, 10, 11]
    assert all(each.duplicate for each in await behind.push(given("0", str(MANY - 1), "fresh", partition="a")))
