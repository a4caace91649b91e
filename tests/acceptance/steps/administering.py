"""Queues, messages, dead letters, groups, traces, reads by offset, and how the server is."""

from datetime import UTC, datetime

import httpx
from queen import Queen

TOTALS = {"total", "pending", "processing", "completed", "failed", "deadLetter"}


async def _push(client, name, *values, partition="Default"):
    return await client.queue(name).partition(partition).push([{"data": value} for value in values])


async def _pop(builder, batch=10):
    return await builder.batch(batch).wait(enabled=False).pop()


async def _values(builder, batch=10):
    return [message["data"] for message in await _pop(builder, batch)]


async def _status(call):
    """The status of an answer that is an error, None if it is none."""
    try:
        await call
    except httpx.HTTPStatusError as error:
        return error.response.status_code
    return None


# -- queues


async def a_queue_is_created_with_options(client, name):
    options = {"lease_time": 60, "retry_limit": 7, "priority": 3, "max_size": 1000, "retention_seconds": 3600}
    answer = await client.queue(name).namespace("shop").task("mail").config(options).create()
    assert answer["configured"]
    assert (answer["queue"], answer["namespace"], answer["task"]) == (name, "shop", "mail")
    assert answer["queueId"]
    assert answer["partitionId"]
    shown = answer["options"]
    assert (shown["leaseTime"], shown["retryLimit"], shown["priority"], shown["maxSize"]) == (60, 7, 3, 1000)
    assert (shown["retentionSeconds"], shown["encryptionEnabled"]) == (3600, False)


async def a_queue_is_created_with_defaults(client, name):
    shown = (await client.queue(name).create())["options"]
    assert (shown["leaseTime"], shown["retryLimit"], shown["retryDelay"], shown["deadLetterQueue"]) == (
        300,
        3,
        1000,
        True,
    )


async def two_limits_of_age_come_back_as_they_were_sent(client, name):
    sent = {"max_wait_time_seconds": 3600, "ttl": 60}
    shown = (await client.queue(name).config(sent).create())["options"]
    assert (shown["maxWaitTimeSeconds"], shown["ttl"]) == (3600, 60)


async def an_option_out_of_range_is_refused(client, name):
    assert await _status(client.queue(name).config({"lease_time": -1}).create()) == 400
    assert await _status(client.admin.get_queue(name)) == 404


async def an_option_is_obeyed(client, name):
    await client.queue(name).config({"delayed_processing": 3600}).create()
    await _push(client, name, 1)
    assert await _pop(client.queue(name)) == []


async def a_full_queue_takes_no_more(client, name):
    await client.queue(name).config({"max_size": 2}).create()
    await _push(client, name, 1, 2)
    address = client._http_client._base_url
    async with Queen(address, retry_attempts=1, retry_429={"max_attempts": 1}) as impatient:
        assert await _status(_push(impatient, name, 3)) == 429
    assert await _values(client.queue(name)) == [1, 2]


async def a_queue_is_deleted(client, name):
    await _push(client, name, 1)
    answer = await client.queue(name).delete()
    assert (answer["deleted"], answer["existed"], answer["queue"]) == (True, True, name)
    assert not (await client.queue(name).delete())["existed"]
    assert await _pop(client.queue(name)) == []
    await _push(client, name, 2)
    assert await _values(client.queue(name)) == [2]


async def queues_are_listed(client, name):
    await client.queue(name).namespace(f"{name}-space").task(f"{name}-task").create()
    await _push(client, name, 1, 2)
    await client.admin.refresh_consumer_stats()
    listed = (await client.admin.list_queues(limit=1000))["queues"]
    [own] = [queue for queue in listed if queue["name"] == name]
    assert (own["namespace"], own["task"], own["partitions"]) == (f"{name}-space", f"{name}-task", 1)
    assert own["messages"].keys() >= TOTALS
    assert own["messages"]["total"] == 2
    assert f"{name}-space" in {each["name"] for each in (await client.admin.get_namespaces())["namespaces"]}
    assert f"{name}-task" in {each["name"] for each in (await client.admin.get_tasks())["tasks"]}


