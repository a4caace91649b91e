"""What can be pushed and what is refused: payloads, names, ids, producers; without harm to anybody else."""

import asyncio
import json
from uuid import UUID

import pytest

from queenmq.errors import InvalidArgument, InvalidName, InvalidPayload, PayloadTooLarge
from queenmq.model import Outgoing
from tests.engine.shorthand import messages, pop, values

pytestmark = pytest.mark.every_postgres


@pytest.mark.parametrize(
    "payload", [b"null", b"0", b'""', b"[]", b" {} \n", b'"\\u0000"', b"[1, [2]]", '"ä€🎺"'.encode()]
)
async def test_any_json_value_is_a_payload_and_comes_back_as_it_was(open_engine, payload):
    producer, consumer = await open_engine(), await open_engine()
    await producer.push([Outgoing("orders", payload), Outgoing("orders", b"1")])
    for engine in (producer, consumer):
        popped = await pop(engine, "orders", batch=2, group=str(id(engine)))
        assert bytes(popped.messages[0].payload) == payload.strip()
        assert values(popped)[1] == 1
    listed = await consumer.admin.list_messages("orders")
    assert json.loads(listed[1].payload) == json.loads(payload)


BAD_PAYLOADS = [
    b"",
    b" ",
    b"{",
    b"nul",
    b"1 2",
    b"1,2",
    b"'a'",
    b"NaN",
    b'"a',
    b'"\xff"',
    b'"\n"',
    b'"\\ud800"',
    b"\xef\xbb\xbf1",
    b"]",
    b"[" * 100_000 + b"]" * 100_000,
]


@pytest.mark.parametrize("payload", BAD_PAYLOADS, ids=lambda payload: repr(payload[:8]))
async def test_what_is_not_one_json_value_is_refused(engine, connection, payload):
    with pytest.raises(InvalidPayload, match="message 1"):
        await engine.push([Outgoing("orders", b"1"), Outgoing("orders", payload), Outgoing("orders", b"3")])
    assert await connection.fetchval("select count(*) from queen.segments") == 0


@pytest.mark.parametrize("pieces", [[b"[1", b"2]", b"3,4"], [b'"a', b'b"', b"1,2"], [b'{"a":1', b'"b":2}', b"3,4"]])
async def test_pieces_that_only_make_json_together_are_refused(engine, pieces):
    with pytest.raises(InvalidPayload, match="message 0"):
        await engine.push([Outgoing("orders", piece) for piece in pieces])


async def test_the_largest_payload_is_a_setting(open_engine):
    engine = await open_engine(payload_bytes_max=1024)
    await engine.push([Outgoing("orders", b'"' + b"x" * 1022 + b'"')])
    with pytest.raises(PayloadTooLarge, match="message 1 has 1025 bytes; 1024"):
        await engine.push([Outgoing("orders", b"1"), Outgoing("orders", b'"' + b"x" * 1023 + b'"')])


BAD_NAMES = ["", "x" * 256, "a\x00b", "a\nb", "\x7f", "\ud800", "\x1f"]


@pytest.mark.parametrize("name", BAD_NAMES)
async def test_names_that_cannot_be_are_refused(engine, connection, name):
    with pytest.raises(InvalidName):
        await engine.push([Outgoing(name, b"1")])
    with pytest.raises(InvalidName):
        await engine.push([Outgoing("orders", b"1", name)])
    assert await connection.fetchval("select count(*) from queen.queues") == 0


@pytest.mark.parametrize("name", ["x" * 255, "ä" * 255, "a b/c?d", "Ünïcödé 🎺", "*", "'; drop table queues"])
async def test_other_names_are_as_good_as_any(engine, name):
    await engine.push([Outgoing(name, b"1", name)])
    popped = await pop(engine, name, partition=name, group=name)
    assert values(popped) == [1]
    assert (popped.leases[0].queue, popped.leases[0].partition) == (name, name)


async def test_system_queues_are_reserved_and_their_neighbours_are_served(engine):
    answers = await asyncio.gather(
        engine.push(messages("orders", 1)),
        engine.push(messages("__system_x", 1)),
        engine.push(messages("bills", 1)),
        return_exceptions=True,
    )
    assert isinstance(answers[1], InvalidName)
    assert [answer[0].offset for answer in (answers[0], answers[2])] == [0, 0]


@pytest.mark.parametrize("id", ["", "x" * 256, "a\x00", "\ud800"])
@pytest.mark.parametrize("beside", [[], [None], [None, "a"]])
async def test_transaction_ids_that_cannot_be_are_refused(engine, connection, id, beside):
    with pytest.raises(InvalidArgument, match="transaction id"):
        await engine.push(messages("orders", *range(len(beside) + 1), ids=[*beside, id]))
    assert await connection.fetchval("select count(*) from queen.segments") == 0


@pytest.mark.parametrize("id", ["x" * 255, "ä" * 255, " ", 'a"b\\c\n\x01', "null", str(UUID(int=7))])
async def test_other_transaction_ids_are_kept_as_they_are(open_engine, id):
    engine = await open_engine(segment_cache_bytes_max=0)
    await engine.push(messages("orders", 1, ids=[id]))
    assert (await engine.push(messages("orders", 1, ids=[id])))[0].duplicate
    assert (await pop(engine, "orders")).messages[0].transaction_id == id


@pytest.mark.parametrize("producer", ["\ud800", "a\x00b", "x" * 256])
async def test_a_producer_that_cannot_be_is_refused_alone(engine, producer):
    answers = await asyncio.gather(
        engine.push(messages("orders", 1)),
        engine.push(messages("orders", 2, producer=producer)),
        engine.push(messages("orders", 3)),
        return_exceptions=True,
    )
    assert isinstance(answers[1], InvalidArgument)
    assert [answer[0].offset for answer in (answers[0], answers[2])] == [0, 1]
