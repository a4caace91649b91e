"""Traces over HTTP: events about messages, and the way of a trace id through the queues."""

import asyncio
from datetime import datetime
from urllib.parse import quote
from uuid import uuid4

import pytest

from tests.broker.shorthand import pop, push, refused

EVENT_KEYS = {
    "id", "transaction_id", "partition_id", "queue_name", "partition_name", "consumer_group", "event_type",
    "trace_names", "created_at", "data",
}  # fmt: skip


async def note(http, pushed, event_type="info", data=None, **fields):
    body = {"transactionId": pushed["transaction_id"], "partitionId": pushed["partition_id"]}
    return await http.post("/traces", json={**body, "eventType": event_type, "data": data, **fields})


async def of_message(http, pushed):
    address = f"/traces/{pushed['partition_id']}/{quote(pushed['transaction_id'], safe='')}"
    answer = await http.get(address)
    assert answer.status_code == 200, answer.text
    return answer.json()["traces"]


async def test_an_event_is_stored_and_read(http, queue):
    [pushed] = await push(http, queue, {"n": 1}, partition="ann", transactionId="order 7/b")
    names = [f"{queue} checkout", f"{queue} audit"]
    answer = await note(http, pushed, "started", {"by": ["worker", 7.50]}, consumerGroup="g", traceNames=names)
    assert answer.status_code == 201
    assert answer.json()["success"] is True
    [event] = await of_message(http, pushed)
    assert event.keys() == EVENT_KEYS
    assert event["id"] == answer.json()["traceId"]
    assert (event["transaction_id"], event["partition_id"]) == ("order 7/b", pushed["partition_id"])
    assert (event["queue_name"], event["partition_name"], event["consumer_group"]) == (queue, "ann", "g")
    assert (event["event_type"], event["trace_names"]) == ("started", sorted(names))
    assert event["data"] == {"by": ["worker", 7.50]}
    assert datetime.fromisoformat(event["created_at"]).tzinfo is not None


@pytest.mark.parametrize("data", [None, 0, "text", [], {"deep": {"er": "\x00 ü"}}])
async def test_data_is_any_json(http, queue, data):
    [pushed] = await push(http, queue, 1)
    assert (await note(http, pushed, data=data)).status_code == 201
    assert [event["data"] for event in await of_message(http, pushed)] == [data]


async def test_events_come_in_the_order_they_were_noted(http, queue):
    one, two = await push(http, queue, 1, 2)
    for number in range(3):
        await note(http, one, f"step {number}")
    assert [event["event_type"] for event in await of_message(http, one)] == ["step 0", "step 1", "step 2"]
    assert await of_message(http, two) == []


async def test_events_are_found_by_name_across_queues(http, queue):
    name = f"checkout/{queue} ü"
    for number in range(3):
        [pushed] = await push(http, f"{queue}-{number}", 1)
        await note(http, pushed, f"step {number}", traceNames=[name, name])
    answer = (await http.get(f"/traces/by-name/{quote(name, safe='')}")).json()
    assert [(each["event_type"], each["queue_name"]) for each in answer["traces"]] == [
        (f"step {number}", f"{queue}-{number}") for number in (2, 1, 0)
    ]
    assert (answer["total"], answer["pagination"]) == (3, {"limit": 100, "offset": 0})
    page = (await http.get(f"/traces/by-name/{quote(name, safe='')}", params={"limit": 1, "offset": 1})).json()
    assert ([each["event_type"] for each in page["traces"]], page["total"]) == (["step 1"], 3)
    names = (await http.get("/traces/names", params={"limit": 1})).json()
    [line] = names["trace_names"]
    assert (line["trace_name"], line["trace_count"], line["message_count"]) == (name, 3, 3)
    assert (names["total"] >= 1, names["pagination"]) == (True, {"limit": 1, "offset": 0})
    assert datetime.fromisoformat(line["last_seen"]).tzinfo is not None
    assert (await http.get("/traces/by-name/nothing")).json()["traces"] == []


async def test_what_cannot_be_noted_is_refused(http, queue):
    [pushed] = await push(http, queue, 1)
    refused(await note(http, pushed | {"transaction_id": "other"}), 404, "MESSAGE_NOT_FOUND")
    unknown = pushed | {"partition_id": "00000000-0000-0000-0000-0003ffffffff"}
    refused(await note(http, unknown), 404, "PARTITION_NOT_FOUND")
    refused(await note(http, pushed | {"partition_id": "7"}), 400, "INVALID_ARGUMENT")
    refused(await note(http, pushed, ""), 400, "INVALID_NAME")
    refused(await note(http, pushed, traceNames=["ok", ""]), 400, "INVALID_NAME")
    refused(await note(http, pushed, traceNames=[f"n{n}" for n in range(101)]), 400, "INVALID_ARGUMENT")
    refused(await note(http, pushed, traceNames="one"), 400, "INVALID_ARGUMENT")
    refused(await note(http, pushed, "a\x00b"), 400, "INVALID_ARGUMENT")
    refused(await http.post("/traces", json={"transactionId": "x", "eventType": "info"}), 400, "INVALID_ARGUMENT")
    refused(await http.post("/traces", content=b"{"), 400, "INVALID_JSON")
    body = f'{{"transactionId":"{pushed["transaction_id"]}","partitionId":"{pushed["partition_id"]}","data":"'
    answer = await http.post("/traces", content=body.encode() + b'\xff"}')
    assert answer.status_code == 400
    assert await of_message(http, pushed) == []


async def test_bad_questions_are_refused(http, queue):
    for path in ("/traces/names", "/traces/by-name/x"):
        for bad in ({"limit": 0}, {"limit": 1001}, {"offset": -1}, {"limit": "x"}):
            refused(await http.get(path, params=bad), 400, "INVALID_ARGUMENT")
    [pushed] = await push(http, queue, 1)
    refused(await http.get(f"/traces/{pushed['partition_id']}/other"), 404, "MESSAGE_NOT_FOUND")
    refused(await http.get("/traces/7/other"), 400, "INVALID_ARGUMENT")
    refused(await http.get("/traces/id/7"), 400, "INVALID_TRACE_ID")


async def test_a_trace_id_leads_through_all_queues_with_the_time_of_each_step(http, queue):
    trace = str(uuid4())
    for step in range(3):
        await push(http, f"{queue}-{step}", {"step": step}, traceId=trace, transactionId=f"t{step}")
        await pop(http, f"{queue}-{step}")
    answer = (await http.get(f"/traces/id/{trace}")).json()
    assert answer["traceId"] == trace
    steps = answer["messages"]
    assert [(step["step"], step["queue"], step["transactionId"], step["data"]) for step in steps] == [
        (number + 1, f"{queue}-{number}", f"t{number}", {"step": number}) for number in range(3)
    ]
    assert steps[0]["secondsSincePrevious"] is None
    assert all(step["secondsSincePrevious"] > 0 for step in steps[1:])
    assert answer["totalSeconds"] == steps[-1]["secondsSinceStart"] > 0
    unknown = (await http.get(f"/traces/id/{uuid4()}")).json()
    assert (unknown["messages"], unknown["totalSeconds"]) == ([], 0)


async def test_events_of_one_message_may_come_from_many_at_once(http, queue):
    [pushed] = await push(http, queue, 1)
    answers = await asyncio.gather(*(note(http, pushed, f"{number}") for number in range(20)))
    assert {answer.status_code for answer in answers} == {201}
    assert {event["event_type"] for event in await of_message(http, pushed)} == {str(number) for number in range(20)}
