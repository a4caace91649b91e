"""A push says how far it knows the ids of its partition, and is told of those it does not: not of any number."""

import json
import uuid

import pytest

pytestmark = pytest.mark.every_postgres

TOLD_MAX = 100_000  # messages since then


async def push(queue, *ids, **arguments):
    payloads = json.dumps([0] * len(ids)).encode()
    [row] = await queue.call(
        "push_segments", [await queue.partition_id("orders", "ann")], [len(ids)], [payloads], [json.dumps(ids)],
        p_now=queue.clock.now, **arguments,
    )  # fmt: skip
    return row


def many(count):
    return [str(number) for number in range(count)]


async def test_what_others_wrote_is_told(queue):
    await push(queue, "known")
    await push(queue, *many(TOLD_MAX))
    row = await push(queue, "new", p_expected_offsets=[1])
    assert (row["first_offsets"], row["missed_offsets"]) == ([TOLD_MAX + 1], [1])
    assert json.loads(row["missed_ids"][0]) == many(TOLD_MAX)


async def test_if_it_is_too_much_nothing_is_written(queue):
    await push(queue, "known")
    await push(queue, *many(TOLD_MAX + 1))
    end = TOLD_MAX + 2
    row = await push(queue, "new", p_expected_offsets=[1])
    assert row["first_offsets"] is None
    assert (row["missed_segments"], row["missed_offsets"], row["missed_ids"]) == ([1], [end], [None])
    row = await push(queue, "new", p_expected_offsets=[end])
    assert (row["first_offsets"], row["missed_ids"]) == ([end], None)


async def test_who_knows_nothing_is_told_all(queue):
    await push(queue, *many(TOLD_MAX + 1))
    row = await push(queue, "7", p_expected_offsets=[None])
    assert (row["first_offsets"], row["missed_offsets"]) == (None, [0])


async def test_what_the_caller_wrote_itself_does_not_count(queue):
    flush = uuid.uuid4()
    await push(queue, "known")
    await push(queue, *many(TOLD_MAX + 1), p_flush_id=flush)
    row = await push(queue, "new", p_expected_offsets=[1], p_known_flushes=[flush])
    assert (row["first_offsets"], row["missed_ids"]) == ([TOLD_MAX + 2], None)
