"""Ack, renew, release: what a consumer says of its messages, and that it can only speak for its own."""

import asyncio
import math
from uuid import uuid4

import msgspec
import pytest

from queenmq.engine.ack.acker import _ranges, completed
from queenmq.errors import InvalidArgument, InvalidStatus, LeaseGone
from queenmq.model import Ack, Acked
from tests.engine.shorthand import ack, lease_id, messages, most_blocked, pop, until, until_asked, values

pytestmark = pytest.mark.every_postgres

GONE = Acked(False, error="LEASE_GONE")
FOREIGN = Acked(False, error="NOT_IN_LEASE")
KEPT = Acked(True)
RELEASED = Acked(True, released=True)


@pytest.fixture
async def popped(engine):
    """Five messages in one lease."""
    await engine.admin.configure_queue("orders", retry_delay_ms=0, retry_limit=1)
    await engine.push(messages("orders", *range(5)))
    return await pop(engine, "orders", batch=5)


def acks(popped, *offsets, status="completed", error=None):
    return [Ack.of(popped.messages[offset], status, error) for offset in offsets]


async def together(engine, connection, *requests):
    """Acks that share one call: they gather while the first is held up. Answers and errors in their order."""
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("lock table queen.partition_consumers in share mode")
    busy = [
        asyncio.create_task(engine.ack([Ack(1 << 30, 1, uuid4(), n)])) for n in range(engine._settings.ack_calls_max)
    ]
    await until_asked(lambda: connection.fetchval("select count(*) > 0 from pg_locks where not granted"))
    before = engine.acker.batcher.batches
    asked = [asyncio.create_task(engine.ack(request)) for request in requests]
    await until(lambda: engine.acker.batcher.requests == len(busy) + len(requests))
    await transaction.rollback()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    await asyncio.gather(*busy)
    return answers, engine.acker.batcher.batches - before


@pytest.mark.parametrize(
    ("offsets", "ranges"),
    [
        ([], []),
        ([3], [(3, 4)]),
        ([0, 1, 2], [(0, 3)]),
        ([2, 0, 1], [(0, 3)]),
        ([0, 2, 3, 7], [(0, 1), (2, 4), (7, 8)]),
        ([1, 1, 1], [(1, 2)]),
    ],
)
def test_offsets_become_ranges(offsets, ranges):
    assert _ranges(offsets) == ranges


async def test_the_whole_batch_ends_the_lease_and_moves_on(engine, popped):
    assert await ack(engine, popped) == [RELEASED] * 5
    assert values(await pop(engine, "orders", batch=9)) == []
    [line] = await engine.admin.ledger("orders")
    assert (line.completed, line.pending, line.leased) == (5, 0, 0)


async def test_an_ack_of_nothing_is_answered_with_nothing(engine):
    assert await engine.ack([]) == []


async def test_a_part_of_the_batch_keeps_the_lease_for_the_rest(engine, popped):
    assert await engine.ack(acks(popped, 0, 1)) == [KEPT] * 2
    assert values(await pop(engine, "orders")) == []
    assert await engine.ack(acks(popped, 2, 3, 4)) == [RELEASED] * 3


async def test_acks_out_of_order_lose_and_repeat_nothing(engine, popped):
    assert await engine.ack(acks(popped, 4)) == [KEPT]
    assert await engine.ack(acks(popped, 2, 1)) == [KEPT] * 2
    assert await engine.release(lease_id(popped))
    again = await pop(engine, "orders", batch=9)
    assert values(again) == [0, 3]
    assert await ack(engine, again) == [RELEASED] * 2


async def test_the_last_message_alone_does_not_lose_the_others(engine, popped):
    await engine.ack(acks(popped, 4))
    await engine.release(lease_id(popped))
    assert values(await pop(engine, "orders", batch=9)) == [0, 1, 2, 3]


async def test_an_ack_said_twice_is_accepted_twice_and_counted_once(engine, popped):
    assert await engine.ack(acks(popped, 0, 0)) == [KEPT] * 2
    assert await engine.ack(acks(popped, 0)) == [KEPT]
    [line] = await engine.admin.ledger("orders")
    assert line.completed == 1


async def test_an_offset_outside_the_lease_is_refused_and_the_others_are_not(engine, popped):
    foreign = msgspec.structs.replace(acks(popped, 0)[0], offset=5)
    assert await engine.ack([foreign, *acks(popped, 0)]) == [FOREIGN, KEPT]
    assert await engine.ack([msgspec.structs.replace(foreign, status="failed")]) == [FOREIGN]


async def test_a_lease_that_nobody_has_is_gone(engine, popped):
    [one] = acks(popped, 0)
    unknown = [
        msgspec.structs.replace(one, lease_id=uuid4()),
        msgspec.structs.replace(one, partition_id=1 << 30),
        msgspec.structs.replace(one, group_id=1 << 30),
    ]
    assert await engine.ack([unknown[0], one, *unknown[1:]]) == [GONE, KEPT, GONE, GONE]


