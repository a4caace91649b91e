"""Duplicates: the same id is stored once, whoever pushed it first, however long ago, and whoever has forgotten."""

import asyncio
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from queenmq.engine.dedup import duplicate_lookup as originals
from queenmq.engine.dedup import partition_ids as recent_ids
from queenmq.engine.push import pusher as push
from queenmq.model import Outgoing
from tests.engine.shorthand import (
    ack,
    messages,
    most_blocked,
    pop,
    push_silently,
    push_together,
    until,
    until_asked,
    values,
)

pytestmark = pytest.mark.every_postgres

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def given(*ids, partition="Default", queue="orders"):
    """One message per id; its value is the id."""
    return messages(queue, *ids, partition=partition, ids=ids)


async def stored(connection, queue="orders"):
    """The ids in the log, in order."""
    rows = await connection.fetch(
        'select transaction_id from queen.messages where queue = $1 order by partition, "offset"', queue
    )
    return [row[0] for row in rows]


def assert_same(duplicate, original):
    assert duplicate.duplicate
    assert not original.duplicate
    assert (duplicate.id, duplicate.offset, duplicate.created_at) == (original.id, original.offset, original.created_at)
    assert duplicate.transaction_id == original.transaction_id


# -- one engine


async def test_the_second_push_of_an_id_is_answered_with_the_first(engine, connection):
    [original] = await engine.push(given("a"))
    [duplicate] = await engine.push([Outgoing("orders", b'"another payload"', "Default", "a")])
    assert_same(duplicate, original)
    assert await stored(connection) == ["a"]


async def test_the_same_id_twice_in_one_request_is_stored_once(engine, connection):
    answers = await engine.push(given("a", "b", "a", "c", "a"))
    assert [answer.duplicate for answer in answers] == [False, False, True, False, True]
    assert_same(answers[2], answers[0])
    assert_same(answers[4], answers[0])
    assert await stored(connection) == ["a", "b", "c"]
    assert values(await pop(engine, "orders", batch=9)) == ["a", "b", "c"]


async def test_the_same_id_twice_among_thousands_in_one_request_is_stored_once(engine):
    ids = [str(n) for n in range(3_000)]
    answers = await engine.push(given(*ids, "7", "2999"))
    assert_same(answers[3_000], answers[7])
    assert_same(answers[3_001], answers[2_999])


async def test_the_same_id_in_requests_that_travel_together_is_stored_once(engine, connection):
    answers = await push_together(engine, connection, given("a", "b"), given("b", "c"), given("a"))
    assert [[each.duplicate for each in answer] for answer in answers] == [[False, False], [True, False], [True]]
    assert_same(answers[1][0], answers[0][1])
    assert_same(answers[2][0], answers[0][0])
    assert await stored(connection) == ["a", "b", "c"]


async def test_an_id_belongs_to_its_partition(engine, connection):
    answers = await engine.push(given("a") + given("a", partition="ann") + given("a", queue="bills"))
    assert not any(answer.duplicate for answer in answers)
    assert await stored(connection) == ["a", "a"]


async def test_messages_without_an_id_are_never_duplicates(engine):
    answers = await engine.push(messages("orders", 1, 1) + given("a") + messages("orders", 1))
    assert not any(answer.duplicate for answer in answers)
    assert len({answer.transaction_id for answer in answers}) == 4


async def test_a_request_of_duplicates_alone_writes_nothing(engine, connection):
    await engine.push(given("a", "b"))
    answers = await engine.push(given("b", "a"))
    assert [(answer.duplicate, answer.offset) for answer in answers] == [(True, 1), (True, 0)]
    assert await connection.fetchval("select next_offset from queen.partition_lookup") == 2


async def test_a_request_of_duplicates_alone_shares_a_call_with_one_that_is_new(engine, connection):
    await engine.push(given("a", "b"))
    [new], duplicates = await push_together(engine, connection, given("c"), given("b", "a"))
    assert (new.duplicate, new.offset) == (False, 2)
    assert [(answer.duplicate, answer.offset) for answer in duplicates] == [(True, 1), (True, 0)]


