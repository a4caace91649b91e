"""A list given to push: several messages, in envelopes or not; the same over every transport and in both skins."""

import pytest

from queenmq import Outgoing
from queenmq.errors import InvalidArgument


def payloads(messages):
    return [message.payload for message in messages]


async def test_a_list_is_several_messages(queen, queue):
    answers = await queen.queue(queue).partition("ann").push([1, Outgoing([2], partition="bob"), {"id": 3}])
    assert [answer.status for answer in answers] == ["queued"] * 3
    messages = await queen.queue(queue).batch(10).max_partitions(2).pop()
    assert sorted((each.partition, str(each.payload)) for each in messages) == [
        ("ann", "1"),
        ("ann", "{'id': 3}"),
        ("bob", "[2]"),
    ]


async def test_the_items_of_a_list_may_be_envelopes(queen, queue):
    trace_id = "018f0000-0000-7000-8000-000000000001"
    items = [
        {"data": "M1"},
        {"payload": None, "transactionId": "order-1", "traceId": trace_id},
        {"data": 1, "payload": 2},
        {"data": 1, "unit": "kg"},
        {"transactionId": "no payload"},
        {},
    ]
    await queen.queue(queue).push(items)
    messages = await queen.queue(queue).batch(10).pop()
    assert payloads(messages) == ["M1", None, *items[2:]]
    assert (messages[1].transaction_id, messages[1].trace_id) == ("order-1", trace_id)


async def test_an_envelope_alone_or_in_push_many_is_a_payload(queen, queue):
    await queen.queue(queue).push({"data": 1})
    await queen.queue(queue).push_many([{"data": 2}])
    assert payloads(await queen.queue(queue).batch(10).pop()) == [{"data": 1}, {"data": 2}]


async def test_an_array_in_an_outgoing_is_one_payload(queen, queue):
    pushed = await queen.queue(queue).push(Outgoing([1, 2], transaction_id="array"))
    assert (pushed.status, pushed.transaction_id) == ("queued", "array")
    assert payloads(await queen.queue(queue).batch(10).pop()) == [[1, 2]]


@pytest.mark.parametrize("payload", [[1, 2], Outgoing(1)])
async def test_what_belongs_to_one_payload_is_said_in_its_outgoing(queen, queue, payload):
    with pytest.raises(InvalidArgument, match="transaction_id and headers would be that of one payload"):
        await queen.queue(queue).push(payload, transaction_id="a", headers={"b": "c"})
    assert await queen.queue(queue).pop() == []
