"""Headers: what was pushed beside a payload is what comes out beside it, on every way through the log."""

import base64
import json
import random
import sys
from itertools import count
from uuid import UUID

import pytest

from queenmq.engine.push import push_request as requests
from queenmq.engine.push import segment_builder
from queenmq.engine.reading import OffsetRead
from queenmq.errors import InvalidHeaders, PayloadTooLarge
from queenmq.model import Ack, Outgoing
from tests.engine.shorthand import ack, lease_id, messages, pop, values

TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "content-type": "text/plain"}

KEY = "k:" + base64.b64encode(b"k" * 32).decode()


def with_headers(queue, *all_headers, **others):
    """One message for each; its value is its number."""
    return [
        Outgoing(queue, str(number).encode(), headers=headers, **others) for number, headers in enumerate(all_headers)
    ]


def headers_of(popped):
    return [message.headers for message in popped.messages]


@pytest.mark.every_postgres
async def test_a_consumer_gets_the_headers_of_each_message(engine, open_engine):
    given = [TRACE, None, {"ключ": "значение 🌍 \"'\\\n"}, {}]
    await engine.push(with_headers("orders", *given))
    expected = [TRACE, {}, given[2], {}]
    assert headers_of(await pop(engine, "orders", group="of who pushed", batch=9)) == expected
    other = await open_engine()
    assert headers_of(await pop(other, "orders", group="of somebody else", batch=9)) == expected


async def test_messages_without_headers_leave_the_column_empty(engine, connection):
    await engine.push([*with_headers("orders", None, {}), *with_headers("bills", None, TRACE)])
    rows = await connection.fetch(
        "select q.name, s.headers from queen.segments s join queen.queues q on q.id = s.queue_id order by q.name"
    )
    assert [tuple(row) for row in rows] == [
        ("bills", f"[null,{json.dumps(TRACE, separators=(',', ':'))}]"),
        ("orders", None),
    ]


def calls_made(work):
    """How many functions written in Python were called."""
    calls = count()

    def note(_frame, event, _argument):
        if event == "call":
            next(calls)

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return next(calls)


async def test_without_headers_no_python_runs_per_message(engine):
    few, many = messages("orders", *range(2)), messages("orders", *range(1_000))
    assert calls_made(lambda: engine.pusher.check(few)) == calls_made(lambda: engine.pusher.check(many))


async def test_what_happens_to_an_object_after_its_push_changes_nothing(engine):
    headers = {"n": "1"}
    await engine.push(with_headers("orders", headers))
    headers["n"] = "2"
    [message] = (await pop(engine, "orders", group="a")).messages
    message.headers["n"] = "3"
    assert message.headers == {"n": "1"}
    assert headers_of(await pop(engine, "orders", group="b")) == [{"n": "1"}]


# -- limits

ACCEPTED = {
    "32 of them": {f"name-{n}": "" for n in range(32)},
    "128 characters": {"ü" * 128: "x"},
    "4096 bytes": {"a": "x" * 4088},
    "4096 bytes, escaped": {"a": "\n" * 2044},
}
REFUSED = {
    "33 of them": {f"name-{n}": "" for n in range(33)},
    "129 characters": {"ü" * 129: "x"},
    "no name": {"": "x"},
    "4097 bytes": {"a": "x" * 4089},
    "a number": {"a": 1},
    "a null": {"a": None},
    "an object": {"a": {}},
    "a list": ["a"],
    "an empty list": [],
    "a text": "traceparent",
    "false": False,
}


async def push_in_sql(connection, headers):
    await connection.execute("select queen.push('orders', '1', p_headers => $1)", json.dumps(headers))
    await connection.execute("select queen.sequence_inbox()")


@pytest.mark.parametrize("headers", ACCEPTED.values(), ids=ACCEPTED)
async def test_what_fits_is_accepted_by_the_engine_and_in_sql(engine, connection, headers):
    await engine.push(with_headers("orders", headers))
    await push_in_sql(connection, headers)
    assert headers_of(await pop(engine, "orders", batch=2)) == [headers] * 2


@pytest.mark.parametrize("headers", REFUSED.values(), ids=REFUSED)
async def test_what_does_not_fit_is_refused_by_the_engine_and_in_sql(engine, connection, headers):
    with pytest.raises(InvalidHeaders, match="message 1"):
        await engine.push(with_headers("orders", None, headers))
    with pytest.raises(Exception, match="header") as refusal:
        await push_in_sql(connection, headers)
    assert refusal.value.sqlstate == InvalidHeaders.sqlstate
    assert await connection.fetchval("select count(*) from queen.inbox") == 0


