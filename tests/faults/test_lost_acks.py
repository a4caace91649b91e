"""An ack whose answer is lost counts once, and its caller is told what became of it; so do renewals and releases."""

import asyncio
import json

import pytest

from queenmq.errors import LeaseGone
from queenmq.model import Ack, Outgoing, PopRequest
from tests.faults.log import lost_at_work

pytestmark = pytest.mark.usefixtures("balanced")

ACK = "queen.ack_"
COUNTS = """
select sum(completed)::int as completed, sum(dead_lettered)::int as dead, sum(pending)::int as pending,
       sum(leased)::int as leased
  from queen.ledger
"""


@pytest.fixture(params=["cut_before_request", "cut_during_request", "cut_after_request"])
def cut(request, proxy):
    return getattr(proxy, request.param)


@pytest.fixture
async def popped(engine):
    """Five messages, leased."""
    await engine.admin.configure_queue("orders", retry_delay_ms=0)
    await engine.push([Outgoing("orders", json.dumps(number).encode(), "ann") for number in range(5)])
    return await pop(engine)


async def pop(engine, **options):
    return await engine.pop(PopRequest(queue="orders", batch=10, **options), wait_seconds=10)


async def counts(connection):
    return tuple(await connection.fetchrow(COUNTS))


async def test_completed_messages_stay_completed(engine, connection, popped, cut):
    fault = cut(ACK)
    answers = await engine.ack([Ack.of(message) for message in popped.messages])
    await fault.happened()
    assert [(answer.accepted, answer.released) for answer in answers] == [(True, True)] * 5
    assert await counts(connection) == (5, 0, 0, 0)


async def test_a_part_of_the_lease(engine, connection, popped, cut):
    cut(ACK)
    answers = await engine.ack([Ack.of(popped.messages[place]) for place in (0, 1, 3)])
    assert [(answer.accepted, answer.released) for answer in answers] == [(True, False)] * 3
    assert await counts(connection) == (3, 0, 0, 2)
    cut(ACK)
    answers = await engine.ack([Ack.of(popped.messages[place]) for place in (2, 4)])
    assert [(answer.accepted, answer.released) for answer in answers] == [(True, True)] * 2
    assert await counts(connection) == (5, 0, 0, 0)


async def test_a_failure_is_counted_once_while_the_lease_is_held(engine, connection, popped, cut):
    cut(ACK)
    [answer] = await engine.ack([Ack.of(popped.messages[0], "failed", "no")])
    assert (answer.accepted, answer.released) == (True, False)
    await engine.ack([Ack.of(message) for message in popped.messages[1:]])
    [again] = (await pop(engine)).messages
    assert (again.offset, again.retry_count) == (0, 1)


async def test_a_failure_is_counted_once_when_it_ends_the_lease(engine, connection, popped, cut):
    cut(ACK)
    answers = await engine.ack([Ack.of(message, "failed") for message in popped.messages])
    assert [(answer.accepted, answer.released) for answer in answers] == [(True, True)] * 5
    assert [message.retry_count for message in (await pop(engine)).messages] == [1] * 5


async def test_a_dead_letter_is_written_once(engine, connection, popped, cut):
    cut(ACK)
    answers = await engine.ack(
        [Ack.of(popped.messages[0], "dlq", "no")] + [Ack.of(message) for message in popped.messages[1:]]
    )
    assert [answer.accepted for answer in answers] == [True] * 5
    assert [answer.dead_lettered for answer in answers] == [True] + [False] * 4
    assert await counts(connection) == (4, 1, 0, 0)
    assert await connection.fetchval("select count(*) from queen.dead_letters") == 1


async def test_a_lease_that_was_lost_before_stays_lost(engine, connection, popped, cut):
    await engine.release(popped.leases[0].id)
    cut(ACK, times=2)
    for status in ("completed", "failed"):
        answers = await engine.ack([Ack.of(message, status) for message in popped.messages])
        assert [(answer.accepted, answer.error) for answer in answers] == [(False, LeaseGone.code)] * 5
    assert await counts(connection) == (0, 0, 5, 0)


async def test_a_call_that_is_still_running_cannot_count_late(engine, proxy, connect, connection, popped):
    other, watcher = await connect(), await connect()
    transaction = other.transaction()
    await transaction.start()
    await other.execute("select from queen.partition_consumers for update")
    fault = proxy.cut_during_request(ACK)
    ack = asyncio.create_task(engine.ack([Ack.of(message, "failed") for message in popped.messages]))
    await lost_at_work(proxy, fault, watcher)
    await transaction.rollback()
    assert [answer.accepted for answer in await ack] == [True] * 5
    assert [message.retry_count for message in (await pop(engine)).messages] == [1] * 5


async def test_several_callers_in_one_call(engine, connection, popped, cut):
    cut(ACK)
    answers = await asyncio.gather(
        *[
            engine.ack([Ack.of(message, "failed" if message.offset == 2 else "completed")])
            for message in popped.messages
        ]
    )
    assert [answer.accepted for [answer] in answers] == [True] * 5
    [again] = (await pop(engine)).messages
    assert (again.offset, again.retry_count) == (2, 1)


async def test_a_renewal(engine, connection, popped, cut):
    fault = cut("queen.renew_lease")
    expires_at = await engine.renew(popped.leases[0].id, 1_000)
    await fault.happened()
    assert await connection.fetchval("select ready_at from queen.partition_consumers") == expires_at
    assert expires_at > popped.leases[0].expires_at
    assert await counts(connection) == (0, 0, 0, 5)


async def test_a_release(engine, connection, popped, cut):
    fault = cut("queen.release_lease")
    assert await engine.release(popped.leases[0].id)
    await fault.happened()
    assert await counts(connection) == (0, 0, 5, 0)
    assert [message.retry_count for message in (await pop(engine)).messages] == [0] * 5
