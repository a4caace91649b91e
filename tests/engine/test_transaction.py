"""Transactions: acks and pushes together, all or nothing."""

import asyncio
from uuid import uuid4

import msgspec
import pytest

from queenmq.engine.ack.acker import completed
from queenmq.errors import (
    InvalidArgument,
    InvalidName,
    InvalidPayload,
    InvalidStatus,
    LeaseGone,
    NotInLease,
    QueueFull,
)
from queenmq.model import Ack, Outgoing
from tests.engine.shorthand import HOUR_MS, ack, lease_id, messages, parked, pop, values

pytestmark = pytest.mark.every_postgres


@pytest.fixture
async def popped(engine):
    """Three messages in one lease."""
    await engine.push(messages("orders", 1, 2, 3))
    return await pop(engine, "orders", batch=3)


async def segments(connection, queue):
    return await connection.fetchval("select count(*) from queen.messages where queue = $1", queue)


async def test_acks_and_pushes_happen_together(engine, popped):
    answers = await engine.transaction(completed(popped.messages), messages("bills", "a", "b") + messages("mails", "c"))
    assert [answer.offset for answer in answers] == [0, 1, 0]
    assert values(await pop(engine, "bills", batch=9)) == ["a", "b"]
    assert values(await pop(engine, "mails", batch=9)) == ["c"]
    assert values(await pop(engine, "orders", batch=9)) == []


async def test_the_answers_name_the_messages_as_the_database_does(engine, connection, popped):
    answers = await engine.transaction(completed(popped.messages), messages("bills", "a", "b", ids=["x", None]))
    rows = await connection.fetch("select id, transaction_id from queen.messages where queue = 'bills' order by 1")
    assert [(answer.id, answer.transaction_id) for answer in answers] == [tuple(row) for row in rows]


async def test_pushes_alone_and_acks_alone_are_transactions_too(engine, popped):
    assert [answer.offset for answer in await engine.transaction(messages=messages("bills", 1, 2))] == [0, 1]
    assert await engine.transaction(completed(popped.messages)) == []
    assert values(await pop(engine, "orders")) == []


async def test_nothing_at_all_is_not_a_transaction(engine, popped):
    with pytest.raises(InvalidArgument):
        await engine.transaction()
    with pytest.raises(InvalidArgument):
        await engine.transaction(required_leases=[lease_id(popped)])


async def test_messages_may_fail_or_be_given_up_in_a_transaction(engine):
    await engine.admin.configure_queue("orders", retry_delay_ms=0)
    await engine.push(messages("orders", 1, 2, 3))
    popped = await pop(engine, "orders", batch=3)
    statuses = zip(popped.messages, ["completed", "dlq", "failed"], strict=True)
    await engine.transaction([Ack.of(message, status, "why") for message, status in statuses], messages("bills", 1))
    assert values(await pop(engine, "orders", batch=9)) == [3]
    [letter] = await engine.admin.list_dead_letters("orders")
    assert (letter.payload, letter.error) == (b"2", "why")


async def test_a_lease_that_is_gone_undoes_the_pushes(engine, connection, popped):
    stale = [msgspec.structs.replace(each, lease_id=uuid4()) for each in completed(popped.messages)]
    with pytest.raises(LeaseGone):
        await engine.transaction(stale, messages("bills", 1))
    assert await segments(connection, "bills") == 0
    assert await ack(engine, popped)


async def test_an_offset_outside_the_lease_undoes_everything(engine, connection, popped):
    acks = completed(popped.messages)
    with pytest.raises(NotInLease):
        await engine.transaction([*acks, msgspec.structs.replace(acks[0], offset=7)], messages("bills", 1))
    assert await segments(connection, "bills") == 0
    assert all(answer.accepted for answer in await ack(engine, popped))


async def test_one_bad_lease_among_good_ones_undoes_all_of_them(engine, connection, popped):
    await engine.push(messages("other", 1))
    other = await pop(engine, "other")
    await ack(engine, other)
    with pytest.raises(LeaseGone):
        await engine.transaction(completed([*popped.messages, *other.messages]), messages("bills", 1))
    assert await segments(connection, "bills") == 0
    assert len(await engine.admin.list_messages("orders", status="leased")) == 3


async def test_a_push_that_is_refused_undoes_the_acks(engine, popped):
    await engine.admin.configure_queue("small", max_queue_size=1)
    refused = {
        QueueFull: messages("small", 1, 2),
        InvalidPayload: [Outgoing("bills", b"{")],
        InvalidName: [Outgoing("", b"1")],
    }
    for error, given in refused.items():
        with pytest.raises(error):
            await engine.transaction(completed(popped.messages), given)
    with pytest.raises(InvalidStatus):
        await engine.transaction([Ack.of(popped.messages[0], "done")], messages("bills", 1))
    assert len(await engine.admin.list_messages("orders", status="leased")) == 3


