"""/dlq: look at dead letters, deliver them again, throw them away."""

import asyncio

from tests.broker.shorthand import ack, data, parked, pop, push, refused


async def bury(http, queue, *payloads, group="g", **fields):
    """Push messages and have a group give them up."""
    await push(http, queue, *payloads, **fields)
    popped = await pop(http, queue, batch=len(payloads), consumerGroup=group)
    await ack(http, *popped["messages"], status="dlq", error="no use", consumerGroup=group)


async def listed(http, **query):
    answer = await http.get("/dlq", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_dead_letter_has_everything(http, queue):
    await bury(http, queue, {"n": 1}, partition="ann", transactionId="t")
    page = await listed(http, queue=queue)
    assert (page["total"], page["pagination"]) == (1, {"limit": 100, "offset": 0, "total": 1, "hasMore": False})
    (letter,) = page["messages"]
    (message,) = (await http.get("/messages", params={"queue": queue})).json()["messages"]
    assert letter.pop("failedAt") > letter["createdAt"] == message["createdAt"]
    assert letter.pop("id")
    assert letter == {
        "messageId": message["id"],
        "transactionId": "t",
        "partitionId": message["partitionId"],
        "partition": "ann",
        "queue": queue,
        "offset": 0,
        "consumerGroup": "g",
        "data": {"n": 1},
        "errorMessage": "no use",
        "retryCount": 0,
        "createdAt": message["createdAt"],
        "producerSub": None,
        "traceId": None,
    }


async def test_dead_letters_are_narrowed_and_paged(http, queue):
    await bury(http, queue, 1, 2, 3, partition="ann")
    await bury(http, queue, 4, partition="bob")
    newest = (await listed(http, queue=queue))["messages"][0]["failedAt"]

    async def found(**query):
        return data(await listed(http, queue=queue, **query))

    assert await found() == [4, 3, 2, 1]
    assert await found(partition="ann", limit=2) == [3, 2]
    assert await found(consumerGroup="other") == []
    assert await found(**{"from": newest}) == [4]
    assert await found(to=newest) == [3, 2, 1]
    page = await listed(http, queue=queue, limit=2, offset=1)
    assert (data(page), page["total"], page["pagination"]["hasMore"]) == ([3, 2], 4, True)
    assert not (await listed(http, queue=queue, limit=2, offset=2))["pagination"]["hasMore"]
    for query, status, code in (
        ({"queue": "nowhere"}, 404, "QUEUE_NOT_FOUND"),
        ({"limit": "0"}, 400, "INVALID_ARGUMENT"),
        ({"offset": "-1"}, 400, "INVALID_ARGUMENT"),
        ({"from": "yesterday"}, 400, "INVALID_TIMESTAMP"),
        ({"to": "2025-01-01T00:00:00"}, 400, "INVALID_TIMESTAMP"),
    ):
        refused(await http.get("/dlq", params=query), status, code)


async def test_dead_letters_are_redriven_one_by_one_and_in_bulk(http, queue):
    await bury(http, queue, 1, 2, 3, 4)
    newest = (await listed(http, queue=queue))["messages"][0]
    assert (await http.post("/dlq/redrive", json={"ids": [newest["id"]]})).json() == {"redriven": 1}
    assert data(await pop(http, queue, consumerGroup="g", batch=9, autoAck="true")) == [4]
    body = {"queue": queue, "consumerGroup": "g", "limit": 2}
    assert (await http.post("/dlq/redrive", json=body)).json() == {"redriven": 2}
    assert data(await pop(http, queue, consumerGroup="g", batch=9)) == [1, 2]
    assert (await http.post("/dlq/redrive", json={"queue": queue, "consumerGroup": "x"})).json() == {"redriven": 0}
    assert (await listed(http, queue=queue))["total"] == 1


async def test_a_redrive_wakes_who_waits(http, server, queue):
    await bury(http, queue, 1)
    poll = asyncio.create_task(pop(http, queue, consumerGroup="g", wait="true"))
    await parked(server, 1)
    await http.post("/dlq/redrive", json={"queue": queue})
    assert data(await poll) == [1]


async def test_dead_letters_are_purged_by_what_is_named(http, queue):
    await bury(http, queue, 1, 2, 3)
    await bury(http, queue, 4, group="h", partition="h")
    newest, *others = [each for each in (await listed(http, queue=queue))["messages"] if each["consumerGroup"] == "g"]
    ids = ",".join(each["id"] for each in others[:1])
    assert (await http.delete("/dlq", params={"ids": ids})).json() == {"purged": 1}
    query = {"queue": queue, "consumerGroup": "g", "olderThan": newest["failedAt"]}
    assert (await http.delete("/dlq", params=query)).json() == {"purged": 0}
    assert (await http.delete("/dlq", params={"queue": queue, "consumerGroup": "g"})).json() == {"purged": 2}
    assert (await listed(http, queue=queue))["total"] >= 1


async def test_forgetting_what_is_meant_changes_nothing(http, queue):
    await bury(http, queue, 1)
    refused(await http.delete("/dlq"), 400, "INVALID_ARGUMENT")
    refused(await http.delete("/dlq", params={"ids": "x"}), 400, "INVALID_ARGUMENT")
    refused(await http.delete("/dlq", params={"queue": "nowhere"}), 404, "QUEUE_NOT_FOUND")
    for empty in ("ids", "consumerGroup", "olderThan"):
        refused(await http.delete("/dlq", params={"queue": queue, empty: ""}), 400, "INVALID_ARGUMENT")
    for body in ({}, {"ids": ["x"]}, {"queues": queue}, {"queue": queue, "limit": 0}, {"queue": 7}):
        refused(await http.post("/dlq/redrive", json=body), 400, "INVALID_ARGUMENT")
    unknown = "ffffffff-ffff-ffff-ffff-ffffffffffff"
    assert (await http.post("/dlq/redrive", json={"ids": [unknown]})).json() == {"redriven": 0}
    many = {"ids": [unknown] * 10_001}
    refused(await http.post("/dlq/redrive", json=many), 413, "TOO_MANY_ITEMS")
    assert (await listed(http, queue=queue))["total"] == 1
