"""Consumer groups over HTTP: looked at, moved, resubscribed, forgotten."""

from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest

from tests.broker.shorthand import ack, data, pop, push, refused

GROUP_KEYS = {
    "name", "queueName", "topics", "members", "totalLag", "maxTimeLag", "partitionsWithLag", "state",
    "subscriptionMode", "subscriptionTimestamp", "subscriptionCreatedAt", "paused",
}  # fmt: skip
PLACE_KEYS = {
    "partition", "offsetLag", "timeLagSeconds", "leaseActive", "workerId", "lastConsumedAt", "totalConsumed",
}  # fmt: skip


@pytest.fixture
def group(queue):
    """The name of a group that no other test uses."""
    return f"readers of {queue}"


async def seek(http, group, queue, body, partition=None):
    place = f"queues/{quote(queue, safe='')}" + (f"/partitions/{quote(partition, safe='')}" if partition else "")
    return await http.post(f"/consumer-groups/{quote(group, safe='')}/{place}/seek", json=body)


async def listed(http, group, path="/consumer-groups", **query):
    answer = await http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return [line for line in answer.json() if line["name"] == group]


async def read(http, queue, group, **query):
    popped = await http.get(
        f"/pop/queue/{quote(queue, safe='')}",
        params={"consumerGroup": group, "autoAck": "true", "batch": 100, "partitions": 10, "empty": "200", **query},
    )
    return data(popped.json())


# -- looking


async def test_a_group_is_listed_with_its_lag_and_its_subscription(http, queue, group):
    await push(http, queue, 1, 2, 3)
    popped = await pop(http, queue, consumerGroup=group, batch=2)
    await ack(http, popped["messages"][0], consumerGroup=group)
    [line] = await listed(http, group)
    assert line.keys() == GROUP_KEYS
    assert (line["queueName"], line["topics"], line["members"], line["totalLag"]) == (queue, [queue], 1, 2)
    assert (line["partitionsWithLag"], line["state"], line["subscriptionMode"]) == (1, "Stable", "all")
    assert (line["subscriptionTimestamp"], line["maxTimeLag"] >= 0) == (None, True)
    assert datetime.fromisoformat(line["subscriptionCreatedAt"]).tzinfo is not None


async def test_a_group_is_described_by_queue_and_partition(http, queue, group):
    await push(http, queue, 1, 2, partition="ann")
    await push(http, queue, 3, partition="bob")
    assert sorted(await read(http, queue, group)) == [1, 2, 3]
    await push(http, queue, 4, partition="ann")
    popped = await pop(http, queue, consumerGroup=group)
    answer = await http.get(f"/consumer-groups/{quote(group)}")
    [(name, described)] = answer.json().items()
    ann, bob = described["partitions"]
    assert (name, ann.keys()) == (queue, PLACE_KEYS)
    assert (ann["partition"], ann["offsetLag"], ann["totalConsumed"]) == ("ann", 1, 2)
    assert (ann["leaseActive"], ann["workerId"]) == (True, popped["leaseId"])
    assert (bob["partition"], bob["offsetLag"], bob["timeLagSeconds"], bob["leaseActive"]) == ("bob", 0, 0, False)
    assert (bob["workerId"], bob["totalConsumed"]) == (None, 1)
    one = await http.get(f"/consumer-groups/{quote(group)}", params={"limit": 1})
    assert one.json() == {queue: {"partitions": [ann | {"timeLagSeconds": pytest.approx(0, abs=60)}]}}


async def test_only_groups_that_are_behind_are_lagging(http, queue, group):
    await push(http, queue, 1)
    await pop(http, queue, consumerGroup=group)
    assert await listed(http, group, "/consumer-groups/lagging", minLagSeconds=0) != []
    assert await listed(http, group, "/consumer-groups/lagging", minLagSeconds=3600) == []
    assert await listed(http, group, "/consumer-groups/lagging") == []


async def test_bad_questions_are_refused(http, queue, group):
    refused(await http.get(f"/consumer-groups/{quote(group)}"), 404, "GROUP_NOT_FOUND")
    for bad in ("-1", "x", "1.5", ""):
        answer = await http.get("/consumer-groups/lagging", params={"minLagSeconds": bad})
        refused(answer, 400, "INVALID_ARGUMENT")
    refused(await http.get("/consumer-groups/g", params={"limit": 0}), 400, "INVALID_ARGUMENT")


# -- moving


async def test_a_group_moves_to_the_end_and_back_to_the_beginning(http, queue, group):
    await push(http, queue, 1, 2, partition="ann")
    await push(http, queue, 3, partition="bob")
    assert sorted(await read(http, queue, group)) == [1, 2, 3]
    answer = await seek(http, group, queue, {"toBeginning": True})
    assert answer.json() == {
        "success": True, "consumerGroup": group, "queueName": queue, "partition": None, "partitionsUpdated": 2,
        "targetTimestamp": None, "seekToEnd": False,
    }  # fmt: skip
    answer = await seek(http, group, queue, {"toEnd": True})
    assert (answer.json()["partitionsUpdated"], answer.json()["seekToEnd"]) == (2, True)
    assert await read(http, queue, group) == []
    await seek(http, group, queue, {"toBeginning": True, "toEnd": False})
    assert sorted(await read(http, queue, group)) == [1, 2, 3]


async def test_a_group_moves_to_a_moment(http, queue, group):
    await push(http, queue, 1)
    between = datetime.now(UTC).isoformat()
    await push(http, queue, 2)
    assert await read(http, queue, group) == [1, 2]
    answer = await seek(http, group, queue, {"timestamp": between})
    assert datetime.fromisoformat(answer.json()["targetTimestamp"]) == datetime.fromisoformat(between)
    assert await read(http, queue, group) == [2]


