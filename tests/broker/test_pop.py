"""GET /pop: in its three modes, waiting and not."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import asyncpg

from tests.broker.shorthand import ack, data, parked, pop, push
from tests.faults.log import until_waiting

MESSAGE_KEYS = {
    "id", "transactionId", "traceId", "data", "createdAt", "queue", "partition", "partitionId", "offset", "leaseId",
    "consumerGroup", "producerSub", "retryCount",
}  # fmt: skip


async def test_a_pop_tells_all_about_its_messages(http, queue):
    trace = str(uuid4())
    before = datetime.now(UTC) - timedelta(seconds=5)
    pushed = await push(http, queue, {"n": 1}, transactionId="t-1", traceId=trace, partition="p")
    found = await pop(http, queue, consumerGroup="g")
    (message,) = found.pop("messages")
    lease = found["leaseId"]
    assert UUID(lease)
    assert found == {
        "success": True,
        "queue": queue,
        "partition": "p",
        "partitionId": pushed[0]["partition_id"],
        "leaseId": lease,
        "consumerGroup": "g",
        "partitionsClaimed": 1,
    }
    assert message.keys() == MESSAGE_KEYS
    assert message["id"] == pushed[0]["message_id"]
    assert (message["transactionId"], message["traceId"], message["data"]) == ("t-1", trace, {"n": 1})
    assert (message["partition"], message["leaseId"], message["retryCount"]) == ("p", lease, 0)
    assert message["createdAt"].endswith("Z")
    assert before < datetime.fromisoformat(message["createdAt"]) < datetime.now(UTC) + timedelta(seconds=5)


async def test_pops_that_are_made_at_once_have_leases_of_their_own(http, queue):
    for name in "abc":
        await push(http, queue, 1, 2, 3, partition=name)
    found = await pop(http, queue, batch=2, pops=4)
    assert data(found) == [1, 2] * 3
    leases = {message["partition"]: message["leaseId"] for message in found["messages"]}
    assert (found["partitionsClaimed"], len(set(leases.values()))) == (3, 3)
    answers = await ack(http, *found["messages"])
    assert [answer["leaseReleased"] for answer in answers] == [True] * 6


async def test_groups_are_told_the_same_of_a_message_but_for_their_lease(http, queue):
    await push(http, queue, {"n": 1}, {"n": 2}, partition='"p"', traceId=str(uuid4()), headers={"h": "1"})
    told = []
    for group in ("one", 'an "other"'):
        found = await pop(http, queue, consumerGroup=group, batch=2)
        for message in found["messages"]:
            assert (message.pop("leaseId"), message.pop("consumerGroup")) == (found["leaseId"], group)
        told.append(found["messages"])
    assert told[0] == told[1]
    assert [message["offset"] for message in told[0]] == [0, 1]


async def test_every_message_has_its_own_retry_count(http, queue):
    await push(http, queue, 0, 1, 2)
    found = (await pop(http, queue, batch=3))["messages"]
    await ack(http, found[0], found[2], status="retry")
    await ack(http, found[1], status="failed")
    again = (await pop(http, queue, batch=3))["messages"]
    assert [(message["data"], message["retryCount"]) for message in again] == [(0, 0), (1, 1), (2, 0)]


async def test_what_a_group_has_done_is_left_out_for_that_group_only(http, queue):
    await push(http, queue, 0, 1, 2, 3)
    assert data(await pop(http, queue, consumerGroup="a", batch=3)) == [0, 1, 2]
    found = await pop(http, queue, consumerGroup="b", batch=4)
    await ack(http, found["messages"][1], consumerGroup="b")
    await http.post(f"/lease/{found['leaseId']}/release")
    assert data(await pop(http, queue, consumerGroup="b", batch=3)) == [0, 2, 3]
    assert data(await pop(http, queue, consumerGroup="c", batch=3)) == [0, 1, 2]


async def test_nothing_there_is_204_or_an_empty_list(http, queue):
    assert await pop(http, queue, status=204) is None
    assert await pop(http, queue, status=204, wait="true", timeout=1) is None
    empty = await pop(http, queue, empty=200)
    assert (empty["success"], empty["messages"], empty["leaseId"]) == (True, [], "")


async def test_batch_is_the_most_and_one_by_default(http, queue):
    await push(http, queue, *range(5))
    assert data(await pop(http, queue, consumerGroup="a")) == [0]
    assert data(await pop(http, queue, consumerGroup="b", batch=3)) == [0, 1, 2]
    assert data(await pop(http, queue, consumerGroup="c", autopilot="true")) == [0, 1, 2, 3, 4]
    assert data(await pop(http, queue, consumerGroup="d", xbatch=3)) == [0]


async def test_a_leased_partition_is_not_given_to_another(http, queue):
    await push(http, queue, 1, 2)
    first = await pop(http, queue)
    await pop(http, queue, status=204)
    assert (await ack(http, *first["messages"]))[0]["leaseReleased"]
    assert data(await pop(http, queue)) == [2]


async def test_auto_ack_takes_for_good(http, queue):
    await push(http, queue, 1, 2)
    found = await pop(http, queue, autoAck="true")
    assert (data(found), found["leaseId"], found["messages"][0]["leaseId"]) == ([1], "", "")
    assert data(await pop(http, queue, autoAck="true")) == [2]
    await pop(http, queue, status=204)


async def test_several_partitions_under_one_lease(http, queue):
    for name in "abc":
        await push(http, queue, name + "1", name + "2", partition=name)
    found = await pop(http, queue, partitions=2, batch=3)
    assert (found["partitionsClaimed"], len(found["messages"])) == (2, 3)
    assert {message["leaseId"] for message in found["messages"]} == {found["leaseId"]}
    assert len({message["partitionId"] for message in found["messages"]}) == 2
    results = await ack(http, *found["messages"])
    assert [each["success"] for each in results] == [True] * 3


async def test_a_pop_by_namespace_and_by_task_finds_their_queues(http, queue, module_database):
    connection = await asyncpg.connect(module_database)
    await connection.execute("select queen.configure_queue($1, $2, $3, '{}')", queue, f"{queue}/ns", f"{queue} task")
    await connection.close()
    await push(http, queue, 1, 2, 3)
    for query in ({"namespace": f"{queue}/ns"}, {"task": f"{queue} task"}):
        answer = await http.get("/pop", params={**query, "autoAck": "true"})
        assert answer.json()["queue"] == queue
    both = {"namespace": f"{queue}/ns", "task": "other"}
    assert (await http.get("/pop", params=both)).status_code == 204


async def test_a_push_wakes_a_long_poll(server, http, queue):
    poll = asyncio.create_task(pop(http, queue, wait="true", timeout=30_000))
    await parked(server, 1)
    await push(http, queue, "woken")
    async with asyncio.timeout(10):
        assert data(await poll) == ["woken"]


async def test_a_poll_whose_client_has_gone_takes_nothing(server, http, queue):
    async with server.client() as other:
        poll = asyncio.create_task(other.get(f"/pop/queue/{queue}?wait=true&autoAck=true"))
        await parked(server, 1)
        poll.cancel()
        await asyncio.gather(poll, return_exceptions=True)
    await parked(server, 0)
    await push(http, queue, "kept")
    assert data(await pop(http, queue)) == ["kept"]


async def test_a_pop_whose_client_has_gone_gives_back_what_it_took(server, http, queue, module_database):
    await push(http, queue, "kept")
    connection, watcher = await asyncpg.connect(module_database), await asyncpg.connect(module_database)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("select from queen.queues where name = $1 for update", queue)  # a new group waits for it
    async with server.client() as other:
        asked = asyncio.create_task(other.get(f"/pop/queue/{queue}?consumerGroup=new"))
        await until_waiting(watcher, "pop_batch")
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
    await parked(server, 0)  # it hears of that after it has heard that the client is gone
    await transaction.rollback()
    assert data(await pop(http, queue, consumerGroup="new", wait="true", timeout=30_000)) == ["kept"]
    await connection.close()
    await watcher.close()


async def test_a_new_group_starts_where_it_asks_to(http, queue, module_database):
    (pushed,) = await push(http, queue, "old")
    connection = await asyncpg.connect(module_database)
    age = "update queen.segments set created_at = created_at - interval '1 minute' where partition_id = $1"
    await connection.execute(age, UUID(pushed["partition_id"]).int)
    await connection.close()
    await pop(http, queue, status=204, consumerGroup="new", subscriptionMode="new")
    await pop(http, queue, status=204, consumerGroup="only", subscriptionMode="new-only")
    await pop(http, queue, status=204, consumerGroup="now", subscriptionFrom="now")
    await push(http, queue, "fresh")
    for group in ("new", "only", "now"):
        assert data(await pop(http, queue, consumerGroup=group, batch=9)) == ["fresh"]
    for mode in ("all", "from_beginning"):
        popped = await pop(http, queue, consumerGroup=mode, subscriptionMode=mode, batch=9)
        assert data(popped) == ["old", "fresh"]
    since = {"consumerGroup": "since", "subscriptionFrom": "2020-01-01T00:00:00Z", "batch": 9}
    assert data(await pop(http, queue, **since)) == ["old", "fresh"]


async def test_a_group_older_than_its_queue_misses_nothing(http, queue):
    await pop(http, queue, status=204, consumerGroup="early", subscriptionMode="new")
    await push(http, queue, "first")
    assert data(await pop(http, queue, consumerGroup="early")) == ["first"]


async def test_an_answer_that_is_cut_short_says_that_there_is_more(serve, queue):
    server = await serve(pop_bytes_max=1_000)
    async with server.client() as http:
        await push(http, queue, *["x" * 400] * 3)
        first = await pop(http, queue, batch=10, autoAck=True)
        second = await pop(http, queue, batch=10, autoAck=True)
    assert (len(first["messages"]), first["more"]) == (2, True)
    assert (len(second["messages"]), "more" in second) == (1, False)
