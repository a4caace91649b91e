"""Push: order, answers, what is refused, and that nobody suffers for a neighbour."""

import asyncio
import json
from uuid import UUID

import pytest

from queenmq.engine.push import push_request as requests
from queenmq.engine.push import pusher as push
from queenmq.errors import InvalidName, InvalidPayload, PayloadTooLarge, QueueFull
from queenmq.model import Outgoing, Payloads
from tests.engine.shorthand import ack, messages, pop, push_together, values

pytestmark = pytest.mark.every_postgres

EVERYTHING = 'select queue, partition, "offset", id, transaction_id, created_at, producer from queen.messages'


async def test_messages_come_out_in_the_order_they_went_in(engine):
    await engine.push(messages("orders", *range(10)))
    for n in range(10, 20):
        await engine.push(messages("orders", n))
    await engine.push(messages("orders", *range(20, 30)))
    assert values(await pop(engine, "orders", batch=30)) == list(range(30))


def array(queue, values, partition="ann", **others):
    return Payloads(queue, partition, json.dumps(values).encode(), **others)


async def test_arrays_of_several_callers_and_messages_among_them_keep_their_order(engine, connection):
    given = [
        array("orders", [f"a{n}" for n in range(600)]),
        messages("orders", "b0", "b1", partition="ann"),
        array("orders", [f"c{n}" for n in range(requests.WHOLE_MESSAGES_MIN)], transaction_id="c", producer="carl"),
        array("orders", ["d0", "d1", "d2"]),
        array("orders", [f"e{n}" for n in range(999)], partition="bob"),
        array("bills", [f"f{n}" for n in range(1_001)]),
        messages("orders", "g0", partition="bob", ids=["g"]),
    ]
    given.insert(0, messages("orders", "before", partition="bob"))
    answers = await push_together(engine, connection, *given)
    assert [len(each) for each in answers] == [1, 600, 2, requests.WHOLE_MESSAGES_MIN, 3, 999, 1_001, 1]
    stored = {row["id"]: row for row in await connection.fetch("select * from queen.messages")}
    assert len(stored) == sum(map(len, given)) + engine._settings.push_calls_max  # that held them up
    last: dict[int, int] = {}  # by partition
    for request, told in zip(given, answers, strict=True):
        assert [each.offset for each in told] == sorted(each.offset for each in told)
        assert told[0].offset > last.get(told[0].partition_id, -1)  # who came first is first
        last[told[0].partition_id] = told[-1].offset
        for message, each in zip(request, told, strict=True):
            row = stored[each.id]
            assert (row["queue"], row["partition"]) == (message.queue, message.partition)
            assert (row["producer"], json.loads(row["payload"])) == (message.producer, json.loads(message.payload))
            assert (row["transaction_id"], each.transaction_id) == (each.transaction_id, row["transaction_id"])
            assert message.transaction_id in (None, each.transaction_id)


async def test_an_array_that_was_pushed_before_is_not_stored_again_whoever_is_beside_it(engine, connection):
    again = array("orders", list(range(600)), transaction_id="t")
    others = [array("orders", list(range(600, 1_200))), again, array("orders", [1], transaction_id="t")]
    await engine.push(again)
    answers = await push_together(engine, connection, *others)
    assert [{each.duplicate for each in told} for told in answers] == [{False}, {True}, {True}]
    assert [each.offset for each in answers[1]] == list(range(600))
    assert [each.offset for each in answers[0]] == list(range(600, 1_200))