async def test_an_id_in_flight_in_one_call_decides_about_the_same_id_in_another(open_engine, connect, connection):
    engine = await open_engine(push_calls_max=2)
    await engine.push(given("x") + given("x", partition="ann"))
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("select from queen.partition_lookup order by partition_id limit 1 for update")
    first = asyncio.create_task(engine.push(given("a")))
    watcher = await connect()
    await until_asked(lambda: watcher.fetchval("select count(*) from pg_locks where not granted"))
    second = asyncio.create_task(engine.push(given("a") + given("b", partition="ann")))
    await transaction.rollback()
    [original], [duplicate, other] = await asyncio.gather(first, second)
    assert_same(duplicate, original)
    assert not other.duplicate
    assert await stored(connection) == ["x", "a", "x", "b"] or await stored(connection) == ["x", "b", "x", "a"]


@pytest.mark.parametrize("id", ["theirs", "own", "new"])
async def test_a_flush_that_was_ready_before_others_came_back_is_compared_with_all_of_them(
    open_engine, connect, connection, id
):
    """It goes out when ours has come back, which may have been told of ids that it was never compared with."""
    engine, another = await open_engine(push_calls_max=1, push_messages_max=1), await open_engine()
    await engine.push(given("x"))
    await another.push(given("y"))
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("select from queen.partition_lookup for update")
    watcher = await connect()
    pushes = []
    for number, (pusher, own) in enumerate([(another, "theirs"), (engine, "own")], 1):
        pushes.append(asyncio.create_task(pusher.push(given(own))))
        await most_blocked(watcher, number)
    pushes.append(asyncio.create_task(engine.push(given(id))))
    if id != "own":  # that one waits for it, before it is ready
        await until(lambda: len(engine.history.memory.dedup.claims) == 2)
    await transaction.rollback()
    theirs, own, [ready] = await asyncio.gather(*pushes)
    assert not theirs[0].duplicate
    assert not own[0].duplicate
    if id == "new":
        assert not ready.duplicate
    else:
        assert_same(ready, {"theirs": theirs, "own": own}[id][0])
    assert await stored(connection) == ["x", "y", "theirs", "own", *(["new"] if id == "new" else [])]


async def test_a_call_that_failed_decides_nothing(open_engine, connect, connection):
    engine = await open_engine(push_calls_max=2, lock_timeout_ms=200)
    await engine.push(given("x"))
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("select from queen.partition_lookup for update")
    first = asyncio.create_task(engine.push(given("a")))
    watcher = await connect()
    await until_asked(lambda: watcher.fetchval("select count(*) from pg_locks where not granted"))
    second = asyncio.create_task(engine.push(given("a")))
    assert (await asyncio.gather(first, return_exceptions=True))[0].retryable
    await transaction.rollback()
    assert not (await second)[0].duplicate
    assert await stored(connection) == ["x", "a"]


async def test_ids_that_were_packed_are_recognised(open_engine, connection, monkeypatch):
    monkeypatch.setattr(recent_ids, "FRESH_IDS_MAX", 3)
    engine = await open_engine()
    originals = [(await engine.push(given(str(n))))[0] for n in range(20)]
    for n in range(20):
        [duplicate] = await engine.push(given(str(n)))
        assert_same(duplicate, originals[n])
    assert len(await stored(connection)) == 20


async def test_a_hash_that_means_nothing_is_only_a_suspicion(open_engine, monkeypatch):
    monkeypatch.setattr(recent_ids, "FRESH_IDS_MAX", 1)
    monkeypatch.setattr(recent_ids, "_hashes", lambda ids: np.zeros(len(ids), dtype=np.uint64))
    engine = await open_engine()
    for n in range(10):
        assert not (await engine.push(given(str(n))))[0].duplicate
    assert (await engine.push(given("4")))[0].duplicate


@pytest.mark.parametrize("count", [1, 5])
async def test_ids_of_partitions_that_were_forgotten_are_recognised(open_engine, connection, count):
    engine = await open_engine(dedup_bytes_max=0)
    names = [str(n) for n in range(5)]
    for name in names:
        await engine.push(given("a", "b", partition=name))
    together = [each for name in names[:count] for each in given("b", "c", partition=name)]
    answers = await engine.push(together)
    assert [answer.duplicate for answer in answers] == [True, False] * count
    assert [answer.offset for answer in answers] == [1, 2] * count


