"""/why, /ledger, /unread, /verify and /doctor."""

import asyncpg

from tests.broker.shorthand import pop, push, refused


async def get(http, path, **query):
    answer = await http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_why_names_the_lease_that_is_in_the_way(http, queue):
    await push(http, queue, 1, 2, partition="ann")
    popped = await pop(http, queue, consumerGroup="g")
    [reason] = await get(http, f"/why/{queue}", group="g")
    assert (reason["partition"], reason["cause"], reason["leaseId"]) == ("ann", "leased", popped["leaseId"])
    assert reason["until"].endswith("Z")
    assert "a consumer holds it" in reason["explanation"]
    assert [each["cause"] for each in await get(http, f"/why/{queue}")] == ["no_group"]


async def test_why_looks_at_one_partition_or_at_a_few(http, queue):
    for partition in ("a", "b", "c"):
        await push(http, queue, 1, partition=partition)
    await pop(http, queue, autoAck="true")
    assert len(await get(http, f"/why/{queue}")) == 3
    assert len(await get(http, f"/why/{queue}", limit=2)) == 2
    [reason] = await get(http, f"/why/{queue}", partition="b")
    assert reason["partition"] == "b"
    refused(await http.get(f"/why/{queue}", params={"limit": 0}), 400, "INVALID_ARGUMENT")


async def test_a_queue_that_no_group_reads_is_listed_with_its_backlog(http, queue):
    await push(http, queue, 1, 2, 3)
    [line] = [each for each in await get(http, "/unread") if each["queue"] == queue]
    assert line.pop("seconds") >= 0
    assert line == {"queue": queue, "partitions": 1, "pushed": 3, "messages": 3}
    await pop(http, queue, consumerGroup="g")
    assert queue not in [each["queue"] for each in await get(http, "/unread")]


async def test_verify_finds_a_message_that_is_not_accounted_for(http, queue, module_database):
    await push(http, queue, 1, 2)
    await pop(http, queue, autoAck="true", batch=1)
    told = await get(http, "/verify", queue=queue)
    assert told["consistent"]
    [line] = told["ledger"]
    assert await get(http, "/ledger", queue=queue) == [line]
    assert line in await get(http, "/ledger")
    assert (line["pushed"], line["completed"], line["pending"], line["balanced"]) == (2, 1, 1, True)
    connection = await asyncpg.connect(module_database)
    change = (
        "update queen.partition_consumers c set completed = completed + $1 from queen.queue_groups g "
        "join queen.queues q on q.id = g.queue_id where g.id = c.group_id and q.name = $2"
    )
    await connection.execute(change, 1, queue)
    told = await get(http, "/verify")
    assert not told["consistent"]
    assert [(found["check"], found["queue"]) for found in told["findings"]] == [("ledger", queue)]
    assert not next(line for line in told["ledger"] if line["queue"] == queue)["balanced"]
    assert (await get(http, "/verify", queue="another"))["consistent"]
    await connection.execute(change, -1, queue)
    await connection.close()
    assert (await get(http, "/verify"))["consistent"]


async def test_the_doctor_looks_at_the_database_and_at_the_spool(http):
    told = await get(http, "/doctor")
    checks = {check["name"]: check for check in told["checks"]}
    assert checks["PostgreSQL"]["severity"] == "ok"
    assert checks["schema"]["severity"] == "ok"
    assert "free" in checks["disk of the spool"]["detail"]
