"""Calls that can be told from nothing else are noted, answered again when they are repeated, and forgotten in time."""

import asyncio
import uuid

import asyncpg
import pytest

from tests.queue_in_sql import _Ack, _acks
from tests.waits import until


async def fail(queue, delivery, call):
    [row] = await queue.call("ack_once", call, *_acks([_Ack(delivery, delivery.offsets, "failed")]), queue.clock.now)
    return {**row}


async def test_a_failure_that_is_said_again_is_not_counted_again(queue):
    await queue.configure("orders", retry_delay_ms=0)
    await queue.push("orders", "ann", 1, 2)
    [delivery] = await queue.pop("workers", "orders")
    call = uuid.uuid4()
    answer = await fail(queue, delivery, call)
    assert (answer["held"], answer["released"], answer["queue_name"]) == (True, True, "orders")
    assert [(each.lower, each.upper) for each in answer["accepted"]] == [(0, 2)]
    assert await fail(queue, delivery, call) == answer
    assert not (await fail(queue, delivery, uuid.uuid4()))["held"]
    [delivery] = await queue.pop("workers", "orders")
    assert delivery.retries == {0: 1, 1: 1}


async def test_a_transaction_without_a_push_is_noted(queue):
    await queue.push("orders", "ann", 1)
    [delivery] = await queue.pop("workers", "orders")
    call = uuid.uuid4()
    said = _acks([_Ack(delivery, delivery.offsets, "completed")])
    await queue.call("transact", *said, [], *([[]] * 3), *([None] * 5), call, p_now=queue.clock.now)
    assert await queue.connection.fetchval("select id from queen.calls") == call


async def test_calls_are_forgotten_oldest_first(queue):
    await queue.push("orders", "ann", 1)
    for _ in range(3):
        [delivery] = await queue.pop("workers", "orders")
        await fail(queue, delivery, uuid.uuid4())
        queue.clock.advance(60)
    forgotten = [
        (await queue.call("forget_calls", seconds, 1, queue.clock.now))[0][0] for seconds in (200, 100, 100, 100)
    ]
    assert forgotten == [0, 1, 1, 0]
    assert (
        await queue.connection.fetchval(
            "select queen.forget_calls(p_older_seconds => 59, p_now => $1)", queue.clock.now
        )
        == 1
    )


async def begin(queue, call_id):
    await queue.connection.execute("select queen.begin_call($1)", call_id)


async def abandon(queue, call_id):
    return await queue.connection.fetchval("select queen.abandon_call($1, $2)", call_id, queue.clock.now)


async def test_a_call_that_was_abandoned_does_not_begin(queue, another):
    assert await abandon(queue, 7)
    for client in (queue, await another()):
        with pytest.raises(asyncpg.QueryCanceledError, match="call 7 was abandoned"):
            await begin(client, 7)
    await begin(queue, 8)


async def test_a_call_is_abandoned_twice_with_the_same_result(queue):
    assert await abandon(queue, 7)
    assert await abandon(queue, 7)


async def test_a_call_without_an_id_begins(queue):
    assert await abandon(queue, 7)
    assert await queue.connection.fetchval("select queen.begin_call(null, $1)", queue.clock.now) == queue.clock.now


async def test_a_call_that_runs_is_ended_before_it_counts_as_abandoned(queue, another):
    running = (await another()).connection
    ended = asyncio.get_running_loop().create_future()
    running.add_termination_listener(lambda _: ended.set_result(None))
    await running.execute("begin")
    await running.execute("select queen.begin_call(-7)")
    assert not await abandon(queue, -7)
    async with asyncio.timeout(10):
        await ended
    await until("the call has ended", lambda: abandon(queue, -7))


async def test_a_call_that_is_being_abandoned_does_not_begin(queue, another):
    other = (await another()).connection
    async with other.transaction():
        assert await other.fetchval("select queen.abandon_call(7)")
        with pytest.raises(asyncpg.QueryCanceledError, match="call 7 is being abandoned"):
            await begin(queue, 7)


async def test_abandoned_calls_are_forgotten_after_an_hour(queue):
    await abandon(queue, 7)
    queue.clock.advance(3_599)
    await abandon(queue, 8)
    await queue.call("forget_calls", 600, 10, queue.clock.now)
    with pytest.raises(asyncpg.QueryCanceledError):
        await begin(queue, 7)
    queue.clock.advance(2)
    await queue.call("forget_calls", 600, 10, queue.clock.now)
    await begin(queue, 7)
    with pytest.raises(asyncpg.QueryCanceledError):
        await begin(queue, 8)


async def test_after_the_last_abandoned_call_is_forgotten_others_can_be_abandoned(queue):
    await abandon(queue, 7)
    queue.clock.advance(3_601)
    await queue.call("forget_calls", 600, 10, queue.clock.now)
    assert await queue.connection.fetchval("select pg_sequence_last_value('queen.abandonments')") is None
    await abandon(queue, 8)
    with pytest.raises(asyncpg.QueryCanceledError):
        await begin(queue, 8)


async def test_forgetting_waits_for_a_call_that_is_being_abandoned(queue, another, until_blocked):
    await abandon(queue, 7)
    queue.clock.advance(3_601)
    other, forgetter = (await another()).connection, await another()
    async with other.transaction():
        assert await other.fetchval("select queen.abandon_call(8, $1)", queue.clock.now)
        forgotten = asyncio.create_task(forgetter.call("forget_calls", 600, 10, queue.clock.now))
        await until_blocked(forgetter)
    await forgotten
    with pytest.raises(asyncpg.QueryCanceledError):
        await begin(queue, 8)
