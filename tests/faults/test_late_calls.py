"""A call can arrive after its caller has lost the connection and gone on without it: then it does nothing."""

import json

import pytest

from queenmq.model import Ack, Outgoing, PopRequest
from tests.faults.log import stored

pytestmark = pytest.mark.usefixtures("balanced")

ORDERS = PopRequest(queue="orders", batch=10)
LEASES = "select count(distinct lease_id) from queen.partition_consumers where lease_id is not null"


def messages(*values, queue="orders"):
    return [Outgoing(queue, json.dumps(value).encode(), "ann") for value in values]


def acks(popped, status="completed"):
    return [Ack.of(message, status) for message in popped.messages]


async def late(fault):
    """Let the call arrive; it is refused."""
    await fault.happened()
    assert b"was abandoned" in await fault.deliver()


async def test_a_push_is_stored_once(engine, proxy, connection):
    await engine.push(messages(1))
    fault = proxy.delay_request("queen.push_segments")
    [answer] = await engine.push(messages(2))
    assert answer.offset == 1
    await late(fault)
    assert await stored(connection) == {("orders", "ann"): [1, 2]}


async def test_a_pop_leases_nothing(engine, proxy, connection):
    await engine.push(messages(1))
    fault = proxy.delay_request("queen.pop_batch")
    popped = await engine.pop(ORDERS)
    await engine.release(popped.leases[0].id)
    await late(fault)
    assert await connection.fetchval(LEASES) == 0
    assert len((await engine.pop(ORDERS)).messages) == 1


async def test_a_pop_that_acknowledges_takes_no_message_away(engine, proxy):
    await engine.push(messages(1))
    fault = proxy.delay_request("queen.pop_batch")
    popped = await engine.pop(PopRequest(queue="orders", auto_ack=True))
    assert len(popped.messages) == 1
    await engine.push(messages(2))
    await late(fault)
    assert [bytes(message.payload) for message in (await engine.pop(ORDERS)).messages] == [b"2"]


@pytest.mark.parametrize("status", ["completed", "failed"])
async def test_an_ack_counts_once(engine, proxy, status):
    await engine.admin.configure_queue("orders", retry_delay_ms=0)
    await engine.push(messages(1, 2))
    popped = await engine.pop(ORDERS)
    fault = proxy.delay_request("queen.ack_")
    assert all(answer.accepted for answer in await engine.ack(acks(popped, status)))
    again = await engine.pop(ORDERS)
    await late(fault)
    assert [message.retry_count for message in again.messages] == ([1, 1] if status == "failed" else [])
    assert all(answer.accepted for answer in await engine.ack(acks(again)))


@pytest.mark.parametrize("pushed", [[11, 12], []], ids=["with a push", "without a push"])
async def test_a_transaction_happens_once(engine, proxy, connection, pushed):
    await engine.push(messages(1))
    popped = await engine.pop(ORDERS)
    fault = proxy.delay_request("queen.transact")
    await engine.transaction(acks(popped), messages(*pushed, queue="receipts"))
    await late(fault)
    expected = {("orders", "ann"): [1]} | ({("receipts", "ann"): pushed} if pushed else {})
    assert await stored(connection) == expected
