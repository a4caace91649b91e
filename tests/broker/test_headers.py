"""Headers over HTTP: pushed with an item, answered with the message, and not mentioned where there are none."""

import msgspec
import pytest

from queenmq.broker.spool import Batch
from queenmq.model import Outgoing
from tests.broker.shorthand import ack, data, pop, push, refused

TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "note": 'ünï "quoted" 🐝'}


def items(queue, *all_headers):
    """One item for each; its payload is its number."""
    return [{"queue": queue, "payload": n, "headers": headers} for n, headers in enumerate(all_headers)]


async def test_a_popped_message_has_its_headers_and_others_have_none(http, queue):
    sent = [*items(queue, TRACE, None, {}), {"queue": queue, "payload": 3}]
    assert (await http.post("/push", json={"items": sent})).status_code == 201
    popped = await pop(http, queue, batch=9)
    assert [message.get("headers", "none") for message in popped["messages"]] == [TRACE, "none", "none", "none"]


async def test_a_transaction_pushes_headers(http, queue):
    operations = [{"type": "push", "items": items(queue, None, TRACE)}]
    assert (await http.post("/transaction", json={"operations": operations})).json()["success"]
    assert [each.get("headers") for each in (await pop(http, queue, batch=9))["messages"]] == [None, TRACE]


async def test_headers_are_in_lists_in_dead_letters_and_in_reads_by_offset(http, queue):
    await push(http, queue, "with", headers=TRACE)
    await push(http, queue, "without")
    listed = (await http.get("/messages", params={"queue": queue})).json()["messages"]
    assert [each.get("headers") for each in listed] == [None, TRACE]
    address = f"/messages/{listed[1]['partitionId']}/{listed[1]['transactionId']}"
    assert (await http.get(address)).json()["headers"] == TRACE
    entry = {"queue": queue, "partition": "Default", "offset": 0}
    [read] = (await http.post("/fetch", json={"entries": [entry]})).json()["entries"]
    assert [each.get("headers") for each in read["records"]] == [TRACE, None]
    await ack(http, *(await pop(http, queue, batch=2))["messages"], status="dlq")
    letters = (await http.get("/dlq", params={"queue": queue})).json()["messages"]
    assert [each.get("headers") for each in letters] == [None, TRACE]


@pytest.mark.parametrize("headers", [{"a": 1}, ["a"], "a", 0, {"a": {"b": "c"}}, {"": "a"}, {"a": "x" * 4096}])
async def test_bad_headers_are_refused_and_harm_no_other_item(http, queue, headers):
    refusal = refused(await http.post("/push", json={"items": items(queue, headers)}), 400, "INVALID_HEADERS")
    assert "32" in refusal["hint"]
    operations = [{"type": "push", "items": items(queue, headers)}]
    undone = (await http.post("/transaction", json={"operations": operations})).json()
    assert (undone["success"], undone["code"]) == (False, "INVALID_HEADERS")
    answer = await http.post("/push", json={"items": items(queue, TRACE, headers, None)})
    assert [(each["status"], each["code"]) for each in answer.json()] == [
        ("queued", None),
        ("failed", "INVALID_HEADERS"),
        ("queued", None),
    ]
    assert data(await pop(http, queue, batch=9)) == [0, 2]


async def test_nesting_without_end_is_refused(http, queue):
    nested = '{"a":' * 100_000
    body = f'{{"items": [{{"queue": "{queue}", "payload": 1, "headers": {nested}'
    refused(await http.post("/push", content=body), 400, "INVALID_JSON")


def test_a_spool_file_from_before_there_were_headers_can_be_read():
    message = Outgoing("orders", b"1", headers=TRACE)
    fields = msgspec.structs.asdict(message)
    read = msgspec.msgpack.Decoder(Batch).decode
    assert read(msgspec.msgpack.encode([[fields], None])).messages == [message]
    del fields["headers"]
    assert read(msgspec.msgpack.encode([[fields], None])).messages == [Outgoing("orders", b"1")]