async def test_remembering_costs_memory_and_saves_calls(open_engine):
    remembering, forgetting = await open_engine(), await open_engine(dedup_bytes_max=0)
    made = []
    for queue, engine in (("r", remembering), ("f", forgetting)):
        for partition in "ab":
            await engine.push(given("x", queue=queue, partition=partition))
        before = engine.database.calls
        for n in range(5):
            for partition in "ab":
                await engine.push(given(str(n), queue=queue, partition=partition))
        made.append(engine.database.calls - before)
    assert made[0] <= 12  # ten pushes, and perhaps a notification that new partitions are there
    assert made[1] > 15


async def test_ids_are_recognised_after_a_restart(open_engine):
    engine = await open_engine()
    originals = await engine.push(given("a", "b"))
    await engine.close()
    engine = await open_engine()
    duplicate, fresh = await engine.push(given("b", "c"))
    assert_same(duplicate, originals[1])
    assert (fresh.offset, fresh.duplicate) == (2, False)


async def test_a_limit_of_attempts_is_not_reached_by_what_one_call_can_tell(open_engine, monkeypatch):
    monkeypatch.setattr(push, "ATTEMPTS_MAX", 4)
    engine = await open_engine(dedup_bytes_max=0)
    names = [str(n) for n in range(10)]
    await engine.push([each for name in names for each in given("a", partition=name)])
    answers = await engine.push([each for name in names for each in given("a", partition=name)])
    assert all(answer.duplicate for answer in answers)


# -- the window's end


async def age(connection, seconds):
    by = timedelta(seconds=seconds)
    await connection.execute("update queen.segments set created_at = created_at - $1::interval", by)
    await connection.execute("update queen.partition_lookup set last_message_at = last_message_at - $1::interval", by)


async def test_an_id_is_accepted_again_after_the_window_and_then_once(open_engine, connection):
    writer, engine = await open_engine(), await open_engine()
    await writer.admin.configure_queue("orders", dedup_window_seconds=60)
    await writer.push(given("a"))
    await age(connection, 61)
    [again] = await engine.push(given("a"))
    assert (again.offset, again.duplicate) == (1, False)
    [duplicate] = await engine.push(given("a"))
    assert_same(duplicate, again)


async def test_an_engine_that_saw_an_id_leave_the_window_accepts_it_again_once(open_engine, connection, monkeypatch):
    engine = await open_engine()
    await engine.admin.configure_queue("orders", dedup_window_seconds=60)
    await engine.push(given("a"))
    await age(connection, 61)
    monkeypatch.setattr(originals, "datetime", clock_ahead(seconds=61))
    [again] = await engine.push(given("a"))
    assert (again.offset, again.duplicate) == (1, False)
    monkeypatch.undo()
    [duplicate] = await engine.push(given("a"))
    assert_same(duplicate, again)


async def test_a_clock_that_is_wrong_lets_no_duplicate_in(open_engine, connection, monkeypatch):
    engine = await open_engine()
    [original] = await engine.push(given("a"))
    monkeypatch.setattr(originals, "datetime", clock_ahead(days=3))
    [duplicate] = await engine.push(given("a"))
    assert_same(duplicate, original)
    assert await stored(connection) == ["a"]


def clock_ahead(**by):
    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(**by)

    return Clock


async def test_a_window_of_zero_stores_everything(engine, connection):
    await engine.admin.configure_queue("orders", dedup_window_seconds=0)
    answers = [*await engine.push(given("a", "a")), *await engine.push(given("a"))]
    assert [(answer.offset, answer.duplicate) for answer in answers] == [(0, False), (1, False), (2, False)]
    assert await stored(connection) == ["a", "a", "a"]


