"""POST /ack, /ack/batch, /lease/{lease}/extend and /lease/{lease}/release."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from tests.broker.shorthand import ack, data, pop, push, refused

KEYS = {"index", "transactionId", "success", "error", "queueName", "partitionName", "leaseReleased", "dlq"}
NO_LEASE = "Invalid or expired lease"
NOT_FOUND = "Message not found"


def told(results):
    return [(each["success"], each["error"]) for each in results]


async def leased(http, queue, *payloads, **query):
    """Push messages and pop all of them."""
    await push(http, queue, *payloads)
    return (await pop(http, queue, batch=len(payloads), **query))["messages"]


async def test_one_ack_is_answered_in_a_list(http, queue):
    (message,) = await leased(http, queue, "work")
    body = {"transactionId": message["transactionId"], "partitionId": message["partitionId"]}
    answer = await http.post("/ack", json=body | {"leaseId": message["leaseId"], "status": "completed"})
    assert answer.status_code == 200
    assert answer.json() == [
        {
            "index": 0,
            "transactionId": message["transactionId"],
            "success": True,
            "error": None,
            "queueName": queue,
            "partitionName": "Default",
            "leaseReleased": True,
            "dlq": False,
        }
    ]
    await pop(http, queue, status=204)


async def test_every_ack_of_a_batch_gets_its_own_answer(http, queue):
    one, two = await leased(http, queue, 1, 2)
    stranger = two | {"transactionId": "nobody"}
    results = await ack(http, one, stranger, two)
    assert [each["index"] for each in results] == [0, 1, 2]
    assert all(each.keys() == KEYS for each in results)
    assert told(results) == [(True, None), (False, NOT_FOUND), (True, None)]


async def test_no_acks_are_no_trouble(http):
    answer = await http.post("/ack/batch", json={"acknowledgments": []})
    assert (answer.status_code, answer.json()) == (200, [])


async def test_a_message_can_be_called_by_its_id(http, queue):
    (pushed,) = await push(http, queue, 1, transactionId="mine")
    (message,) = (await pop(http, queue))["messages"]
    assert pushed["message_id"] == message["id"]
    assert told(await ack(http, message | {"transactionId": message["id"]})) == [(True, None)]


async def test_the_group_of_a_batch_counts_for_those_that_name_none(http, queue):
    (message,) = await leased(http, queue, 1, consumerGroup="g")
    one = {"transactionId": message["transactionId"], "partitionId": message["partitionId"]}
    answer = await http.post("/ack/batch", json={"acknowledgments": [one], "consumerGroup": "g"})
    assert told(answer.json()) == [(True, None)]


async def test_acking_only_the_last_message_leaves_the_others(http, queue):
    one, two, three = await leased(http, queue, 1, 2, 3)
    assert told(await ack(http, three)) == [(True, None)]
    assert [each["leaseReleased"] for each in await ack(http, two)] == [False]
    assert [each["leaseReleased"] for each in await ack(http, one)] == [True]
    await pop(http, queue, status=204)


async def test_acks_in_reverse_order_bring_nothing_back(http, queue):
    messages = await leased(http, queue, *range(5))
    for message in reversed(messages):
        assert told(await ack(http, message)) == [(True, None)]
    await pop(http, queue, status=204)


async def test_a_failed_message_between_two_completed_ones_comes_back_alone(http, queue):
    one, two, three = await leased(http, queue, 1, 2, 3)
    acks = [
        {key: message[key] for key in ("transactionId", "partitionId", "leaseId")} | {"status": status}
        for message, status in ((one, "completed"), (two, "failed"), (three, "success"))
    ]
    assert told((await http.post("/ack/batch", json={"acknowledgments": acks})).json()) == [(True, None)] * 3
    found = await pop(http, queue, batch=9, wait="true", timeout=20_000)
    assert [(each["data"], each["retryCount"]) for each in found["messages"]] == [(2, 1)]


async def test_retry_is_no_failure_and_dlq_is_the_end(http, queue):
    (message,) = await leased(http, queue, 1)
    assert told(await ack(http, message, status="retry")) == [(True, None)]
    (again,) = (await pop(http, queue, wait="true", timeout=20_000))["messages"]
    (result,) = await ack(http, again, status="dlq", error="no \0 good")
    assert (result["success"], result["dlq"]) == (True, True)
    await pop(http, queue, status=204)


async def test_a_wrong_lease_acks_nothing(http, queue):
    (message,) = await leased(http, queue, 1)
    assert told(await ack(http, message | {"leaseId": str(uuid4())})) == [(False, NO_LEASE)]
    assert told(await ack(http, message)) == [(True, None)]


async def test_a_lease_that_has_ended_acks_nothing(http, queue):
    (message,) = await leased(http, queue, 1)
    await ack(http, message, status="retry")
    (again,) = (await pop(http, queue, wait="true", timeout=20_000))["messages"]
    assert told(await ack(http, message)) == [(False, NO_LEASE)]
    assert told(await ack(http, again)) == [(True, None)]


async def test_without_a_lease_only_what_the_group_holds_can_be_acked(http, queue):
    pushed = await push(http, queue, 1, 2)
    never = {"transactionId": pushed[0]["transaction_id"], "partitionId": pushed[0]["partition_id"]}
    lacks = 'the request has no leaseId, and group "{}" holds no lease on partition "Default"'
    hint = "send the leaseId or the consumerGroup of the pop"
    unnamed = f"{NO_LEASE}: {lacks.format('__QUEUE_MODE__')}; {hint}"
    assert told((await http.post("/ack", json=never)).json()) == [(False, unnamed)]
    (message,) = (await pop(http, queue))["messages"]
    outside = never | {"transactionId": pushed[1]["transaction_id"]}
    assert told((await http.post("/ack", json=outside)).json()) == [(False, NO_LEASE)]
    inside = {key: message[key] for key in ("transactionId", "partitionId")}
    other = f"{NO_LEASE}: {lacks.format('other')}; {hint}"
    assert told((await http.post("/ack", json=inside | {"consumerGroup": "other"})).json()) == [(False, other)]
    assert told((await http.post("/ack", json=inside)).json()) == [(True, None)]
    assert data(await pop(http, queue)) == [2]


async def test_an_unknown_message_or_partition_is_not_found(http, queue):
    (message,) = await leased(http, queue, 1)
    assert told(await ack(http, message | {"transactionId": "nobody"})) == [(False, NOT_FOUND)]
    assert told(await ack(http, message | {"transactionId": "nul \0"})) == [(False, NOT_FOUND)]
    nowhere = message | {"partitionId": "00000000-0000-0000-0000-0000ffffffff"}
    assert told(await ack(http, nowhere)) == [(False, NOT_FOUND)]


@pytest.mark.parametrize(
    "foreign",
    [
        {"partitionId": "not-a-uuid"},
        {"partitionId": "c56a4180-65aa-42ec-a945-5fd21dec0538"},
        {"leaseId": "not-a-uuid"},
        {"transactionId": "nobody"},
    ],
)
async def test_a_foreign_id_in_a_batch_is_not_found_and_its_neighbours_are_acked(http, queue, foreign):
    one, two, three = await leased(http, queue, 1, 2, 3)
    acks = [one, two | foreign, three]
    assert told(await ack(http, *acks)) == [(True, None), (False, NOT_FOUND), (True, None)]


# -- leases


async def test_a_lease_is_extended_from_now(http, queue):
    (message,) = await leased(http, queue, 1, leaseTime=5)
    lease = message["leaseId"]
    answer = await http.post(f"/lease/{lease}/extend", json={"seconds": 3000})
    assert answer.status_code == 200
    (result,) = answer.json()
    expires_at = datetime.fromisoformat(result.pop("expiresAt"))
    assert result == {"index": 0, "leaseId": lease, "success": True, "error": None}
    assert timedelta(seconds=2900) < expires_at - datetime.now(UTC) < timedelta(seconds=3100)
    (result,) = (await http.post(f"/lease/{lease}/extend")).json()
    expires_at = datetime.fromisoformat(result["expiresAt"])
    assert timedelta(seconds=50) < expires_at - datetime.now(UTC) < timedelta(seconds=70)


async def test_a_lease_that_is_gone_is_not_extended(http, queue):
    lease = str(uuid4())
    answer = await http.post(f"/lease/{lease}/extend", json={"seconds": 60})
    assert answer.status_code == 200
    assert answer.json() == [
        {"index": 0, "leaseId": lease, "success": False, "expiresAt": None, "error": "Lease not found"}
    ]


async def test_several_leases_are_extended_at_once(http, queue):
    (message,) = await leased(http, queue, 1, leaseTime=5)
    gone = str(uuid4())
    leases = [{"leaseId": gone, "seconds": 60}, {"leaseId": message["leaseId"], "seconds": 3000}]
    lost, kept = (await http.post("/leases/extend", json={"leases": leases})).json()
    assert lost == {"index": 0, "leaseId": gone, "success": False, "expiresAt": None, "error": "Lease not found"}
    assert (kept["index"], kept["leaseId"], kept["success"]) == (1, message["leaseId"], True)
    assert datetime.fromisoformat(kept["expiresAt"]) - datetime.now(UTC) > timedelta(seconds=2900)


async def test_not_too_many_leases_are_extended_at_once(http):
    answer = await http.post("/leases/extend", json={"leases": [{"leaseId": str(uuid4())}] * 1_001})
    assert (answer.status_code, "1000 is the most" in answer.json()["error"]) == (413, True)


@pytest.mark.parametrize("seconds", [0, 604_801])
async def test_a_lease_among_several_has_its_limits(http, queue, seconds):
    answer = await http.post("/leases/extend", json={"leases": [{"leaseId": str(uuid4()), "seconds": seconds}]})
    assert answer.status_code == 400


async def test_a_lease_can_be_given_back(http, queue):
    first, *others = await leased(http, queue, 1, 2, 3)
    lease = first["leaseId"]
    await ack(http, first)
    assert (await http.post(f"/lease/{lease}/release")).json() == [
        {"index": 0, "leaseId": lease, "success": True, "error": None}
    ]
    assert [result["error"] for result in await ack(http, *others)] == ["Invalid or expired lease"] * 2
    again = (await pop(http, queue, batch=10))["messages"]
    assert [(message["data"], message["retryCount"]) for message in again] == [(2, 0), (3, 0)]


async def test_a_lease_that_is_gone_is_not_given_back(http, queue):
    lease = str(uuid4())
    assert (await http.post(f"/lease/{lease}/release")).json() == [
        {"index": 0, "leaseId": lease, "success": False, "error": "Lease not found"}
    ]
    refused(await http.post("/lease/no-uuid/release"), 400, "INVALID_ARGUMENT")


async def test_a_lease_that_is_given_back_wakes_a_poll(http, queue):
    (message,) = await leased(http, queue, 1)
    poll = asyncio.create_task(pop(http, queue, wait=True))
    await http.post(f"/lease/{message['leaseId']}/release")
    assert data(await poll) == [1]