async def test_a_group_moves_to_an_offset_of_one_partition(http, queue, group):
    await push(http, queue, 1, 2, 3, partition="a/b c")
    await push(http, queue, 4, partition="other")
    assert sorted(await read(http, queue, group)) == [1, 2, 3, 4]
    answer = await seek(http, group, queue, {"offset": 1, "partition": "a/b c"})
    assert (answer.json()["partitionsUpdated"], answer.json()["partition"]) == (1, "a/b c")
    assert await read(http, queue, group) == [2, 3]
    answer = await seek(http, group, queue, {"offset": 2}, "a/b c")
    assert (answer.json()["partitionsUpdated"], answer.json()["partition"]) == (1, "a/b c")
    assert await read(http, queue, group) == [3]
    await seek(http, group, queue, {"toBeginning": True}, "other")
    assert await read(http, queue, group) == [4]


@pytest.mark.parametrize(
    "body",
    [
        {}, {"toEnd": False}, {"toEnd": True, "toBeginning": True},
        {"toEnd": True, "timestamp": "2030-01-01T00:00:00Z"},
        {"offset": 1}, {"partition": "Default"}, {"toEnd": True, "partition": "Default"},
        {"offset": -1, "partition": "Default"}, {"offset": "1", "partition": "Default"}, {"toEnd": 1}, [],
        {"offset": 2**70, "partition": "Default"}, {"toend": True},
    ],
)  # fmt: skip
async def test_a_seek_names_exactly_one_target(http, queue, group, body):
    await push(http, queue, 1)
    assert await read(http, queue, group) == [1]
    refused(await seek(http, group, queue, body), 400, "INVALID_ARGUMENT")
    assert await read(http, queue, group) == []


async def test_seeks_to_nowhere_are_refused(http, queue, group):
    for bad in ("yesterday", "2030-01-01T00:00:00", "", "now"):
        refused(await seek(http, group, queue, {"timestamp": bad}), 400, "INVALID_TIMESTAMP")
    refused(await seek(http, group, queue, {"toEnd": True}), 404, "QUEUE_NOT_FOUND")
    await push(http, queue, 1)
    refused(await seek(http, group, queue, {"toEnd": True}), 404, "GROUP_NOT_FOUND")
    await read(http, queue, group)
    refused(await seek(http, group, queue, {"toEnd": True}, "nowhere"), 404, "PARTITION_NOT_FOUND")


# -- subscriptions


async def test_a_subscription_is_moved_on_all_queues_of_a_group(http, queue, group):
    start = datetime.now(UTC)
    for name in (queue, f"{queue} too"):
        await push(http, name, 1)
        assert await read(http, name, group, subscriptionFrom=datetime.now(UTC).isoformat()) == []
    since = (start - timedelta(minutes=1)).isoformat()
    answer = await http.post(f"/consumer-groups/{quote(group)}/subscription", json={"subscriptionTimestamp": since})
    assert answer.status_code == 200
    told = answer.json()
    assert (told["success"], told["consumerGroup"], told["subscriptionsUpdated"]) == (True, group, 2)
    assert {line["subscriptionMode"] for line in await listed(http, group)} == {"timestamp"}
    assert await read(http, queue, group) == []
    await http.delete(f"/consumer-groups/{quote(group)}", params={"deleteMetadata": "false"})
    assert await read(http, queue, group) == [1]


async def test_a_bad_subscription_is_refused(http, queue, group):
    path = f"/consumer-groups/{quote(group)}/subscription"
    past, future = "2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z"
    refused(await http.post(path, json={"subscriptionTimestamp": past}), 404, "GROUP_NOT_FOUND")
    await push(http, queue, 1)
    await read(http, queue, group)
    refused(await http.post(path, json={"subscriptionTimestamp": "soon"}), 400, "INVALID_TIMESTAMP")
    refused(await http.post(path, json={"subscriptionTimestamp": future}), 400, "INVALID_TIMESTAMP")
    refused(await http.post(path, json={}), 400, "INVALID_ARGUMENT")


# -- forgetting


async def test_a_group_is_forgotten_on_one_queue_or_on_all(http, queue, group):
    names = [f"{queue} a/b", f"{queue} c"]
    for name in names:
        await push(http, name, 1)
        assert await read(http, name, group) == [1]
    answer = await http.delete(f"/consumer-groups/{quote(group)}/queues/{quote(names[0], safe='')}")
    assert answer.json() == {
        "success": True, "consumerGroup": group, "queueName": names[0], "queuesDeleted": 1, "metadataDeleted": True,
    }  # fmt: skip
    assert [line["queueName"] for line in await listed(http, group)] == [names[1]]
    assert await read(http, names[0], group) == [1]
    answer = await http.delete(f"/consumer-groups/{quote(group)}")
    assert (answer.json()["queueName"], answer.json()["queuesDeleted"]) == (None, 2)
    assert await listed(http, group) == []
    answer = await http.delete(f"/consumer-groups/{quote(group)}")
    assert answer.json()["queuesDeleted"] == 0


async def test_forgetting_needs_a_queue_and_a_clear_word(http, queue, group):
    refused(await http.delete(f"/consumer-groups/{quote(group)}/queues/{queue}"), 404, "QUEUE_NOT_FOUND")
    answer = await http.delete(f"/consumer-groups/{quote(group)}", params={"deleteMetadata": "perhaps"})
    refused(answer, 400, "INVALID_ARGUMENT")