async def test_one_whose_lease_has_expired_cannot_move_the_cursor(engine):
    await engine.push(messages("orders", 1))
    late = await pop(engine, "orders", lease_seconds=0.001)
    current = await pop(engine, "orders", wait_seconds=10)
    assert await ack(engine, late) == [GONE]
    assert await ack(engine, late, "failed") == [GONE]
    assert await ack(engine, current) == [RELEASED]


async def test_any_consumer_may_acknowledge_with_the_lease(open_engine, popped):
    another = await open_engine()
    assert await ack(another, popped) == [RELEASED] * 5


async def test_a_failed_message_comes_back_in_order_and_is_dead_past_its_limit(engine, popped):
    await engine.ack(acks(popped, 0, 1, 3, 4))
    assert await engine.ack(acks(popped, 2, status="failed", error="first")) == [RELEASED]
    again = await pop(engine, "orders", batch=9)
    assert values(again) == [2]
    assert again.messages[0].retry_count == 1
    assert await ack(engine, again, "failed", "second") == [Acked(True, released=True, dead_lettered=True)]
    [letter] = await engine.admin.list_dead_letters("orders")
    assert (letter.offset, letter.error, letter.retry_count) == (2, "second", 1)


async def test_a_retry_comes_back_without_being_counted(engine, popped):
    for _ in range(3):
        assert await ack(engine, popped, "retry") == [RELEASED] * 5
        popped = await pop(engine, "orders", batch=9)
        assert [message.retry_count for message in popped.messages] == [0] * 5


async def test_a_message_sent_to_the_dead_letters_is_there_at_once(engine, popped):
    answers = await engine.ack(acks(popped, 1, status="dlq", error="poison") + acks(popped, 0, 2, 3, 4))
    assert [answer.dead_lettered for answer in answers] == [True, False, False, False, False]
    [letter] = await engine.admin.list_dead_letters("orders")
    assert (letter.offset, letter.error, letter.payload) == (1, "poison", b"1")


async def test_every_status_in_one_call_gets_its_own_answer(engine, popped):
    answers = await engine.ack(
        [*acks(popped, 0), *acks(popped, 1, status="dlq"), *acks(popped, 2, status="failed"), *acks(popped, 3, 4)]
    )
    assert answers == [RELEASED, Acked(True, True, True), RELEASED, RELEASED, RELEASED]
    assert values(await pop(engine, "orders", batch=9)) == [2]


@pytest.mark.parametrize("status", ["done", "", "COMPLETED", None])
async def test_an_unknown_status_is_refused_and_changes_nothing(engine, popped, status):
    with pytest.raises(InvalidStatus):
        await engine.ack([*acks(popped, 0), *acks(popped, 1, status=status)])
    assert values(popped) == list(range(5))
    assert await ack(engine, popped) == [RELEASED] * 5


@pytest.mark.parametrize("offset", [-1, 1 << 40, 1 << 70])
async def test_what_is_no_offset_is_refused(engine, popped, offset):
    with pytest.raises(InvalidArgument):
        await engine.ack([msgspec.structs.replace(acks(popped, 0)[0], offset=offset)])


async def test_an_error_text_is_kept_as_far_as_postgresql_can(engine, popped):
    texts = ["a\x00b", "x" * 20_000, "ä🎺", None, "\ud800 lone"]
    await engine.ack([each for n, text in enumerate(texts) for each in acks(popped, n, status="dlq", error=text)])
    letters = {letter.offset: letter.error for letter in await engine.admin.list_dead_letters("orders")}
    assert letters == {0: "ab", 1: "x" * 10_000, 2: "ä🎺", 3: None, 4: "? lone"}


async def test_callers_of_one_lease_share_a_call_and_each_gets_its_own_answer(engine, connection, popped):
    foreign = [msgspec.structs.replace(acks(popped, 0)[0], offset=77)]
    stale = [msgspec.structs.replace(acks(popped, 0)[0], lease_id=uuid4())]
    requests = [acks(popped, 0, 1), foreign, acks(popped, 4), stale, acks(popped, 2, 3)]
    answers, batches = await together(engine, connection, *requests)
    assert batches == 1
    assert answers == [[RELEASED] * 2, [FOREIGN], [RELEASED], [GONE], [RELEASED] * 2]


async def test_a_whole_lease_and_a_part_of_another_share_a_call(engine, connection, popped):
    await engine.push(messages("others", 1, 2, 3))
    other = await pop(engine, "others", batch=3)
    answers, batches = await together(engine, connection, acks(popped, 0, 2), acks(other, 0, 1, 2))
    assert batches == 1
    assert answers == [[KEPT] * 2, [RELEASED] * 3]
    [part], [whole] = await engine.admin.ledger("orders"), await engine.admin.ledger("others")
    assert (part.completed, part.leased, part.balanced) == (2, 3, True)
    assert (whole.completed, whole.leased, whole.pending, whole.balanced) == (3, 0, 0, True)