async def a_queue_is_described(client, name):
    await _push(client, name, 1, 2, partition="a")
    await _push(client, name, 3, partition="b")
    [message] = await _pop(client.queue(name).partition("b"))
    await client.admin.refresh_consumer_stats()
    described = await client.admin.get_queue(name)
    assert described["name"] == name
    assert described["totals"]["total"] == 3
    assert described["totals"]["pending"] == 2
    assert described["totals"]["processing"] == 1
    assert {partition["name"] for partition in described["partitions"]} >= {"a", "b"}
    assert (await client.ack(message))["success"]
    assert await _status(client.admin.get_queue(f"{name}-unknown")) == 404


async def the_depth_of_a_queue_is_told(client, name):
    for partition in ("a", "b"):
        await _push(client, name, 1, 2, partition=partition)
    done = await _pop(client.queue(name).group("readers"))
    assert (await client.ack(done, True, {"group": "readers"}))["success"]
    [left] = {"a", "b"} - {message["partition"] for message in done}
    depth = await client.admin.get_queue_depth(name, "readers")
    assert (depth["queue"], depth["group"], depth["pending"], depth["partitionsPending"]) == (name, "readers", 2, 1)
    assert [(each["partition"], each["pending"]) for each in depth["partitions"]] == [(left, 2)]
    assert (depth["conflation"], depth["effectivePending"]) == (False, 2)
    assert (await client.admin.get_queue_depth(name))["pending"] == 2


async def partitions_are_listed(client, name):
    await _push(client, name, 1, partition="a")
    listed = (await client.admin.get_partitions(queue=name))["partitions"]
    assert "a" in {partition["name"] for partition in listed}


async def the_overview_counts_everything(client, name):
    await _push(client, name, 1)
    overview = await client.admin.get_overview()
    assert overview["queues"] >= 1
    assert overview["partitions"] >= 1
    assert overview["messages"].keys() >= TOTALS


# -- messages


