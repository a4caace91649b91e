"""POST /push/queue/…: an array of payloads for one partition, answered in runs."""

import pytest

from queenmq.model import DEFAULT_PARTITION
from tests.broker.shorthand import data, pop, push, refused


def runs(answer, status=201):
    assert answer.status_code == status, answer.text
    return [(run["status"], run["count"], run["first_offset"]) for run in answer.json()["runs"]]


async def test_an_array_is_stored_in_its_order_and_answered_as_one_run(http, queue):
    answer = await http.post(f"/push/queue/{queue}/partition/ann", content=b'[1, {"two": [2, "]"]},null , "\xc3\xa4"]')
    assert runs(answer) == [("queued", 4, 0)]
    popped = await pop(http, queue, batch=9)
    assert data(popped) == [1, {"two": [2, "]"]}, None, "ä"]
    told = answer.json()
    assert (told["queueName"], told["partition_id"]) == (queue, popped["partitionId"])
    assert told["runs"][0]["message_id"] == popped["messages"][0]["id"]
    assert [message["partition"] for message in popped["messages"]] == ["ann"] * 4


async def test_without_a_partition_it_is_the_default_one(http, queue):
    await http.post(f"/push/queue/{queue}", json=["first"])
    await push(http, queue, "second")
    popped = await pop(http, queue, batch=9)
    assert (data(popped), popped["partition"]) == (["first", "second"], DEFAULT_PARTITION)


async def test_message_ids_of_a_run_count_up(http, queue):
    await http.post(f"/push/queue/{queue}", json=list(range(20)))
    ids = [message["id"] for message in (await pop(http, queue, batch=20))["messages"]]
    assert ids == [f"{ids[0][:-10]}{int(ids[0][-10:], 16) + number:010x}" for number in range(20)]


async def test_a_transaction_id_makes_one_for_each_payload(http, queue):
    await http.post(f"/push/queue/{queue}?transactionId=order", json=["a", "b"])
    popped = await pop(http, queue, batch=9)
    assert [message["transactionId"] for message in popped["messages"]] == ["order-0", "order-1"]


async def test_an_array_that_is_pushed_again_is_a_run_of_duplicates(http, queue):
    path = f"/push/queue/{queue}?transactionId=order"
    first = await http.post(path, json=["a", "b"])
    again = await http.post(path, json=["a", "b"])
    longer = await http.post(path, json=["a", "b", "c"])
    assert (runs(first), runs(again)) == ([("queued", 2, 0)], [("duplicate", 2, 0)])
    assert first.json()["runs"][0]["message_id"] == again.json()["runs"][0]["message_id"]
    assert runs(longer) == [("duplicate", 2, 0), ("queued", 1, 2)]
    assert data(await pop(http, queue, batch=9)) == ["a", "b", "c"]


async def test_duplicates_that_are_apart_in_the_log_are_apart_in_the_answer(http, queue):
    for id, payload in (("x-1", "b"), ("x-0", "a")):
        await push(http, queue, payload, transactionId=id)
    answer = await http.post(f"/push/queue/{queue}?transactionId=x", json=["a", "b"])
    assert runs(answer) == [("duplicate", 1, 1), ("duplicate", 1, 0)]


async def test_an_empty_array_is_no_trouble(http, queue):
    answer = await http.post(f"/push/queue/{queue}", content=b" [ ] ")
    assert runs(answer) == []


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"items": []}', b"1", b"[1", b"[1,]", b"[1] 2", b"[1,,2]", b'["\xff"]', b"[" * 10_000]
)
async def test_what_is_no_array_of_json_is_refused(http, queue, body):
    refused(await http.post(f"/push/queue/{queue}", content=body), 400, "INVALID_PAYLOAD")
    await pop(http, queue, status=204)


async def test_names_and_ids_are_checked(http, queue):
    refused(await http.post("/push/queue/%00", json=[1]), 400, "INVALID_NAME")
    refused(await http.post(f"/push/queue/{queue}/partition/{'p' * 256}", json=[1]), 400, "INVALID_NAME")
    refused(await http.post(f"/push/queue/{queue}?transactionId={'i' * 254}", json=[1]), 400, "INVALID_ARGUMENT")
    refused(await http.post("/push/queue//partition/p", json=[1]), 404, "NO_SUCH_ROUTE")
    await pop(http, queue, status=204)


async def test_names_may_contain_anything_that_is_encoded(http, queue):
    await http.post(f"/push/queue/{queue}/partition/a%2Fb%20%C3%A4", json=[1])
    assert (await pop(http, queue))["partition"] == "a/b ä"


async def test_more_payloads_than_allowed_are_refused(http, queue):
    refused(await http.post(f"/push/queue/{queue}", json=[0] * 10_001), 413, "TOO_MANY_ITEMS")