async def test_the_answer_says_where_each_message_is_as_the_database_sees_it(engine, connection):
    given = [
        *messages("orders", 1, 2, partition="ann"),
        *messages("orders", 3, partition="bob"),
        *messages("bills", 4, ids=["b-4"]),
        *messages("orders", 5, partition="ann"),
    ]
    answers = await engine.push(given)
    stored = {row["id"]: row for row in await connection.fetch(EVERYTHING)}
    assert [answer.offset for answer in answers] == [0, 1, 0, 0, 2]
    for message, answer in zip(given, answers, strict=True):
        row = stored[answer.id]
        assert (row["queue"], row["partition"]) == (message.queue, message.partition)
        assert (row["offset"], row["created_at"]) == (answer.offset, answer.created_at)
        assert row["transaction_id"] == answer.transaction_id
        assert not answer.duplicate
        position = await connection.fetchrow("select * from queen.message_position($1)", answer.id)
        assert tuple(position) == (answer.partition_id, answer.offset)


async def test_message_ids_are_those_of_the_database(engine, connection):
    answers = await engine.push(messages("orders", *range(3)))
    for answer in answers:
        named = (answer.created_at, answer.partition_id, answer.offset)
        assert answer.id == await connection.fetchval("select queen.message_id($1, $2, $3)", *named)


async def test_a_push_of_nothing_is_answered_with_nothing(engine):
    assert await engine.push([]) == []


async def test_who_names_no_partition_gets_the_default_one(engine, connection):
    await engine.push([Outgoing("orders", b"1")])
    assert await connection.fetchval("select name from queen.partitions") == "Default"


async def test_a_batch_is_stored_whole_or_not_at_all(engine, connection):
    await engine.admin.configure_queue("small", max_queue_size=2)
    with pytest.raises(QueueFull):
        await engine.push(messages("orders", 1) + messages("small", 1, 2, 3) + messages("bills", 1))
    assert await connection.fetchval("select count(*) from queen.segments") == 0


async def test_many_partitions_in_one_push_keep_their_own_order(engine):
    names = [str(n % 7) for n in range(100)]
    await engine.push([each for n, name in enumerate(names) for each in messages("orders", n, partition=name)])
    for name in sorted(set(names)):
        popped = await pop(engine, "orders", partition=name, batch=100)
        assert values(popped) == [n for n in range(100) if names[n] == name]


async def test_a_segment_holds_at_most_a_thousand_messages(engine, connection):
    answers = await engine.push(messages("orders", *range(2500)))
    counts = await connection.fetch("select message_count from queen.segments order by first_offset")
    assert [row[0] for row in counts] == [1000, 1000, 500]
    assert [answer.offset for answer in answers] == list(range(2500))
    assert values(await pop(engine, "orders", batch=2500)) == list(range(2500))


async def test_a_segment_of_several_messages_holds_at_most_a_mebibyte(engine, connection):
    sizes = [400_000, 400_000, 400_000, 1_000, 2_000_000, 10, 10]
    await engine.push(messages("orders", *("x" * size for size in sizes)))
    rows = await connection.fetch("select message_count, length(payloads) as bytes from queen.segments")
    assert all(row["bytes"] <= (1 << 20) + 100 for row in rows if row["message_count"] > 1)
    assert len(rows) < len(sizes)
    assert [len(value) for value in values(await pop(engine, "orders", batch=10))] == sizes


async def test_requests_that_travel_together_share_segments_up_to_their_limits(engine, connection):
    pushes = [messages("orders", *range(n * 300, n * 300 + 300)) for n in range(5)]
    await push_together(engine, connection, *pushes)
    rows = await connection.fetch(
        "select message_count from queen.segments where queue_id = (select id from queen.queues where name = 'orders')"
    )
    assert [row[0] for row in rows] == [1000, 500]
    assert values(await pop(engine, "orders", batch=1500)) == list(range(1500))


async def test_producers_are_kept_apart_and_in_order(engine, connection):
    for producer, value in [("a", 1), ("b", 2), ("a", 3), (None, 4)]:
        await engine.push(messages("orders", value, producer=producer))
    together = [
        *messages("orders", 5, 6, partition="p", producer="a"),
        *messages("orders", 7, partition="p", producer="b"),
        *messages("orders", 8, partition="p"),
    ]
    answers = await engine.push(together)
    popped = await pop(engine, "orders", batch=4, partition="Default")
    assert [(value, m.producer) for value, m in zip(values(popped), popped.messages, strict=True)] == [
        (1, "a"), (2, "b"), (3, "a"), (4, None),
    ]  # fmt: skip
    rows = {row["id"]: row["producer"] for row in await connection.fetch(EVERYTHING)}
    assert [rows[answer.id] for answer in answers] == ["a", "a", "b", None]


