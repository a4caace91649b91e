"""/messages: list them, look at one, keep it from everybody, deliver it again, give it up."""

import asyncio
from urllib.parse import quote
from uuid import UUID

from tests.broker.shorthand import ack, data, parked, pop, push, refused


async def listed(http, path="/messages", **query):
    answer = await http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def address(pushed):
    return f"/messages/{pushed['partition_id']}/{quote(pushed['transaction_id'], safe='')}"


async def test_a_listed_message_has_everything(http, queue):
    (pushed,) = await push(http, queue, {"n": 1}, partition="ann", transactionId="t", traceId=str(UUID(int=7)))
    (message,) = (await listed(http, queue=queue))["messages"]
    assert message.pop("createdAt").endswith("Z")
    assert message == {
        "id": pushed["message_id"],
        "transactionId": "t",
        "partitionId": pushed["partition_id"],
        "partition": "ann",
        "queue": queue,
        "offset": 0,
        "traceId": str(UUID(int=7)),
        "data": {"n": 1},
        "status": "pending",
        "encrypted": False,
        "producerSub": None,
    }


async def test_pages_do_not_shift(http, queue):
    await push(http, queue, *range(5))
    first = await listed(http, queue=queue, limit=2)
    await push(http, queue, "new")
    second = await listed(http, f"/status/queues/{queue}/messages", limit=2, cursor=first["nextCursor"])
    third = await listed(http, queue=queue, limit=2, cursor=second["nextCursor"])
    assert [data(first), data(second), data(third)] == [[4, 3], [2, 1], [0]]
    assert third["nextCursor"] is None
    assert data(await listed(http, queue=queue, limit=1)) == ["new"]


async def test_messages_are_narrowed_by_partition_status_group_and_labels(http, queue):
    await http.post("/configure", json={"queue": queue, "namespace": f"{queue}-ns", "task": f"{queue}-task"})
    await push(http, queue, 1, 2, 3, partition="ann")
    await push(http, queue, 4, partition="bob")
    popped = await pop(http, queue, batch=2, consumerGroup="g")
    await ack(http, popped["messages"][0])

    async def found(**query):
        return sorted(data(await listed(http, **query)))

    assert await found(queue=queue, partition="ann") == [1, 2, 3]
    assert await found(queue=queue, consumerGroup="g", status="completed") == [1]
    assert await found(queue=queue, consumerGroup="g", status="processing") == [2]
    assert await found(queue=queue, consumerGroup="g", status="pending") == [3, 4]
    assert await found(queue=queue, status="pending") == [1, 2, 3, 4]
    assert await found(ns=f"{queue}-ns") == await found(task=f"{queue}-task") == [1, 2, 3, 4]
    assert await found(queue=queue, ns="another") == []
    for query, status, code in (
        ({"queue": "nowhere"}, 404, "QUEUE_NOT_FOUND"),
        ({"queue": queue, "partition": "nowhere"}, 404, "PARTITION_NOT_FOUND"),
        ({"partition": "ann"}, 400, "INVALID_ARGUMENT"),
        ({"status": "failed"}, 400, "INVALID_ARGUMENT"),
        ({"cursor": "x"}, 400, "INVALID_ARGUMENT"),
        ({"limit": "0"}, 400, "INVALID_ARGUMENT"),
        ({"limit": "1001"}, 400, "INVALID_ARGUMENT"),
    ):
        refused(await http.get("/messages", params=query), status, code)


async def test_a_message_is_found_by_each_of_its_names(http, queue):
    (pushed,) = await push(http, queue, "work", transactionId="a/b c%")
    by_name = await listed(http, address(pushed))
    assert (by_name["data"], by_name["transactionId"], by_name["status"]) == ("work", "a/b c%", "pending")
    assert await listed(http, f"/messages/{pushed['partition_id']}/{pushed['message_id']}") == by_name
    refused(await http.get(f"/messages/{pushed['partition_id']}/other"), 404, "MESSAGE_NOT_FOUND")
    refused(await http.get("/messages/somewhere/a"), 400, "INVALID_ARGUMENT")


async def test_a_message_is_given_up_and_tried_again(http, queue):
    (pushed,) = await push(http, queue, "work", transactionId="a/b")
    refused(await http.post(f"{address(pushed)}/dlq"), 404, "GROUP_NOT_FOUND")
    popped = await pop(http, queue)
    answer = await http.post(f"{address(pushed)}/dlq", json={"error": "no use"})
    assert answer.json() == {
        "success": True,
        "partitionId": pushed["partition_id"],
        "transactionId": "a/b",
        "consumerGroup": "__QUEUE_MODE__",
    }
    refused(await http.post(f"{address(pushed)}/dlq"), 409, "NOT_PENDING")
    (letter,) = (await listed(http, "/dlq", queue=queue))["messages"]
    assert (letter["errorMessage"], letter["messageId"]) == ("no use", pushed["message_id"])
    await pop(http, queue, status=204)
    (late,) = await ack(http, *popped["messages"])
    assert not late["success"]
    assert (await http.post(f"{address(pushed)}/retry", json={})).json()["groups"] == 1
    assert data(await pop(http, queue)) == ["work"]
    refused(await http.post(f"{address(pushed)}/retry"), 409, "NOT_PENDING")
    refused(await http.post(f"/messages/{pushed['partition_id']}/other/retry"), 404, "MESSAGE_NOT_FOUND")


async def test_a_retried_message_wakes_who_waits_for_it(http, server, queue):
    (pushed,) = await push(http, queue, "work")
    await ack(http, *(await pop(http, queue))["messages"], status="dlq")
    poll = asyncio.create_task(pop(http, queue, wait="true"))
    await parked(server, 1)
    await http.post(f"{address(pushed)}/retry", params={"consumerGroup": "__QUEUE_MODE__"})
    assert data(await poll) == ["work"]


async def test_a_deleted_message_is_delivered_to_nobody(http, queue):
    first, second, third = await push(http, queue, 1, 2, 3)
    refused(await http.delete(address(second)), 409, "NOT_PENDING")
    for group in ("a", "b"):
        await pop(http, queue, consumerGroup=group)
    await http.post(f"{address(third)}/dlq", params={"consumerGroup": "b"})
    assert (await http.delete(address(second))).json() == {
        "success": True,
        "partitionId": second["partition_id"],
        "transactionId": second["transaction_id"],
        "groups": 2,
        "deadLetters": 0,
    }
    deleted = (await http.delete(address(third))).json()
    assert (deleted["groups"], deleted["deadLetters"]) == (1, 1)
    assert (await http.delete(address(first))).json()["groups"] == 2
    for group in ("a", "b"):
        await pop(http, queue, consumerGroup=group, status=204)
    assert (await listed(http, address(second), consumerGroup="a"))["status"] == "completed"
    refused(await http.delete(f"/messages/{first['partition_id']}/other"), 404, "MESSAGE_NOT_FOUND")
