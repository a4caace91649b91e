"""POST /push: every item gets its answer, and no item suffers for another."""

from urllib.parse import quote
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.broker.shorthand import ack, data, pop, push, refused

PUSH_KEYS = {"index", "status", "message_id", "transaction_id", "partition_id", "trace_id", "queueName"}


async def test_every_pushed_item_gets_an_answer_at_its_place(http, queue):
    trace = str(uuid4())
    items = [
        {"queue": queue, "payload": 1, "transactionId": "one", "traceId": trace},
        {"queue": queue, "partition": "p", "data": {"two": 2}},
    ]
    answer = await http.post("/push", json={"items": items})
    assert answer.status_code == 201
    one, two = answer.json()
    assert one.keys() >= PUSH_KEYS
    assert [one["index"], one["status"], one["transaction_id"], one["trace_id"]] == [0, "queued", "one", trace]
    assert one["queueName"] == queue
    assert [two["index"], two["status"], two["trace_id"]] == [1, "queued", None]
    assert two["transaction_id"] == two["message_id"]
    assert one["partition_id"] != two["partition_id"]
    assert UUID(one["message_id"]).version == UUID(two["message_id"]).version == 7


async def test_a_transaction_id_is_taken_once_also_inside_one_request(http, queue):
    one, two = await push(http, queue, "a", "b", transactionId="same")
    (three,) = await push(http, queue, "c", transactionId="same")
    assert [each["status"] for each in (one, two, three)] == ["queued", "duplicate", "duplicate"]
    assert one["message_id"] == two["message_id"] == three["message_id"]
    assert data(await pop(http, queue, batch=9)) == ["a"]


async def test_no_items_are_no_trouble(http):
    answer = await http.post("/push", json={"items": []})
    assert (answer.status_code, answer.json()) == (201, [])


async def test_a_bad_item_harms_only_itself(http, queue):
    items = [{"queue": queue, "payload": n} for n in range(3)]
    items[1]["partition"] = "poison \0"
    answer = await http.post("/push", json={"items": items})
    assert answer.status_code == 201
    good, bad, fine = answer.json()
    assert [good["status"], bad["status"], fine["status"]] == ["queued", "failed", "queued"]
    assert (bad["message_id"], bad["code"]) == (None, "INVALID_NAME")
    assert bad["error"]
    assert data(await pop(http, queue, batch=9)) == [0, 2]


async def test_a_full_queue_refuses_and_says_how_full_it_is(http, queue, full_queue):
    answer = await http.post("/push", json={"items": [{"queue": full_queue, "payload": 1}]})
    refusal = refused(answer, 429, "QUEUE_FULL")
    assert (refusal["queue"], refusal["depth"], refusal["limit"]) == (full_queue, 1, 1)
    assert refused(await http.post(f"/push/queue/{full_queue}", json=[1]), 429, "QUEUE_FULL") == refusal
    assert answer.headers["retry-after"]
    items = [{"queue": full_queue, "payload": 1}, {"queue": queue, "payload": 2}]
    mixed = (await http.post("/push", json={"items": items})).json()
    assert [(each["status"], each.get("code")) for each in mixed] == [("failed", "QUEUE_FULL"), ("queued", None)]


async def test_an_accepted_push_tells_the_capacity_when_asked(http, queue, full_queue):
    items = [{"queue": queue, "payload": 1}, {"queue": full_queue, "payload": 2}]
    accepted, rejected = (await http.post("/push?capacity=true", json={"items": items})).json()
    assert (accepted["queueDepth"], accepted["remainingCapacity"]) == (1, None)
    assert "queueDepth" not in rejected
    array = (await http.post(f"/push/queue/{queue}?capacity=true", json=[1, 2])).json()
    assert (array["queueDepth"], array["remainingCapacity"]) == (3, None)
    assert "queueDepth" not in (await http.post("/push", json={"items": items[:1]})).json()[0]
    refused(await http.post("/push?capacity=perhaps", json={"items": items}), 400, "INVALID_ARGUMENT")


@pytest.fixture
async def full_queue(server, http, queue, module_database):
    connection = await asyncpg.connect(module_database)
    name = f"{queue}-full"
    await connection.execute("select queen.configure_queue($1, null, null, '{\"max_queue_size\": 1}')", name)
    await connection.close()
    await push(http, name, 0)
    return name


async def test_payloads_arrive_as_they_were_sent(http, queue):
    sent = [None, True, 0, -1.5, "", "ünï\u2028🐝", [], {}, {"a": [1, {"b": None}]}, 10**15, "nul \0 inside"]
    await push(http, queue, *sent)
    assert data(await pop(http, queue, batch=20)) == sent


async def test_numbers_keep_their_digits(http, queue):
    huge = "123456789012345678901234567890.10"
    body = f'{{"items": [{{"queue": "{queue}", "payload": {huge}}}]}}'
    assert (await http.post("/push", content=body)).status_code == 201
    assert huge in (await http.get(f"/pop/queue/{queue}")).text


@pytest.mark.parametrize("name", ["a/b c", "ünï 🐝", "100%", "a?b&c=d#e", "..", "a+b", "%2F", "partition/x"])
async def test_names_may_be_anything(http, queue, name):
    name = f"{queue} {name}"
    await push(http, name, "here", partition=name)
    path = f"/pop/queue/{quote(name, safe='')}/partition/{quote(name, safe='')}"
    found = (await http.get(path, params={"consumerGroup": name})).json()
    assert (found["queue"], found["partition"], found["consumerGroup"]) == (name, name, name)
    found = await pop(http, name)
    assert (data(found), found["queue"]) == (["here"], name)
    assert (await ack(http, found["messages"][0]))[0]["queueName"] == name


async def test_one_bad_item_of_an_atomic_push_takes_the_others_with_it(http, queue):
    items = [{"queue": queue, "payload": 1}, {"queue": "", "payload": 2}]
    refused(await http.post("/push", json={"items": items, "atomic": True}), 400, "INVALID_NAME")
    assert await pop(http, queue, status=204) is None
    assert (await http.post("/push", json={"items": items[:1], "atomic": True})).status_code == 201
    assert data(await pop(http, queue)) == [1]