async def test_ids_that_came_while_there_was_no_window_count_when_there_is_one_again(engine, connection):
    await engine.push(given("a"))
    for seconds, ids in ((0, ["b", "a"]), (60, ["a", "b", "c"])):
        await engine.admin.configure_queue("orders", dedup_window_seconds=seconds)
        await engine.history.memory.partitions.refresh()
        pushed = await engine.push(given(*ids))
    assert [each.duplicate for each in pushed] == [True, True, False]
    assert await stored(connection) == ["a", "b", "a", "c"]


# -- several writers


async def test_two_engines_store_an_id_once(open_engine, connection):
    alice, bob = await open_engine(), await open_engine()
    [original] = await alice.push(given("a"))
    await bob.push(given("b"))
    duplicate, fresh = await bob.push(given("a", "c"))
    assert_same(duplicate, original)
    assert not fresh.duplicate
    [late] = await alice.push(given("c"))
    assert_same(late, fresh)
    assert await stored(connection) == ["a", "b", "c"]


async def test_engines_that_push_the_same_ids_at_once_store_each_once_and_agree(open_engine, connection):
    engines = [await open_engine(dedup_bytes_max=size) for size in (0, 10_000, 67_108_864)]
    ids = [str(n) for n in range(40)]

    async def push_all(engine, order):
        answers = {}
        for n in range(0, 40, 4):
            chosen = order[n : n + 4]
            answers |= zip(chosen, await engine.push(given(*chosen)), strict=True)
        return answers

    orders = [ids, ids[::-1], ids[20:] + ids[:20]]
    told = await asyncio.gather(*map(push_all, engines, orders))
    assert sorted(await stored(connection), key=int) == ids
    for id in ids:
        answers = [answers[id] for answers in told]
        assert len({answer.id for answer in answers}) == 1
        assert [answer.duplicate for answer in answers].count(False) == 1


async def test_ids_pushed_by_plain_sql_are_recognised(engine, connection):
    [original] = await engine.push(given("a"))
    await push_silently(connection, original.partition_id, "no id")
    await connection.execute("select queen.push('orders', '1', 'Default', 'from sql')")
    await connection.execute("select queen.sequence_inbox()")
    [duplicate] = await engine.push(given("from sql"))
    assert (duplicate.duplicate, duplicate.offset) == (True, 2)
    await connection.execute("select queen.push('orders', '1', 'Default', 'a')")
    await connection.execute("select queen.sequence_inbox()")
    assert await connection.fetchval("select next_offset from queen.partition_lookup") == 3


# -- deleted in between


@pytest.mark.parametrize("delete", ["queue('orders')", "partition('orders', 'Default')"])
async def test_an_id_of_a_deleted_partition_is_new(engine, connection, delete):
    await engine.push(given("a") + given("a", queue="bills"))
    await connection.execute(f"select queen.delete_{delete}")
    gone, kept = await engine.push(given("a") + given("a", queue="bills"))
    assert (gone.offset, gone.duplicate) == (0, False)
    assert (kept.offset, kept.duplicate) == (0, True)
    assert values(await pop(engine, "orders", batch=9)) == ["a"]


async def test_an_id_stays_taken_when_its_message_was_read(engine):
    await engine.push(given("a"))
    await ack(engine, await pop(engine, "orders"))
    assert (await engine.push(given("a")))[0].duplicate


@pytest.mark.parametrize(("bytes_max", "fresh_max"), [(0, 0), (67_108_864, 1), (67_108_864, 4_096)])
async def test_of_an_id_that_is_stored_twice_the_first_is_told(open_engine, monkeypatch, bytes_max, fresh_max):
    """As it may be where the queue had no window for a while; whether we know both, one by its hash, or none."""
    monkeypatch.setattr(recent_ids, "FRESH_IDS_MAX", fresh_max)
    engine = await open_engine()
    await engine.admin.configure_queue("orders", dedup_window_seconds=0)
    first, _ = await engine.push(given("a", "b"))
    [second] = await engine.push(given("a"))
    assert (first.offset, second.offset) == (0, 2)
    await engine.admin.configure_queue("orders", dedup_window_seconds=3600)
    [duplicate] = await (await open_engine(dedup_bytes_max=bytes_max)).push(given("a"))
    assert_same(duplicate, first)
