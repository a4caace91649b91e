"""A pop whose answer is lost leaves no lease behind: its messages are delivered at once, as if for the first time."""

import asyncio
import json

import pytest

from queenmq.errors import DatabaseUnavailable
from queenmq.model import Ack, Outgoing, PopRequest
from tests.faults.log import lost_at_work

pytestmark = pytest.mark.usefixtures("balanced")

POP = "queen.pop_batch"
FETCH = "queen.fetch_segments"
LEASES = "select count(distinct lease_id) from queen.partition_consumers where lease_id is not null"


@pytest.fixture(params=["cut_before_request", "cut_during_request", "cut_after_request"])
def cut(request, proxy):
    return getattr(proxy, request.param)


def messages(*values, partition="ann"):
    return [Outgoing("orders", json.dumps(value).encode(), partition) for value in values]


def values(popped):
    return [json.loads(bytes(message.payload)) for message in popped.messages]


ORDERS = PopRequest(queue="orders", batch=10)


async def test_a_lost_pop_is_done_again(engine, connection, cut):
    await engine.push(messages(1, 2, 3))
    fault = cut(POP)
    popped = await engine.pop(ORDERS)
    await fault.happened()
    assert values(popped) == [1, 2, 3]
    assert [message.retry_count for message in popped.messages] == [0, 0, 0]
    assert await connection.fetchval(LEASES) == 1
    assert all(answer.accepted for answer in await engine.ack([Ack.of(message) for message in popped.messages]))


async def test_many_pops_in_one_call(engine, connection, cut):
    await engine.push([each for number in range(20) for each in messages(number, partition=f"p{number}")])
    cut(POP)
    popped = await asyncio.gather(*[engine.pop(ORDERS) for _ in range(20)])
    assert sorted(value for each in popped for value in values(each)) == list(range(20))
    assert await connection.fetchval(LEASES) == 20


async def test_a_group_and_its_subscription_are_made_once(engine, connection, cut):
    await engine.push(messages(1))
    cut(POP)
    popped = await engine.pop(PopRequest(queue="orders", group="billing", subscription_mode="all"))
    assert values(popped) == [1]
    assert await connection.fetchval("select count(*) from queen.consumer_groups_metadata") == 1


async def test_a_pop_that_is_still_running_takes_nothing_late(engine, proxy, connect, connection):
    await engine.push(messages(1))
    other, watcher = await connect(), await connect()
    transaction = other.transaction()
    await transaction.start()
    await other.execute("select from queen.queues for update")  # a group's first pop waits for it
    fault = proxy.cut_during_request(POP)
    pop = asyncio.create_task(engine.pop(ORDERS))
    await lost_at_work(proxy, fault, watcher)
    await transaction.rollback()
    assert values(await pop) == [1]
    assert await connection.fetchval(LEASES) == 1


async def test_the_payloads_are_asked_for_again(engine, open_engine, database, cut):
    another = await open_engine(database)
    await another.push(messages(1, 2))
    fault = cut(FETCH)
    assert values(await engine.pop(ORDERS)) == [1, 2]
    await fault.happened()


async def test_a_pop_that_fails_gives_back_what_it_may_hold(engine, proxy, connection):
    await engine.push(messages(1, 2))
    fault = proxy.hold_answer(POP)
    pop = asyncio.create_task(engine.pop(ORDERS))
    await fault.happened()
    proxy.refuse()
    proxy.cut()
    with pytest.raises(DatabaseUnavailable):
        await pop
    assert await connection.fetchval(LEASES) == 1
    proxy.accept()
    popped = await engine.pop(ORDERS)
    assert values(popped) == [1, 2]
    assert [message.retry_count for message in popped.messages] == [0, 0]
    assert await connection.fetchval(LEASES) == 1


async def test_a_pop_without_payloads_gives_back_what_it_holds(engine, open_engine, database, proxy, connection):
    another = await open_engine(database)
    await another.push(messages(1, 2))
    proxy.cut_before_request(FETCH, times=None)
    with pytest.raises(DatabaseUnavailable):
        await engine.pop(ORDERS)
    proxy.heal()
    assert values(await engine.pop(ORDERS)) == [1, 2]
    assert await connection.fetchval(LEASES) == 1


async def test_a_consumer_that_goes_away_during_a_fault_leaves_nothing_behind(engine, proxy, connection):
    await engine.push(messages(1, 2))
    held = proxy.hold_answer(POP)
    pop = asyncio.create_task(engine.pop(ORDERS))
    await held.happened()
    released = proxy.cut_before_request("queen.release_lease", times=100)
    pop.cancel()
    held.let_through()
    await released.happened()
    with pytest.raises(asyncio.CancelledError):
        await pop
    proxy.heal()
    assert values(await engine.pop(ORDERS, wait_seconds=10)) == [1, 2]
    assert await connection.fetchval(LEASES) == 1
