"""POST /configure; /resources: queues, partitions, namespaces, tasks; clear and delete."""

import base64
import re
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.broker.shorthand import ack, data, pop, push, refused

DEFAULTS = {
    "leaseTime": 300,
    "retryLimit": 3,
    "retryDelay": 1000,
    "retryBackoff": 1,
    "priority": 0,
    "maxSize": 0,
    "delayedProcessing": 0,
    "windowBuffer": 0,
    "maxWaitTimeSeconds": 0,
    "ttl": 0,
    "retentionEnabled": True,
    "retentionSeconds": 0,
    "completedRetentionSeconds": 604_800,
    "deadLetterRetentionSeconds": 2_592_000,
    "dedupWindowSeconds": 3600,
    "encryptionEnabled": False,
    "deadLetterQueue": True,
    "dlqAfterMaxRetries": True,
}
SETTINGS = {  # the settings of docs/queues.md as clients call them
    "lease_seconds": "leaseTime",
    "retry_limit": "retryLimit",
    "retry_delay_ms": "retryDelay",
    "retry_backoff": "retryBackoff",
    "priority": "priority",
    "max_queue_size": "maxSize",
    "delayed_processing_seconds": "delayedProcessing",
    "window_buffer_seconds": "windowBuffer",
    "max_wait_seconds": "maxWaitTimeSeconds",
    "ttl_seconds": "ttl",
    "retention_seconds": "retentionSeconds",
    "completed_retention_seconds": "completedRetentionSeconds",
    "dead_letter_retention_seconds": "deadLetterRetentionSeconds",
    "dedup_window_seconds": "dedupWindowSeconds",
}
PAGE = (Path(__file__).parents[2] / "docs" / "queues.md").read_text()
RANGES = {
    name: (int(least), int(most))
    for name, least, most in re.findall(r"^\| `(\w+)` \| `\w+` \| (-?\d+) to (\d+) \|", PAGE, re.MULTILINE)
}


async def configure(http, queue, status=200, **options):
    answer = await http.post("/configure", json={"queue": queue, "options": options})
    assert answer.status_code == status, answer.text
    return answer


async def get(http, path, **query):
    answer = await http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_queue_is_made_with_defaults_and_changed_in_what_is_named(http, queue):
    made = (await configure(http, queue)).json()
    assert made["options"] == DEFAULTS
    assert (made["configured"], made["queue"], made["namespace"], made["task"]) == (True, queue, "", "")
    body = {"queue": queue, "namespace": "shop", "task": None, "options": {"leaseTime": 7, "retryDelay": 50}}
    changed = (await http.post("/configure", json=body)).json()
    assert changed["options"] == DEFAULTS | {"leaseTime": 7, "retryDelay": 50}
    assert changed == made | {"namespace": "shop", "options": changed["options"]}
    assert (await http.post("/configure", json={"queue": queue})).json() == changed
    (pushed,) = await push(http, queue, 1)
    assert pushed["partition_id"] == made["partitionId"]


async def test_an_old_name_of_a_setting_means_the_same(http, queue):
    options = (await configure(http, queue, dlqAfterMaxRetries=False)).json()["options"]
    assert (options["deadLetterQueue"], options["dlqAfterMaxRetries"]) == (False, False)
    refused(await configure(http, queue, 400, deadLetterQueue=True, dlqAfterMaxRetries=False), 400, "INVALID_SETTING")


async def test_two_limits_of_age_are_told_as_they_were_sent(http, queue):
    options = (await configure(http, queue, ttl=5, maxWaitTimeSeconds=60)).json()["options"]
    assert (options["maxWaitTimeSeconds"], options["ttl"]) == (60, 5)
    options = (await configure(http, queue, ttl=0)).json()["options"]
    assert (options["maxWaitTimeSeconds"], options["ttl"]) == (60, 0)


