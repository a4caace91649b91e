"""Behind a pooler, too, a call whose answer is lost has happened once: the process that ran it need not be known."""

import asyncio
import json

import pytest

from queenmq.model import Ack, Outgoing, PopRequest
from tests.books import assert_the_books_balance
from tests.faults.log import lost_at_work, stored
from tests.fixtures.proxy import proxy_to
from tests.waits import until

ORDERS = PopRequest(queue="orders", batch=10)
LEASES = "select count(distinct lease_id) from queen.partition_consumers where lease_id is not null"
AT_WORK = """
select pid from pg_stat_activity
 where datname = current_database() and wait_event_type = 'Lock' and query like '%' || $1 || '%'
"""


@pytest.fixture
async def proxy(pooled):
    """A network between the engine and the pooler."""
    async with proxy_to(pooled.dsn) as proxy:
        yield proxy


@pytest.fixture
async def engine(open_engine, proxy):
    return await open_engine(proxy.dsn)


@pytest.fixture(params=["cut_before_request", "cut_during_request", "cut_after_request"])
def cut(request, proxy):
    return getattr(proxy, request.param)


@pytest.fixture(autouse=True)
async def balanced(connect):
    yield
    connection = await connect()
    await assert_the_books_balance(connection, await connection.fetchval("select clock_timestamp()"))


def messages(*values, queue="orders"):
    return [Outgoing(queue, json.dumps(value).encode(), "ann") for value in values]


def acks(popped, status="completed"):
    return [Ack.of(message, status) for message in popped.messages]


async def test_every_call_happens_once(engine, connection, cut):
    await engine.admin.configure_queue("orders", retry_delay_ms=0)
    cut("queen.push_segments")
    assert [answer.offset for answer in await engine.push(messages(1, 2, 3))] == [0, 1, 2]
    cut("queen.pop_batch")
    popped = await engine.pop(ORDERS)
    assert await connection.fetchval(LEASES) == 1
    cut("queen.ack_once")
    assert all(answer.accepted for answer in await engine.ack(acks(popped, "failed")))
    popped = await engine.pop(ORDERS)
    assert [message.retry_count for message in popped.messages] == [1, 1, 1]
    cut("queen.transact")
    await engine.transaction(acks(popped)[:1], messages(11, queue="receipts"))
    cut("queen.ack_batch")
    assert all(answer.accepted for answer in await engine.ack(acks(popped)[1:]))
    assert await stored(connection) == {("orders", "ann"): [1, 2, 3], ("receipts", "ann"): [11]}
    assert await connection.fetchval("select sum(pending + leased) from queen.ledger where queue = 'orders'") == 0


async def test_a_push_that_still_runs_cannot_commit_late(engine, proxy, connect, connection):
    await engine.push(messages(1))
    other, watcher = await connect(), await connect()
    async with asyncio.timeout(30):
        transaction = other.transaction()
        await transaction.start()
        await other.execute("select from queen.partition_lookup for update")
        fault = proxy.cut_during_request("queen.push_segments")
        push = asyncio.create_task(engine.push(messages(2)))
        await lost_at_work(proxy, fault, watcher)
        await transaction.rollback()
        assert [answer.offset for answer in await push] == [1]
    assert await stored(connection) == {("orders", "ann"): [1, 2]}


async def test_a_push_that_the_pooler_has_kept_for_too_long_is_refused(engine, proxy, connection):
    await engine.push(messages(1))
    fault = proxy.delay_request("queen.push_segments")
    assert [answer.offset for answer in await engine.push(messages(2))] == [1]
    assert b"was abandoned" in await fault.deliver()
    assert await stored(connection) == {("orders", "ann"): [1, 2]}


async def test_a_process_that_is_ended_takes_only_its_call_with_it(engine, connect, connection):
    await engine.push(messages(1))
    other, watcher = await connect(), await connect()
    async with asyncio.timeout(30):
        async with other.transaction():
            await other.execute("select from queen.partition_lookup for update")
            push = asyncio.create_task(engine.push(messages(2)))
            pid = await until("the push waits", lambda: watcher.fetchval(AT_WORK, "push_segments"))
            assert await watcher.fetchval("select pg_terminate_backend($1, 5000)", pid)
        assert [answer.offset for answer in await push] == [1]
    assert await stored(connection) == {("orders", "ann"): [1, 2]}


async def test_a_pooler_that_dies_and_comes_back_loses_nothing(engine, pooled, connection):
    await engine.push(messages(1))
    pooled.pooler.restart()
    assert [answer.offset for answer in await engine.push(messages(2))] == [1]
    assert len((await engine.pop(ORDERS)).messages) == 2
    assert await stored(connection) == {("orders", "ann"): [1, 2]}
