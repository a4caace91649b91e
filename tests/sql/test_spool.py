"""Messages from a spool file are stored together with the file's position: once, whoever repeats the call."""

import asyncio
import json
import uuid

import pytest

from tests.faults.log import stored

FILE = uuid.UUID(int=7)


async def store(queue, start, end, *messages, ids=None):
    [partition] = await queue.call("ensure_partitions", ["orders"], ["ann"])
    counts, payloads = ([len(messages)], [json.dumps(messages).encode()]) if messages else ([], [])
    [row] = await queue.call(
        "push_spooled",
        FILE,
        start,
        end,
        [partition["partition_id"]] if messages else [],
        counts,
        payloads,
        [json.dumps(ids)] if ids else None,
        *([None] * 4),
        p_now=queue.clock.now,
    )
    return row["reached"], row["first_offsets"]


async def test_the_position_moves_with_the_messages(queue):
    assert await store(queue, 0, 2, 1, 2) == (2, [0])
    assert await store(queue, 2, 3, 3) == (3, [2])
    assert await stored(queue.connection) == {("orders", "ann"): [1, 2, 3]}


async def test_a_call_that_is_repeated_writes_nothing_and_says_where_it_is(queue):
    await store(queue, 0, 2, 1, 2)
    assert await store(queue, 0, 2, 1, 2) == (2, None)
    assert await store(queue, 5, 6, 9) == (2, None)
    assert await stored(queue.connection) == {("orders", "ann"): [1, 2]}


async def test_messages_can_be_skipped(queue):
    assert await store(queue, 0, 4) == (4, None)
    assert await store(queue, 4, 5, 5) == (5, [0])


async def test_a_duplicate_moves_nothing(queue):
    await store(queue, 0, 1, 1, ids=["a"])
    assert await store(queue, 1, 3, 2, 3, ids=["b", "a"]) == (1, None)
    assert await stored(queue.connection) == {("orders", "ann"): [1]}


@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_a_call_waits_for_one_that_is_still_at_work(queue, another, until_blocked, end):
    await store(queue, 0, 1, 1)
    lost, again = await another(), await another()
    transaction = lost.connection.transaction()
    await transaction.start()
    await store(lost, 1, 2, 2)
    call = asyncio.create_task(store(again, 1, 2, 2))
    await until_blocked(again)
    await getattr(transaction, end)()
    assert await call == ((2, None) if end == "commit" else (2, [1]))
    assert await stored(queue.connection) == {("orders", "ann"): [1, 2]}