@pytest.mark.parametrize("name", RANGES)
async def test_a_setting_is_taken_in_its_documented_range(name, http, queue):
    least, most = RANGES[name]
    for value in (least, most):
        assert (await configure(http, queue, **{SETTINGS[name]: value})).json()["options"][SETTINGS[name]] == value
    for value in (least - 1, most + 1, "1", True, None):
        refused(await configure(http, queue, 400, **{SETTINGS[name]: value}), 400, "INVALID_SETTING")


async def test_what_is_no_setting_is_refused_and_nothing_is_made(http, queue):
    answer = await configure(http, queue, 400, leaseTime=5, leasetime=6)
    assert "leasetime" in refused(answer, 400, "INVALID_SETTING")["error"]
    refused(await http.get(f"/resources/queues/{queue}"), 404, "QUEUE_NOT_FOUND")
    refused(await http.post("/configure", json={"queue": 7}), 400, "INVALID_ARGUMENT")
    refused(await http.post("/configure", json={"options": {}}), 400, "INVALID_ARGUMENT")
    refused(await configure(http, "", 400), 400, "INVALID_NAME")


async def test_a_configured_limit_counts(http, queue):
    await configure(http, queue, maxSize=1)
    await push(http, queue, 1)
    answer = await http.post("/push", json={"items": [{"queue": queue, "payload": 2}]})
    assert answer.status_code == 429


async def test_a_queue_tells_what_it_holds(http, queue):
    await configure(http, queue, retryDelay=60_000)
    await push(http, queue, *range(5), partition="ann")
    await push(http, queue, "x", partition="bob")
    popped = await pop(http, queue, batch=4)
    await ack(http, popped["messages"][0])
    await ack(http, popped["messages"][1], status="dlq")
    queue_now = await get(http, f"/resources/queues/{queue}")
    assert queue_now["totals"] == {
        "total": 6, "pending": 2, "processing": 2, "completed": 2, "failed": 0, "deadLetter": 1,
    }  # fmt: skip
    await ack(http, *popped["messages"][2:], status="failed")
    queue_now = await get(http, f"/resources/queues/{queue}")
    assert queue_now["totals"] == {
        "total": 6, "pending": 4, "processing": 0, "completed": 2, "failed": 2, "deadLetter": 1,
    }  # fmt: skip
    assert (queue_now["name"], queue_now["partitionCount"], queue_now["options"]["retryDelay"]) == (queue, 3, 60_000)
    partitions = {each["name"]: each["messages"] for each in queue_now["partitions"]}
    assert partitions["ann"] == {"total": 5, "pending": 3, "processing": 0, "completed": 2, "failed": 2}
    assert partitions["bob"]["pending"] == 1
    assert partitions["Default"]["total"] == 0


async def test_partitions_are_listed_page_by_page(http, queue):
    for name in ("ann", "bob", "eve"):
        await push(http, queue, 1, partition=name)
    for path, query in ((f"/resources/queues/{queue}", {}), ("/resources/partitions", {"queue": queue})):
        found, cursor = [], ""
        while cursor is not None:
            page = await get(http, path, limit=2, cursor=cursor, **query)
            found += [each["name"] for each in page["partitions"]]
            cursor = page["nextCursor"]
        assert found == ["ann", "bob", "eve"]
    assert (await get(http, "/resources/partitions", limit=1))["partitions"][0]["id"]
    refused(await http.get("/resources/partitions", params={"cursor": "x"}), 400, "INVALID_ARGUMENT")
    refused(await http.get("/resources/partitions", params={"queue": "nowhere"}), 404, "QUEUE_NOT_FOUND")
    refused(await http.get("/resources/partitions", params={"limit": 1001}), 400, "INVALID_ARGUMENT")