async def test_a_duplicate_is_reported_as_one_and_the_rest_happens(engine, connection, popped):
    [original] = await engine.push(messages("bills", "a", ids=["a"]))
    answers = await engine.transaction(completed(popped.messages), messages("bills", "A", "b", ids=["a", "b"]))
    assert [(answer.duplicate, answer.offset) for answer in answers] == [(True, 0), (False, 1)]
    assert answers[0].id == original.id
    assert await segments(connection, "bills") == 2
    assert values(await pop(engine, "orders")) == []


async def test_duplicates_alone_do_not_hold_the_acks_up(engine, popped):
    await engine.push(messages("bills", "a", ids=["a"]))
    [answer] = await engine.transaction(completed(popped.messages), messages("bills", "a", ids=["a"]))
    assert answer.duplicate
    assert values(await pop(engine, "orders")) == []


async def test_a_duplicate_that_another_engine_pushed_is_found(open_engine, engine, popped):
    another = await open_engine()
    await engine.push(messages("bills", "x", ids=["x"]))
    [original] = await another.push(messages("bills", "a", ids=["a"]))
    answers = await engine.transaction(completed(popped.messages), messages("bills", "a", "b", ids=["a", "b"]))
    assert [answer.duplicate for answer in answers] == [True, False]
    assert answers[0].id == original.id


async def test_the_same_id_twice_in_a_transaction_is_stored_once(engine, connection):
    answers = await engine.transaction(messages=messages("bills", 1, 2, ids=["a", "a"]))
    assert [(answer.offset, answer.duplicate) for answer in answers] == [(0, False), (0, True)]
    assert await segments(connection, "bills") == 1


async def test_a_transaction_and_a_push_of_the_same_id_at_once_store_it_once(engine, connection):
    given = messages("bills", 1, ids=["a"])
    answers = await asyncio.gather(*(engine.transaction(messages=given) for _ in range(3)), engine.push(given))
    assert sorted(answer.duplicate for [answer] in answers) == [False, True, True, True]
    assert len({answer.id for [answer] in answers}) == 1
    assert await segments(connection, "bills") == 1


async def test_a_queue_deleted_under_the_cache_is_created_again(engine, popped):
    await engine.push(messages("bills", 1, ids=["a"]) + messages("mails", 1))
    await engine.admin.delete_queue("bills")
    await engine.admin.delete_queue("mails")
    answers = await engine.transaction(
        completed(popped.messages), messages("bills", 2, ids=["a"]) + messages("mails", 2)
    )
    assert [(answer.offset, answer.duplicate) for answer in answers] == [(0, False), (0, False)]


async def test_a_required_lease_that_is_held_lets_the_transaction_through(engine, popped):
    await engine.transaction(messages=messages("bills", 1), required_leases=[lease_id(popped)])
    assert values(await pop(engine, "bills")) == [1]
    assert all(answer.accepted for answer in await ack(engine, popped))


async def test_a_required_lease_that_is_gone_stops_the_transaction(engine, connection, popped):
    with pytest.raises(LeaseGone):
        await engine.transaction(
            completed(popped.messages), messages("bills", 1), required_leases=[lease_id(popped), uuid4()]
        )
    assert await segments(connection, "bills") == 0
    assert all(answer.accepted for answer in await ack(engine, popped))


async def test_a_lease_of_several_partitions_is_acknowledged_as_one(engine):
    for name in "abc":
        await engine.push(messages("orders", name, partition=name))
    popped = await pop(engine, "orders", batch=9, max_partitions=3)
    await engine.transaction(completed(popped.messages), messages("orders", "d", partition="a"))
    assert values(await pop(engine, "orders", batch=9)) == ["d"]


async def test_transactions_that_cross_do_not_hold_each_other_up(engine):
    """Each acknowledges in one queue and pushes to the other's."""
    await engine.push([each for q in "ab" for n in range(20) for each in messages(q, n, partition=str(n))])

    async def move(source, target):
        for _ in range(20):
            popped = await pop(engine, source, group="movers")
            partition = popped.leases[0].partition
            await engine.transaction(completed(popped.messages), messages(target, "moved", partition=partition))

    await asyncio.gather(move("a", "b"), move("b", "a"))
    assert len(await engine.admin.list_messages("a")) == len(await engine.admin.list_messages("b")) == 40


async def test_polls_are_woken_by_what_a_transaction_pushes_and_by_what_it_frees(open_engine):
    engine = await open_engine(poll_interval_min_ms=HOUR_MS, poll_interval_max_ms=HOUR_MS)
    await engine.push(messages("orders", 1, 2))
    first = await pop(engine, "orders")
    freed, pushed = [asyncio.create_task(pop(engine, queue, wait_seconds=50)) for queue in ("orders", "bills")]
    await parked(engine, 2)
    await engine.transaction(completed(first.messages), messages("bills", 3))
    assert (values(await freed), values(await pushed)) == ([2], [3])


async def test_what_a_transaction_pushed_is_read_from_memory(engine):
    await engine.transaction(messages=messages("bills", 1))
    assert values(await pop(engine, "bills")) == [1]
    assert (engine.segments.hits, engine.segments.misses) == (1, 0)