async def test_a_bad_request_is_refused_alone(engine, connection, popped):
    bad = [msgspec.structs.replace(acks(popped, 1)[0], partition_id=1 << 70)]
    answers, _ = await together(engine, connection, acks(popped, 0), bad, acks(popped, 2))
    assert isinstance(answers[1], InvalidArgument)
    assert [answers[0], answers[2]] == [[KEPT], [KEPT]]


async def test_two_callers_who_disagree_about_a_message_do_not_lose_it(engine, connection, popped):
    failed = acks(popped, 0, status="failed")
    (first, second), _ = await together(engine, connection, acks(popped, *range(5)), failed)
    assert all(answer.accepted for answer in [*first, *second])
    [line] = await engine.admin.ledger("orders")
    assert (line.completed + line.pending, line.balanced) == (5, True)


async def test_acks_that_come_together_share_calls(engine):
    await engine.push([each for n in range(50) for each in messages("orders", n, partition=str(n))])
    leases = await asyncio.gather(*(pop(engine, "orders") for _ in range(50)))
    answers = await asyncio.gather(*(ack(engine, each) for each in leases))
    assert answers == [[RELEASED]] * 50
    assert engine.acker.batcher.batches <= 5


@pytest.mark.parametrize("calls", [1, 3])
async def test_only_so_many_acks_are_in_flight_as_the_setting_allows(open_engine, connection, calls, monkeypatch):
    monkeypatch.setattr("queenmq.engine.ack.acker.MESSAGES_MAX", 1)
    engine = await open_engine(ack_calls_max=calls)
    await engine.push([each for n in range(8) for each in messages("orders", n, partition=str(n))])
    leases = [await pop(engine, "orders") for _ in range(8)]
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("lock table queen.partition_consumers in access exclusive mode")
    acking = [asyncio.create_task(ack(engine, each)) for each in leases]
    seen = await most_blocked(connection, calls)
    await transaction.rollback()
    assert await asyncio.gather(*acking) == [[RELEASED]] * 8
    assert seen == calls


async def test_completed_is_the_ack_of_everything_delivered(engine, popped):
    assert completed(popped.messages) == acks(popped, *range(5))


# -- renew and release


async def test_a_renewed_lease_lasts_as_long_as_asked_or_as_the_queue_says(engine, connection, popped):
    id = lease_id(popped)
    by_request, by_queue = await engine.renew(id, 1_000), await engine.renew(id)
    now = await connection.fetchval("select clock_timestamp()")
    assert 990 < (by_request - now).total_seconds() <= 1_000
    assert 290 < (by_queue - now).total_seconds() <= 300


async def test_a_lease_of_several_partitions_is_renewed_as_one(engine, connection):
    for name in "abc":
        await engine.push(messages("orders", 1, partition=name))
    popped = await pop(engine, "orders", batch=9, max_partitions=3)
    await engine.renew(lease_id(popped), 5_000)
    rows = await connection.fetch("select distinct ready_at from queen.partition_consumers")
    assert len(rows) == 1


async def test_a_lease_that_is_gone_cannot_be_renewed_and_its_neighbours_can(engine, popped):
    id = lease_id(popped)
    answers = await asyncio.gather(engine.renew(id), engine.renew(uuid4()), engine.renew(id, 1), return_exceptions=True)
    assert isinstance(answers[1], LeaseGone)
    assert answers[0] == answers[2]
    await ack(engine, popped)
    with pytest.raises(LeaseGone):
        await engine.renew(id)


async def test_a_lease_is_renewed_again_and_again(engine, popped):
    expiries = [await engine.renew(lease_id(popped), 100 + n) for n in range(20)]
    assert expiries == sorted(expiries)


async def test_renewals_that_come_together_share_a_call(engine):
    await engine.push([each for n in range(20) for each in messages("orders", n, partition=str(n))])
    leases = await asyncio.gather(*(pop(engine, "orders") for _ in range(20)))
    await asyncio.gather(*(engine.renew(lease_id(each), 60) for each in leases))
    assert engine.acker.renewals.batches <= 2


@pytest.mark.parametrize("seconds", [0, -1, math.nan, math.inf, 604_801])
async def test_a_renewal_that_makes_no_sense_is_refused(engine, popped, seconds):
    with pytest.raises(InvalidArgument):
        await engine.renew(lease_id(popped), seconds)


async def test_a_released_lease_is_as_if_it_had_never_been(engine, popped):
    assert await engine.release(lease_id(popped))
    assert not await engine.release(lease_id(popped))
    again = await pop(engine, "orders", batch=9)
    assert values(again) == list(range(5))
    assert [message.retry_count for message in again.messages] == [0] * 5
    assert await ack(engine, popped) == [GONE] * 5
