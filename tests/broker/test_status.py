"""/status, /analytics and /resources/overview."""

from tests.broker.shorthand import ack, pop, push, refused


async def get(http, path, **query):
    answer = await http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def refresh(http):
    assert (await http.post("/stats/refresh", json={})).json() == {"refreshed": True}


async def test_the_overview_counts_everything(http, queue):
    before = await get(http, "/resources/overview")
    await http.post("/configure", json={"queue": queue, "namespace": queue, "task": queue})
    await push(http, queue, 1, 2, 3, partition="ann")
    popped = await pop(http, queue, batch=2, consumerGroup=queue)
    await ack(http, popped["messages"][0], status="dlq")
    after = await get(http, "/resources/overview")
    grown = {name: after[name] - before[name] for name in after.keys() - {"messages", "countedAt"}}
    assert grown == {
        "queues": 1, "partitions": 2, "namespaces": 1, "tasks": 1, "consumerGroups": 1, "activeLeases": 1,
    }  # fmt: skip
    assert {name: after["messages"][name] - before["messages"][name] for name in after["messages"]} == {
        "total": 3, "pending": 1, "processing": 1, "completed": 1, "failed": 0, "deadLetter": 1,
    }  # fmt: skip
    assert (await get(http, "/status"))["overview"]["queues"] == after["queues"]


async def test_traffic_is_told_when_it_was_counted(http, queue):
    await push(http, queue, 1, 2, 3)
    popped = await pop(http, queue, batch=2)
    await ack(http, popped["messages"][0])
    await ack(http, popped["messages"][1], status="dlq")
    await refresh(http)
    for interval in ("minute", "hour", "day"):
        told = await get(http, "/status/analytics", interval=interval, queue=queue)
        assert told["totals"] == {"ingested": 3, "processed": 1, "deadLettered": 1, "expired": 0}
        assert told["timeRange"]["interval"] == interval
        assert max(step["unfinished"] or 0 for step in told["throughput"]) == 1
        assert sum(step["ingestedPerSecond"] for step in told["throughput"]) > 0
    assert len((await get(http, "/status/analytics"))["throughput"]) in (24, 25)
    assert (await get(http, "/status/analytics", namespace="nowhere"))["totals"]["ingested"] == 0
    assert sum(step["ingested"] for step in (await get(http, "/status"))["throughput"]) >= 3


async def test_a_queue_is_told_with_its_groups(http, queue):
    await push(http, queue, 1, partition="ann")
    await push(http, queue, 2, partition="bob")
    await pop(http, queue, consumerGroup="g")
    await refresh(http)
    told = await get(http, f"/status/queues/{queue}")
    assert told["queue"]["name"] == queue
    assert told["groups"] == [{"name": "g", "complete": True, "partitionsPending": 2, "activeLeases": 1}]
    assert sum(step["ingested"] for step in told["throughput"]) == 2
    (listed,) = (await get(http, "/status/queues", search=queue))["queues"]
    assert (listed["name"], listed["messages"]["total"]) == (queue, 2)


async def test_a_time_that_makes_no_sense_is_refused(http):
    for query, code in (
        ({"interval": "week"}, "INVALID_ARGUMENT"),
        ({"from": "2025-01-02T00:00:00Z", "to": "2025-01-01T00:00:00Z"}, "INVALID_ARGUMENT"),
        ({"from": "2001-01-01T00:00:00Z"}, "INVALID_ARGUMENT"),
        ({"from": "0001-01-01T00:00:00Z"}, "INVALID_ARGUMENT"),
        ({"to": "0001-01-01T00:00:00Z"}, "INVALID_TIMESTAMP"),
        ({"from": "soon"}, "INVALID_TIMESTAMP"),
    ):
        refused(await http.get("/status/analytics", params=query), 400, code)
    refused(await http.get("/status/queues/nowhere"), 404, "QUEUE_NOT_FOUND")
    refused(await http.get("/status/analytics", params={"queue": "nowhere"}), 404, "QUEUE_NOT_FOUND")


async def test_the_server_and_postgresql_are_told(http, queue):
    await push(http, queue, 1)
    system = await get(http, "/analytics/system-metrics")
    assert system["cpuSeconds"] > 0
    assert system["peakMemoryBytes"] > 1_000_000
    workers = await get(http, "/analytics/worker-metrics")
    assert workers["counters"]["messages_pushed"] >= 1
    assert workers["gauges"]["workers"] >= 1
    postgres = await get(http, "/analytics/postgres-stats")
    assert postgres["database"]["connections"] > 0
    assert {"segments", "partition_lookup", "dead_letters"} <= {table["name"] for table in postgres["tables"]}