async def test_queues_are_listed_by_name_and_narrowed(http, queue):
    for name, namespace, task in (("b", "one", "x"), ("a", "one", "y"), ("C%_", "two", "y")):
        body = {"queue": f"{queue}-{name}", "namespace": f"{queue}-{namespace}", "task": f"{queue}-{task}"}
        await http.post("/configure", json=body)

    async def names(**query):
        found = await get(http, "/resources/queues", **query)
        return [each["name"].removeprefix(f"{queue}-") for each in found["queues"]], found["total"]

    assert sorted((await names(search=queue.upper()))[0]) == ["C%_", "a", "b"]
    assert await names(search=f"{queue}-c%_") == (["C%_"], 1)
    assert await names(namespace=f"{queue}-one") == (["a", "b"], 2)
    assert await names(namespace=f"{queue}-one", task=f"{queue}-y") == (["a"], 1)
    assert await names(namespace=f"{queue}-one", limit=1, offset=1) == (["b"], 2)
    for bad in ({"limit": 0}, {"limit": 1001}, {"limit": "many"}, {"offset": -1}):
        refused(await http.get("/resources/queues", params=bad), 400, "INVALID_ARGUMENT")
    namespaces = {each["name"]: each for each in (await get(http, "/resources/namespaces"))["namespaces"]}
    assert namespaces[f"{queue}-one"]["queues"] == 2
    tasks = {each["name"]: each for each in (await get(http, "/resources/tasks"))["tasks"]}
    assert tasks[f"{queue}-y"]["queues"] == 2
    assert tasks[f"{queue}-x"]["messages"]["total"] == 0


async def test_the_depth_is_told_for_a_group_and_for_the_slowest(http, queue):
    await push(http, queue, 1, 2, 3, partition="ann")
    await push(http, queue, 4, partition="bob")
    path = f"/resources/queues/{queue}/depth"
    depth = await get(http, path)
    assert depth == {
        "queue": queue,
        "group": None,
        "pending": 4,
        "partitionsPending": 2,
        "conflation": False,
        "effectivePending": 4,
        "partitions": [{"partition": "ann", "pending": 3}, {"partition": "bob", "pending": 1}],
    }
    await pop(http, queue, consumerGroup="g", batch=10, partitions=2, autoAck=True)
    assert (await get(http, path, group="g"))["pending"] == 0
    await pop(http, queue, consumerGroup="slow", batch=1)
    assert (await get(http, path))["pending"] == 3  # one is leased
    assert len((await get(http, path, group="slow", limit=1))["partitions"]) == 1
    refused(await http.get(path, params={"group": "nobody"}), 404, "GROUP_NOT_FOUND")
    refused(await http.get("/resources/queues/nowhere/depth"), 404, "QUEUE_NOT_FOUND")


async def test_a_queue_is_cleared_and_deleted(http, queue):
    name = f"{queue}/with ünusual%name"
    path = quote(name, safe="")
    await push(http, name, 1, 2)
    assert (await http.delete(f"/queues/{path}/clear")).json() == {"cleared": True, "queue": name, "messages": 2}
    await pop(http, name, status=204)
    await push(http, name, 3)
    assert data(await pop(http, name)) == [3]
    assert (await http.delete(f"/resources/queues/{path}")).json() == {"deleted": True, "existed": True, "queue": name}
    assert (await http.delete(f"/resources/queues/{path}")).json() == {"deleted": True, "existed": False, "queue": name}
    refused(await http.delete(f"/queues/{path}/clear"), 404, "QUEUE_NOT_FOUND")
    refused(await http.get(f"/resources/queues/{path}"), 404, "QUEUE_NOT_FOUND")


async def test_encrypted_messages_are_shown_where_the_key_is(serve, queue, connection):
    server = await serve(encryption_keys="k:" + base64.b64encode(bytes(32)).decode())
    async with server.client() as http:
        await configure(http, queue, encryptionEnabled=True)
        await push(http, queue, {"secret": 1}, transactionId="t")
        popped = await pop(http, queue)
        await ack(http, *popped["messages"], status="dlq")
        assert b"secret" not in await connection.fetchval("select payloads from queen.segments")
        (listed,) = (await get(http, "/messages", queue=queue))["messages"]
        assert (listed["data"], listed["encrypted"], listed["status"]) == ({"secret": 1}, True, "dead_letter")
        (letter,) = (await get(http, "/dlq", queue=queue))["messages"]
        assert letter["data"] == {"secret": 1}