async def test_a_request_of_one_partition_keeps_its_order_whoever_produced_what(engine):
    mixed = [each for n in range(6) for each in messages("orders", n, producer="ab"[n % 2])]
    await engine.push(mixed)
    assert values(await pop(engine, "orders", batch=6)) == list(range(6))


async def test_messages_that_go_to_a_partition_each_keep_all_that_was_said_of_them(open_engine):
    engine = await open_engine(segment_cache_bytes_max=0)
    given = [
        Outgoing("orders", b"1", "ann"),
        Outgoing("orders", b"2", "bob", "b-2", producer="robert"),
        Outgoing("orders", b"3", "cid", trace_id=UUID(int=3), headers={"a": "b"}),
        Outgoing("bills", b"4", "ann", "b-4"),
    ]
    answers = await engine.push(given)
    assert [answer.given_transaction_id for answer in answers] == [None, "b-2", None, "b-4"]
    assert [answer.given_transaction_id for answer in await engine.push(given[1:])] == ["b-2", None, "b-4"]
    popped = [await pop(engine, queue, batch=10, max_partitions=9) for queue in ("orders", "bills")]
    found = {bytes(message.payload): message for each in popped for message in each.messages}
    for asked in given:
        message = found[asked.payload]
        assert (message.trace_id, message.headers or None) == (asked.trace_id, asked.headers)
        assert (message.producer, message.given_transaction_id) == (asked.producer, asked.transaction_id)


async def test_a_full_queue_refuses_its_own_push_and_says_how_full_it_is(engine, connection):
    await engine.admin.configure_queue("small", max_queue_size=3)
    await engine.push(messages("small", 1, 2))
    neighbours = [messages("orders", n) for n in range(3)]
    answers = await push_together(engine, connection, *neighbours, messages("small", 3, 4), *neighbours)
    refusal = answers.pop(3)
    assert isinstance(refusal, QueueFull)
    assert (refusal.queue, refusal.depth, refusal.limit) == ("small", 2, 3)
    assert sorted(answer[0].offset for answer in answers) == list(range(6))


async def test_a_push_that_still_fits_is_not_refused_with_one_that_does_not(engine, connection):
    await engine.admin.configure_queue("small", max_queue_size=3)
    await engine.push(messages("small", 1))
    fits_not, fits = await push_together(engine, connection, messages("small", 2, 3, 4), messages("small", 5))
    assert isinstance(fits_not, QueueFull)
    assert fits[0].offset == 1


async def test_a_full_queue_takes_messages_again_when_consumers_have_caught_up(engine):
    await engine.admin.configure_queue("small", max_queue_size=1)
    await engine.push(messages("small", 1))
    await ack(engine, await pop(engine, "small"))
    assert (await engine.push(messages("small", 2)))[0].offset == 1


async def test_a_bad_push_does_not_spoil_those_that_come_with_it(engine):
    pushes = [messages("orders", 1), [Outgoing("orders", b"{")], messages("orders", 2), [Outgoing("", b"1")]]
    answers = await asyncio.gather(*map(engine.push, pushes), return_exceptions=True)
    assert [type(answer) for answer in answers] == [list, InvalidPayload, list, InvalidName]


async def test_pushes_that_come_together_share_calls(engine):
    await engine.push(messages("orders", 0))
    before = engine.pusher.batcher.batches
    await asyncio.gather(*(engine.push(messages("orders", n)) for n in range(500)))
    assert engine.pusher.batcher.batches - before <= 5
    assert sorted(values(await pop(engine, "orders", batch=501))[1:]) == list(range(500))


