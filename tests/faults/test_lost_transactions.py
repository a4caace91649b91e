"""A transaction whose answer is lost has happened once, and its caller is told so."""

import asyncio
import json

import pytest

from queenmq.errors import LeaseGone
from queenmq.model import Ack, Outgoing, PopRequest
from tests.faults.log import lost_at_work, stored

pytestmark = pytest.mark.usefixtures("balanced")

TRANSACT = "queen.transact"


@pytest.fixture(params=["cut_before_request", "cut_during_request", "cut_after_request"])
def cut(request, proxy):
    return getattr(proxy, request.param)


@pytest.fixture(params=[False, True], ids=["without ids", "with ids"])
def ids(request):
    return request.param


def outgoing(queue, *values, partition="ann", ids=False):
    return [
        Outgoing(queue, json.dumps(value).encode(), partition, transaction_id=f"id-{value}" if ids else None)
        for value in values
    ]


@pytest.fixture
async def popped(engine):
    await engine.admin.configure_queue("orders", retry_delay_ms=0)
    await engine.push(outgoing("orders", 1, 2))
    return await engine.pop(PopRequest(queue="orders", batch=10))


def acks(popped, status="completed"):
    return [Ack.of(message, status) for message in popped.messages]


async def undone(connection):
    return await connection.fetchval("select sum(pending + leased)::int from queen.ledger where queue = 'orders'")


async def test_acks_and_pushes(engine, connection, popped, cut, ids):
    fault = cut(TRANSACT)
    answers = await engine.transaction(acks(popped), outgoing("receipts", 11, 12, ids=ids))
    await fault.happened()
    assert [(answer.offset, answer.duplicate) for answer in answers] == [(0, False), (1, False)]
    assert await stored(connection) == {("orders", "ann"): [1, 2], ("receipts", "ann"): [11, 12]}
    assert await undone(connection) == 0


async def test_pushes_alone(engine, connection, cut, ids):
    cut(TRANSACT)
    answers = await engine.transaction(
        messages=outgoing("orders", 1, ids=ids) + outgoing("receipts", 2, partition="bob", ids=ids)
    )
    assert [answer.offset for answer in answers] == [0, 0]
    assert await stored(connection) == {("orders", "ann"): [1], ("receipts", "bob"): [2]}


async def test_acks_alone(engine, connection, popped, cut):
    cut(TRANSACT)
    assert await engine.transaction(acks(popped)) == []
    assert await undone(connection) == 0


async def test_failures_alone(engine, popped, cut):
    cut(TRANSACT)
    assert await engine.transaction(acks(popped, "failed")) == []
    popped = await engine.pop(PopRequest(queue="orders", batch=10), wait_seconds=10)
    assert [message.retry_count for message in popped.messages] == [1, 1]


async def test_acks_and_a_duplicate(engine, connection, popped, cut):
    await engine.push(outgoing("receipts", 11, ids=True))
    cut(TRANSACT)
    [answer] = await engine.transaction(acks(popped), outgoing("receipts", 11, ids=True))
    assert (answer.offset, answer.duplicate) == (0, True)
    assert await stored(connection) == {("orders", "ann"): [1, 2], ("receipts", "ann"): [11]}
    assert await undone(connection) == 0


async def test_a_refused_one_stays_refused(engine, connection, popped, cut):
    await engine.release(popped.leases[0].id)
    cut(TRANSACT)
    with pytest.raises(LeaseGone):
        await engine.transaction(acks(popped), outgoing("receipts", 11))
    cut(TRANSACT)
    with pytest.raises(LeaseGone):
        await engine.transaction(acks(popped))
    assert await stored(connection) == {("orders", "ann"): [1, 2]}
    assert await undone(connection) == 2


@pytest.mark.parametrize("pushes", [True, False], ids=["with pushes", "acks alone"])
async def test_a_call_that_is_still_running_cannot_commit_late(engine, proxy, connect, connection, popped, pushes):
    await engine.push(outgoing("receipts", 10))
    other, watcher = await connect(), await connect()
    transaction = other.transaction()
    await transaction.start()
    await other.execute("select from queen.partition_lookup for update")
    fault = proxy.cut_during_request(TRANSACT)
    run = asyncio.create_task(engine.transaction(acks(popped), outgoing("receipts", 11) if pushes else []))
    await lost_at_work(proxy, fault, watcher)
    await transaction.rollback()
    assert [answer.offset for answer in await run] == ([1] if pushes else [])
    assert (await stored(connection))["receipts", "ann"] == ([10, 11] if pushes else [10])
    assert await undone(connection) == 0


async def test_it_has_happened_even_if_nobody_can_be_woken_for_it(engine, proxy, connection, popped):
    proxy.cut_before_request("select distinct q.name", times=None)
    [answer] = await engine.transaction(acks(popped), outgoing("receipts", 11))
    assert answer.offset == 0
    assert await undone(connection) == 0