async def messages_are_listed_page_by_page(client, name):
    await _push(client, name, *range(5))
    seen, cursor = [], None
    while True:
        page = await client.admin.list_messages(queue=name, limit=2, cursor=cursor)
        seen += [message["data"] for message in page["messages"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert sorted(seen) == list(range(5))


async def messages_are_listed_by_status(client, name):
    await _push(client, name, 1, 2, 3)
    messages = await _pop(client.queue(name), batch=2)
    await client.ack(messages[0])
    found = {}
    for status in ("completed", "processing", "pending"):
        listed = await client.admin.list_messages(queue=name, status=status)
        found[status] = [message["data"] for message in listed["messages"]]
    assert found == {"completed": [1], "processing": [2], "pending": [3]}


async def a_message_is_shown(client, name):
    [pushed] = await _push(client, name, {"n": 1})
    address = pushed["partition_id"], pushed["transaction_id"]
    message = await client.admin.get_message(*address)
    assert (message["queue"], message["data"], message["status"]) == (name, {"n": 1}, "pending")
    assert message["transactionId"] == pushed["transaction_id"]
    assert await _status(client.admin.get_message(address[0], "unknown")) == 404


async def a_message_is_deleted(client, name):
    pushed = await _push(client, name, 1, 2, 3)
    await client.ack(await _pop(client.queue(name), batch=1))
    answer = await client.admin.delete_message(pushed[1]["partition_id"], pushed[1]["transaction_id"])
    assert answer["success"]
    assert await _values(client.queue(name)) == [3]


async def a_dead_message_is_tried_again(client, name):
    await _push(client, name, 1)
    [message] = await _pop(client.queue(name))
    assert (await client.ack(message, "dlq"))["dlq"]
    assert (await client.admin.retry_message(message["partitionId"], message["transactionId"]))["success"]
    assert await _values(client.queue(name)) == [1]
    assert (await client.queue(name).dlq().get())["total"] == 0


async def dead_letters_are_listed_page_by_page(client, name):
    await _push(client, name, *range(5), partition="p")
    await client.ack(await _pop(client.queue(name)), "dlq", {"error": "no use"})
    pages = [await client.queue(name).dlq().limit(2).offset(offset).get() for offset in (0, 2, 4)]
    assert [page["total"] for page in pages] == [5, 5, 5]
    assert sorted(letter["data"] for page in pages for letter in page["messages"]) == list(range(5))
    assert {letter["errorMessage"] for page in pages for letter in page["messages"]} == {"no use"}
    assert (await client.queue(name).partition("p").dlq().get())["total"] == 5
    assert (await client.queue(name).partition("q").dlq().get())["total"] == 0
    now = datetime.now(UTC).isoformat()
    assert (await client.queue(name).dlq().from_(now).get())["total"] == 0
    assert (await client.queue(name).dlq().to(now).get())["total"] == 5


# -- groups


async def groups_are_listed(client, name):
    await _push(client, name, 1, 2)
    await _pop(client.queue(name).group(f"{name}-group"), batch=1)
    [group] = [each for each in await client.admin.list_consumer_groups() if each["name"] == f"{name}-group"]
    assert group["queueName"] == name
    assert group["topics"] == [name]
    assert group["totalLag"] == 2
    assert group["partitionsWithLag"] == 1
    assert group["subscriptionMode"] == "all"
    assert group.keys() >= {"members", "maxTimeLag", "state", "subscriptionTimestamp", "subscriptionCreatedAt"}


async def a_group_is_described(client, name):
    await _push(client, name, 1, 2, partition="p")
    await client.ack(await _pop(client.queue(name).group(f"{name}-group"), batch=1), True, {"group": f"{name}-group"})
    described = await client.admin.get_consumer_group(f"{name}-group")
    [place] = described[name]["partitions"]
    assert (place["partition"], place["offsetLag"], place["leaseActive"], place["totalConsumed"]) == ("p", 1, False, 1)
    assert place["lastConsumedAt"]


async def lagging_groups_are_listed(client, name):
    await _push(client, name, 1)
    await _pop(client.queue(name).group(f"{name}-group"))
    assert isinstance(await client.admin.get_lagging_consumers(3600), list)
    assert f"{name}-group" in {each["name"] for each in await client.admin.get_lagging_consumers(0)}


async def a_group_seeks_to_the_end(client, name):
    await _push(client, name, 1, 2)
    await client.ack(await _pop(client.queue(name).group("readers"), batch=1), True, {"group": "readers"})
    answer = await client.admin.seek_consumer_group("readers", name, {"toEnd": True})
    assert (answer["success"], answer["consumerGroup"], answer["queueName"]) == (True, "readers", name)
    assert answer["seekToEnd"]
    await _push(client, name, 3)
    assert await _values(client.queue(name).group("readers")) == [3]


async def a_group_seeks_to_a_time(client, name):
    await _push(client, name, "old")
    messages = await _pop(client.queue(name).group("readers"))
    await client.ack(messages, True, {"group": "readers"})
    answer = await client.admin.seek_consumer_group("readers", name, {"timestamp": messages[0]["createdAt"]})
    assert answer["success"]
    assert answer["partitionsUpdated"] == 1
    assert await _values(client.queue(name).group("readers")) == ["old"]


async def a_seek_without_a_target_is_refused(client, name):
    await _push(client, name, 1)
    await _pop(client.queue(name).group("readers"))
    assert await _status(client.admin.seek_consumer_group("readers", name)) == 400


async def a_group_is_deleted(client, name):
    await _push(client, name, 1)
    group = f"{name}-group"
    await client.ack(await _pop(client.queue(name).group(group)), True, {"group": group})
    assert (await client.delete_consumer_group(group))["success"]
    assert group not in {each["name"] for each in await client.admin.list_consumer_groups()}
    assert await _values(client.queue(name).group(group)) == [1]


async def a_group_is_deleted_from_one_queue(client, name):
    group, queues = f"{name}-group", [f"{name}-1", f"{name}-2"]
    for queue in queues:
        await _push(client, queue, queue)
        await client.ack(await _pop(client.queue(queue).group(group)), True, {"group": group})
    assert (await client.admin.delete_consumer_group_for_queue(group, queues[0]))["success"]
    assert await _values(client.queue(queues[0]).group(group)) == [queues[0]]
    assert await _values(client.queue(queues[1]).group(group)) == []


async def the_start_of_a_group_is_moved(client, name):
    await _push(client, name, 1)
    group = f"{name}-group"
    await _pop(client.queue(name).group(group).subscription_from("now"))
    answer = await client.update_consumer_group_timestamp(group, "2020-01-01T00:00:00Z")
    assert answer["success"]
    [listed] = [each for each in await client.admin.list_consumer_groups() if each["name"] == group]
    assert listed["subscriptionTimestamp"].startswith("2020-01-01T00:00:00")


# -- traces


async def a_consumer_leaves_traces(client, name):
    await _push(client, name, 1)
    told = []

    async def handle(message):
        told.append(message)
        told.append(await message["trace"]({"traceName": [f"{name}-trace"], "eventType": "step", "data": {"n": 1}}))

    await client.queue(name).batch(1).limit(1).consume(handle)
    message, answer = told
    assert answer["success"], answer
    [event] = (await client.admin.get_traces_for_message(message["partitionId"], message["transactionId"]))["traces"]
    assert (event["event_type"], event["data"], event["queue_name"]) == ("step", {"n": 1}, name)
    named = await client.admin.get_traces_by_name(f"{name}-trace", limit=10)
    assert [event["data"] for event in named["traces"]] == [{"n": 1}]
    names = await client.admin.get_trace_names(limit=1000)
    assert f"{name}-trace" in {each["trace_name"] for each in names["trace_names"]}


# -- reads by offset


async def partitions_are_read_by_offset(client, name):
    await _push(client, name, 1, 2, 3, partition="a")
    await _push(client, name, 4, partition="b")
    read = await client.queue(name).fetch(["a", "b", "unknown"])
    assert [record["payload"] for record in read["a"]["records"]] == [1, 2, 3]
    assert [record["offset"] for record in read["a"]["records"]] == [0, 1, 2]
    assert (read["a"]["highWatermark"], read["a"]["logStartOffset"], read["a"]["nextOffset"]) == (3, 0, 3)
    assert [record["payload"] for record in read["b"]["records"]] == [4]
    assert read["unknown"]["records"] == []
    later = await client.queue(name).fetch("a", offsets={"a": 2})
    assert [record["payload"] for record in later["a"]["records"]] == [3]


async def changed_partitions_are_found(client, name):
    assert await client.queue(f"{name}-unknown").changed_since() is not None
    await _push(client, name, 1, partition="a")
    first = await client.queue(name).changed_since()
    assert [(each["name"], each["lastOffset"]) for each in first["partitions"] if each["name"] == "a"] == [("a", 0)]
    await _push(client, name, 2, partition="b")
    second = await client.queue(name).changed_since(first["safeTime"])
    assert "b" in {each["name"] for each in second["partitions"]}


# -- the server


async def the_server_is_healthy(client, name):
    assert (await client.admin.health())["status"] == "healthy"


async def the_server_tells_its_numbers(client, name):
    await _push(client, name, 1)
    assert (await client.admin.metrics())["messages"]["pushed"] >= 1
    assert await client.admin.get_system_metrics()
    assert await client.admin.get_worker_metrics()


async def the_status_tells_what_happened(client, name):
    await _push(client, name, 1)
    await client.admin.refresh_consumer_stats()
    status = await client.admin.get_status()
    assert status["overview"]["queues"] >= 1
    assert isinstance(status["throughput"], list)
    assert name in {queue["name"] for queue in (await client.admin.get_queue_stats(limit=1000))["queues"]}
    assert (await client.admin.get_queue_detail(name))["queue"]["name"] == name
    assert isinstance((await client.admin.get_analytics(interval="minute"))["throughput"], list)


async def maintenance_holds_pushes_back(client, name):
    http = client._http_client
    try:
        assert (await http.post("/api/v1/system/maintenance", {"enabled": True}))["enabled"]
        [answer] = await _push(client, name, 1)
        assert answer["status"] == "buffered"
        assert (await http.get("/api/v1/system/maintenance"))["bufferedMessages"] == 1
        assert await _pop(client.queue(name)) == []
    finally:
        assert not (await http.post("/api/v1/system/maintenance", {"enabled": False}))["enabled"]
    assert [message["data"] for message in await client.queue(name).wait(enabled=True).pop()] == [1]


async def maintenance_holds_deliveries_back(client, name):
    http = client._http_client
    await _push(client, name, 1)
    try:
        assert (await http.post("/api/v1/system/maintenance/pop", {"enabled": True}))["enabled"]
        assert await _pop(client.queue(name)) == []
    finally:
        assert not (await http.post("/api/v1/system/maintenance/pop", {"enabled": False}))["enabled"]
    assert await _values(client.queue(name)) == [1]
