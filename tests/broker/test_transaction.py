"""POST /transaction: all of it happens, or nothing."""

from uuid import uuid4

import pytest

from tests.broker.shorthand import data, pop, push


def ack_of(message, **fields):
    return {"type": "ack"} | {key: message[key] for key in ("transactionId", "partitionId", "leaseId")} | fields


def push_of(queue, *payloads, **fields):
    return {"type": "push", "items": [{"queue": queue, "payload": payload, **fields} for payload in payloads]}


@pytest.fixture
async def message(http, queue):
    """A message in our hands."""
    await push(http, queue, "work")
    (found,) = (await pop(http, queue))["messages"]
    return found


async def transact(http, *operations, **fields):
    answer = await http.post("/transaction", json={"operations": operations, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_an_ack_and_pushes_happen_together(http, queue, message):
    told = await transact(http, push_of(f"{queue}-next", "a", "b"), ack_of(message))
    assert told["success"]
    assert told["transactionId"]
    pushed, also, acked = told["results"]
    assert [(each["index"], each["type"], each["success"]) for each in (pushed, also, acked)] == [
        (0, "push", True),
        (0, "push", True),
        (1, "ack", True),
    ]
    assert pushed["queueName"] == f"{queue}-next"
    assert pushed.keys() >= {"messageId", "partitionId", "transactionId"}
    assert data(await pop(http, f"{queue}-next", batch=9)) == ["a", "b"]
    await pop(http, queue, status=204)


async def test_a_duplicate_push_is_told_and_the_rest_happens(http, queue, message):
    (first,) = await push(http, f"{queue}-next", "a", transactionId="same")
    told = await transact(http, push_of(f"{queue}-next", "b", transactionId="same"), ack_of(message))
    assert told["success"]
    assert (told["results"][0]["status"], told["results"][0]["messageId"]) == ("duplicate", first["message_id"])
    assert data(await pop(http, f"{queue}-next", batch=9)) == ["a"]


async def test_an_ack_under_a_wrong_lease_undoes_everything(http, queue, message):
    wrong = ack_of(message, leaseId=str(uuid4()))
    told = await transact(http, push_of(f"{queue}-next", "a"), wrong)
    assert (told["success"], told["code"]) == (False, "LEASE_GONE")
    assert told["error"]
    assert told["hint"]
    assert [(each["index"], each["type"], each["success"]) for each in told["results"]] == [(1, "ack", False)]
    await pop(http, f"{queue}-next", status=204)


async def test_the_ack_that_failed_is_the_one_that_is_told(http, queue, message):
    unknown = ack_of(message, transactionId="nobody")
    told = await transact(http, ack_of(message), push_of(f"{queue}-next", "a"), unknown)
    assert not told["success"]
    assert [(each["index"], each["transactionId"]) for each in told["results"]] == [(2, "nobody")]
    assert (await transact(http, ack_of(message)))["success"]


async def test_a_required_lease_that_is_gone_undoes_everything(http, queue, message):
    told = await transact(http, push_of(f"{queue}-next", "a"), requiredLeases=[str(uuid4())])
    assert (told["success"], told["code"]) == (False, "LEASE_GONE")
    assert (await transact(http, ack_of(message), requiredLeases=[message["leaseId"]]))["success"]
    await pop(http, f"{queue}-next", status=204)


async def test_a_push_with_a_bad_name_is_the_result_that_failed_and_undoes_everything(http, queue, message):
    told = await transact(http, ack_of(message), push_of(f"{queue}-next", "fine"), push_of("poison \0", 1))
    assert (told["success"], told["code"]) == (False, "INVALID_NAME")
    assert [(each["index"], each["type"], each["success"]) for each in told["results"]] == [(2, "push", False)]
    await pop(http, f"{queue}-next", status=204)
    assert (await transact(http, ack_of(message)))["success"]


async def test_a_push_to_a_full_queue_is_the_result_that_failed_and_undoes_everything(http, queue, message):
    full = f"{queue}-full"
    await http.post("/configure", json={"queue": full, "options": {"maxSize": 1}})
    told = await transact(http, ack_of(message), push_of(f"{queue}-next", "fine"), push_of(full, 1), push_of(full, 2))
    assert (told["success"], told["code"]) == (False, "QUEUE_FULL")
    [result] = told["results"]
    assert (result["index"], result["type"], result["success"], result["queueName"]) == (2, "push", False, full)
    await pop(http, f"{queue}-next", status=204)
    assert (await transact(http, ack_of(message)))["success"]


async def test_a_failed_ack_in_a_transaction_is_tried_again(http, queue, message):
    assert (await transact(http, ack_of(message, status="failed")))["success"]
    (again,) = (await pop(http, queue, wait="true", timeout=20_000))["messages"]
    assert (again["id"], again["retryCount"]) == (message["id"], 1)
