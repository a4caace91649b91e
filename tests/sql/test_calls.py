"""Calls that can be told from nothing else are noted, answered again when they are repeated, and forgotten in time."""

import uuid

from tests.queue_in_sql import _Ack, _acks


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