@pytest.mark.parametrize("headers", [{"a": "\x00"}, {"\x00": "a"}, {"a": "\ud800"}])
async def test_what_postgres_cannot_hold_is_refused(engine, headers):
    with pytest.raises(InvalidHeaders):
        await engine.push(with_headers("orders", headers))


async def test_headers_count_for_what_one_push_may_carry(engine, monkeypatch):
    monkeypatch.setattr(requests, "REQUEST_BYTES_MAX", 100)
    await engine.push(with_headers("orders", None, {"a": "x"}))
    with pytest.raises(PayloadTooLarge):
        await engine.push(with_headers("orders", TRACE))


# -- other ways out of the log


async def test_headers_are_seen_by_who_reads_by_offset_lists_or_looks_one_up(engine):
    [pushed, _] = await engine.push(with_headers("orders", TRACE, None))
    [read] = await engine.reader.read([OffsetRead("orders", "Default", 0, 1_000)], 1_000)
    assert [record.headers for record in read.records] == [TRACE, {}]
    admin = engine.admin
    assert [each.headers for each in await admin.list_messages("orders")] == [{}, TRACE]
    assert [each.headers for each in await admin.read_messages("orders", "Default")] == [TRACE, {}]
    assert (await admin.get_message(pushed.id)).headers == TRACE
    assert (await admin.find_message(pushed.partition_id, str(pushed.id))).headers == TRACE


async def test_headers_count_for_how_much_a_read_brings(engine, open_engine):
    await engine.push(with_headers("orders", *[{"a": "x" * 100}] * 10))
    for reader in (engine.reader, (await open_engine()).reader):
        [read] = await reader.read([OffsetRead("orders", "Default", 0, 250)], 1_000)
        assert len(read.records) == 2
        two = await reader.read([OffsetRead("orders", "Default", 0, 500)] * 2, 600)
        assert [len(read.records) for read in two] == [4, 1]


@pytest.mark.every_postgres
async def test_headers_count_for_how_many_segments_a_read_loads(engine, connection):
    for _ in range(3):
        await engine.push(with_headers("orders", {"a": "x" * 100}))
    ends = "select to_offset from queen.read_ranges('{orders}', '{Default}', '{0}', array[$1::bigint], 10000)"
    assert [await connection.fetchval(ends, bytes_max) for bytes_max in (1, 50, 150, 10_000)] == [1, 1, 2, 3]


async def test_headers_of_an_encrypted_queue_are_stored_as_they_are(open_engine, connection):
    engine, other = [await open_engine(encryption_keys=KEY) for _ in range(2)]
    await engine.admin.configure_queue("secrets", encryption_enabled=True)
    await engine.push(with_headers("secrets", TRACE))
    [message] = (await pop(other, "secrets")).messages
    assert (bytes(message.payload), message.headers) == (b"0", TRACE)
    assert json.loads(await connection.fetchval("select headers from queen.segments")) == [TRACE]


@pytest.mark.every_postgres
async def test_a_dead_letter_keeps_its_headers_and_so_does_what_is_pushed_anew_from_it(engine):
    await engine.push(with_headers("orders", TRACE, None))
    await ack(engine, await pop(engine, "orders", batch=2), "dlq")
    assert [each.headers for each in await engine.admin.list_dead_letters("orders")] == [{}, TRACE]
    await engine.admin.redrive_dead_letters(queue="orders")
    popped = await pop(engine, "orders", batch=2)
    assert headers_of(popped) == [TRACE, {}]
    await ack(engine, popped, "dlq")
    await engine.admin.clear_queue("orders")
    await engine.admin.redrive_dead_letters(queue="orders")
    anew = await pop(engine, "orders", batch=2)
    assert [message.offset for message in anew.messages] == [2, 3]
    assert headers_of(anew) == [TRACE, {}]


@pytest.mark.every_postgres
async def test_a_transaction_pushes_headers(engine):
    await engine.push(messages("orders", 1))
    popped = await pop(engine, "orders")
    pushed = with_headers("bills", TRACE, None)
    await engine.transaction([Ack.of(popped.messages[0])], pushed, [lease_id(popped)])
    assert headers_of(await pop(engine, "bills", batch=2)) == [TRACE, {}]