async def test_the_most_messages_in_one_call_is_a_setting(open_engine):
    engine = await open_engine(push_messages_max=10, push_calls_max=1)
    await engine.push(messages("orders", 0))
    before = engine.pusher.batcher.batches
    await asyncio.gather(*(engine.push(messages("orders", n, n)) for n in range(20)))
    assert engine.pusher.batcher.batches - before >= 4


async def test_pushes_of_many_bytes_do_not_travel_together(open_engine, monkeypatch):
    monkeypatch.setattr(push, "FLUSH_BYTES_MAX", 10_000)
    engine = await open_engine(push_calls_max=1)
    before = engine.pusher.batcher.batches
    await asyncio.gather(*(engine.push(messages("orders", "x" * 4_000)) for _ in range(10)))
    assert engine.pusher.batcher.batches - before >= 5


async def test_a_push_larger_than_a_call_can_be_is_refused(open_engine, monkeypatch):
    monkeypatch.setattr("queenmq.engine.push.push_request.REQUEST_BYTES_MAX", 10_000)
    engine = await open_engine()
    with pytest.raises(PayloadTooLarge):
        await engine.push(messages("orders", *("x" * 4_000 for _ in range(3))))


async def test_a_deleted_partition_begins_anew(engine):
    await engine.push(messages("orders", 1, 2, partition="ann") + messages("orders", 3, partition="bob"))
    await engine.admin.delete_partition("orders", "ann")
    ann, bob = await engine.push(messages("orders", 4, partition="ann") + messages("orders", 5, partition="bob"))
    assert (ann.offset, bob.offset) == (0, 1)
    assert values(await pop(engine, "orders", partition="ann", batch=9)) == [4]


@pytest.mark.parametrize("with_ids", [False, True])
async def test_a_deleted_queue_begins_anew_for_everybody_who_pushes_to_it(engine, connection, with_ids):
    ids = ["a"] if with_ids else ()
    await engine.push(messages("orders", 1, ids=ids) + messages("bills", 1, ids=ids))
    await engine.admin.delete_queue("orders")
    answers = await push_together(
        engine,
        connection,
        messages("orders", 2, ids=ids),
        messages("bills", 2),
        messages("orders", 3, partition="p", ids=ids),
    )
    assert [answer[0].offset for answer in answers] == [0, 1, 0]
    assert not any(answer[0].duplicate for answer in answers)


async def test_a_queue_that_is_deleted_while_others_push_is_created_again(engine):
    async def push_often(queue):
        for n in range(20):
            await engine.push(messages(queue, n, ids=[str(n)]))

    async def delete_often():
        for _ in range(20):
            await engine.admin.delete_queue("a")

    await asyncio.gather(push_often("a"), push_often("a"), push_often("b"), delete_often())
    assert len(await engine.admin.list_messages("b")) == 20


async def test_the_number_of_names_remembered_has_an_end(engine, monkeypatch):
    monkeypatch.setattr("queenmq.engine.partitions.PARTITIONS_MAX", 3)
    for n in range(6):
        await engine.push(messages("orders", n, partition=str(n)))
    await engine.push([each for n in range(6) for each in messages("orders", n, partition=str(n))])
    answers = await engine.push(messages("orders", 9, partition="5") + messages("orders", 9, partition="new"))
    assert [answer.offset for answer in answers] == [2, 0]


async def test_a_refresh_notices_deleted_queues_and_changed_settings(engine):
    await engine.push(messages("gone", 1) + messages("kept", 1, ids=["a"]))
    await engine.admin.delete_queue("gone")
    await engine.admin.configure_queue("kept", dedup_window_seconds=0)
    await engine.history.memory.partitions.refresh()
    known = {("gone", "Default"), ("kept", "Default")}
    assert engine.history.memory.partitions.unknown(known) == {("gone", "Default")}
    assert not (await engine.push(messages("kept", 2, ids=["a"])))[0].duplicate