@pytest.mark.every_postgres
async def test_rows_of_the_inbox_bring_their_headers_each_its_own(engine, connection):
    push = "select queen.push('orders', to_jsonb($1::int), p_headers => $2)"
    for number, headers in enumerate([None, TRACE, {}, {"b": "2", "a": "1"}]):
        await connection.execute(push, number, None if headers is None else json.dumps(headers))
    await connection.execute(
        "insert into queen.messages (queue, payload, headers) values ('orders', '4', '{\"v\": \"w\"}')"
    )
    await connection.execute("select queen.sequence_inbox()")
    popped = await pop(engine, "orders", batch=9)
    assert headers_of(popped) == [{}, TRACE, {}, {"a": "1", "b": "2"}, {"v": "w"}]
    assert values(popped) == [0, 1, 2, 3, 4]
    rows = await connection.fetch("select headers from queen.pop('orders', 'in sql', 9)")
    assert [row["headers"] and json.loads(row["headers"]) for row in rows] == [
        None,
        TRACE,
        None,
        {"a": "1", "b": "2"},
        {"v": "w"},
    ]


# -- the property


def any_messages(dice, numbers):
    """Some messages of one producer: to a few partitions, with and without headers and ids; some ids come again."""
    producer = dice.choice((None, "shop"))
    for _ in range(dice.randrange(1, 40)):
        number = next(numbers)
        headers = {f"h{n}": str(number) for n in range(dice.randrange(1, 4))} if dice.random() < 0.5 else None
        yield Outgoing(
            "orders",
            str(number).encode(),
            dice.choice(("ann", "bob", "eve")),
            f"id {dice.randrange(60)}" if dice.random() < 0.4 else None,
            producer=producer,
            headers=headers,
        )


async def push_some(engine, dice):
    """Push, and tell the headers of what was stored by its number."""
    numbers = count()
    stored = {}
    for _ in range(12):
        pushed = list(any_messages(dice, numbers))
        for message, answer in zip(pushed, await engine.push(pushed), strict=True):
            if not answer.duplicate:
                stored[int(message.payload)] = message.headers or {}
    return stored


async def pop_all(engine, dice, group):
    """Take everything, in batches in which some messages are put back, so that there are holes."""
    found = {}
    done = 0
    while (popped := await pop(engine, "orders", group=group, batch=dice.randrange(1, 30), max_partitions=3)).messages:
        found |= dict(zip(values(popped), headers_of(popped), strict=True))
        statuses = [dice.choice(("completed", "completed", "retry")) for _ in popped.messages]
        await engine.ack([Ack.of(*each) for each in zip(popped.messages, statuses, strict=True)])
        done += statuses.count("completed")
    assert done == len(found)
    return found


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_is_pushed_is_popped_with_its_own_headers(engine, open_engine, seed, monkeypatch):
    dice = random.Random(seed)
    monkeypatch.setattr(segment_builder, "SEGMENT_MESSAGES_MAX", 7)
    await engine.admin.configure_queue("orders", retry_limit=1000, retry_delay_ms=0)
    stored = await push_some(engine, dice)
    assert any(stored.values())
    assert not all(stored.values())
    assert await pop_all(engine, dice, "of who pushed") == stored
    assert await pop_all(await open_engine(), dice, "of somebody else") == stored


async def test_what_messages_of_many_partitions_bring_along_stays_with_each(open_engine):
    """Ids, traces and headers of all segments travel together; some have none."""
    engine = await open_engine(segment_cache_bytes_max=0)
    brought = [
        ("a", {"id": 'line\nbreak"\\', "trace": UUID(int=7)}),
        ("b", {}),
        ("c", {"id": "null", "headers": {"of": "two\nlines"}}),
        ("a", {"headers": {"null": "null"}}),
        ("d", {"trace": UUID(int=8)}),
    ]
    await engine.push(
        [
            Outgoing("orders", b"1", name, given.get("id"), given.get("trace"), headers=given.get("headers"))
            for name, given in brought
        ]
    )
    popped = await pop(engine, "orders", batch=9, max_partitions=9)
    for name in "abcd":
        found = [each for each in popped.messages if each.lease.partition == name]
        expected = [given for partition, given in brought if partition == name]
        assert [each.given_transaction_id for each in found] == [given.get("id") for given in expected]
        assert [each.trace_id for each in found] == [given.get("trace") for given in expected]
        assert [each.headers for each in found] == [given.get("headers", {}) for given in expected]
