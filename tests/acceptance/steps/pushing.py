"""Push, pop and what lies between them."""

import asyncio
import importlib.metadata
import importlib.util
import sys
from pathlib import Path
from uuid import uuid4

import httpx
import queen


async def _values(builder):
    return [message["data"] for message in await builder.wait(enabled=False).pop()]


async def _push(client, name, *values, partition="Default"):
    return await client.queue(name).partition(partition).push([{"data": value} for value in values])


async def the_client_is_the_published_one(client, name):
    assert Path(queen.__file__).is_relative_to(sys.prefix)
    assert importlib.metadata.version("queen-mq").startswith("2.")
    assert importlib.util.find_spec("queenmq") is None, "nothing of ours is here"


async def a_push_is_answered_in_order(client, name):
    answers = await client.queue(name).push([{"data": 1, "transactionId": "one"}, {"data": 2}])
    assert [answer["index"] for answer in answers] == [0, 1]
    assert [answer["status"] for answer in answers] == ["queued", "queued"]
    assert answers[0]["transaction_id"] == "one"
    assert answers[0]["partition_id"] == answers[1]["partition_id"]
    assert answers[0]["message_id"] != answers[1]["message_id"]
    assert {answer["queueName"] for answer in answers} == {name}


async def a_push_calls_back(client, name):
    stored = []

    async def keep(items):
        stored.extend(items)

    await client.queue(name).push([{"data": 1}, {"data": 2}]).on_success(keep)
    assert [item["payload"] for item in stored] == [1, 2]


async def a_duplicate_push_is_recognised(client, name):
    duplicates = []

    async def keep(items, _error):
        duplicates.extend(items)

    [first] = await client.queue(name).push([{"data": 1, "transactionId": "same"}])
    [again] = await client.queue(name).push([{"data": 2, "transactionId": "same"}]).on_duplicate(keep)
    assert again["status"] == "duplicate"
    assert again["message_id"] == first["message_id"]
    assert [item["transactionId"] for item in duplicates] == ["same"]
    assert await _values(client.queue(name).batch(10)) == [1]


async def a_duplicate_in_another_partition_is_none(client, name):
    for partition in ("a", "b"):
        [answer] = await client.queue(name).partition(partition).push([{"data": 1, "transactionId": "same"}])
        assert answer["status"] == "queued"


async def the_same_id_twice_in_one_push_is_stored_once(client, name):
    items = [{"data": number, "transactionId": "same"} for number in range(2)]
    assert [answer["status"] for answer in await client.queue(name).push(items)] == ["queued", "duplicate"]


async def payloads_come_back_as_they_were(client, name):
    values = [None, True, 0, -1.5, "zażółć \U0001f451", [], {}, {"deep": [{"er": None}]}, "x" * 100_000]
    await _push(client, name, *values)
    assert await _values(client.queue(name).batch(100)) == values


async def a_popped_message_has_all_its_fields(client, name):
    trace = str(uuid4())
    await client.queue(name).partition("p").push([{"data": {"n": 1}, "transactionId": "one", "traceId": trace}])
    [message] = await client.queue(name).partition("p").group("readers").batch(1).wait(enabled=False).pop()
    assert message["transactionId"] == "one"
    assert message["traceId"] == trace
    assert message["data"] == {"n": 1}
    assert message["partition"] == "p"
    assert message["consumerGroup"] == "readers"
    assert message["createdAt"].endswith("Z")
    assert message["producerSub"] is None
    assert message["id"]
    assert message["leaseId"]
    assert message["partitionId"]


async def names_may_hold_spaces_and_accents(client, name):
    queue, partition = f"{name} é ü", "Größe 42"
    await _push(client, queue, 1, partition=partition)
    assert await _values(client.queue(queue).partition(partition)) == [1]


async def a_pop_of_a_partition_takes_from_it_alone(client, name):
    for partition in ("a", "b"):
        await _push(client, name, f"{partition}1", f"{partition}2", partition=partition)
    assert await _values(client.queue(name).partition("b").batch(10)) == ["b1", "b2"]


async def a_pop_of_a_queue_takes_one_partition_in_order(client, name):
    for partition in ("a", "b"):
        await _push(client, name, f"{partition}1", f"{partition}2", partition=partition)
    popped = [await _values(client.queue(name).batch(10)) for _ in range(3)]
    assert sorted(popped) == [[], ["a1", "a2"], ["b1", "b2"]]


async def a_pop_of_a_queue_may_take_many_partitions_under_one_lease(client, name):
    for partition in ("a", "b", "c"):
        await _push(client, name, partition, partition=partition)
    messages = await client.queue(name).batch(10).partitions(5).wait(enabled=False).pop()
    assert sorted(message["data"] for message in messages) == ["a", "b", "c"]
    assert len({message["leaseId"] for message in messages}) == 1
    assert (await client.ack(messages))["success"]


async def a_pop_of_namespace_and_task_takes_from_any_such_queue(client, name):
    space = f"space-{name}"
    for queue, task in ((f"{name}-1", "mail"), (f"{name}-2", "mail"), (f"{name}-3", "print")):
        await client.queue(queue).namespace(space).task(task).create()
        await _push(client, queue, queue)
    builder = [client.queue().namespace(space).task("mail").batch(10).partitions(10) for _ in range(2)]
    assert sorted(await _values(builder[0])) == [f"{name}-1", f"{name}-2"]
    assert await _values(builder[1]) == []
    assert await _values(client.queue().namespace(space).batch(10)) == [f"{name}-3"]


async def a_pop_without_a_batch_lets_the_server_choose(client, name):
    await _push(client, name, *range(50))
    assert await _values(client.queue(name)) == list(range(50))


async def a_pop_as_before_the_autopilot_brings_one(client, name):
    await _push(client, name, *range(5))
    assert await _values(client.queue(name).autopilot(enabled=False)) == [0]


async def a_pop_committed_on_delivery_needs_no_ack(client, name):
    await _push(client, name, 1, 2)
    [message] = await client.queue(name).batch(1).commit_on_delivery().wait(enabled=False).pop()
    assert message["data"] == 1
    assert message["leaseId"] == ""
    assert await _values(client.queue(name).batch(1).commit_on_delivery()) == [2]
    assert await _values(client.queue(name).commit_on_delivery()) == []


async def nothing_is_popped_from_an_unknown_queue(client, name):
    assert await _values(client.queue(name)) == []


async def a_poll_waits_for_a_push(client, name):
    poll = asyncio.create_task(client.queue(name).wait(enabled=True).timeout_millis(30_000).pop())
    await _push(client, f"{name}-other", 0)
    assert not poll.done()
    await _push(client, name, 1)
    assert [message["data"] for message in await poll] == [1]


async def a_poll_ends_with_nothing(client, name):
    assert await client.queue(name).wait(enabled=True).timeout_millis(50).pop() == []


async def buffered_pushes_wait_for_a_flush(client, name):
    options = {"message_count": 100, "time_millis": 60_000}
    for number in range(3):
        answer = await client.queue(name).buffer(options).push([{"data": number}])
        assert answer["buffered"]
    assert client.get_buffer_stats()["totalBufferedMessages"] == 3
    assert await _values(client.queue(name).batch(10)) == []
    await client.queue(name).flush_buffer()
    assert client.get_buffer_stats()["totalBufferedMessages"] == 0
    assert await _values(client.queue(name).batch(10)) == [0, 1, 2]


async def buffered_pushes_go_when_there_are_enough(client, name):
    for number in range(10):
        await client.queue(name).buffer({"message_count": 10, "time_millis": 60_000}).push([{"data": number}])
    messages = await client.queue(name).batch(10).wait(enabled=True).pop()
    assert [message["data"] for message in messages] == list(range(10))


async def all_buffers_are_flushed_at_once(client, name):
    for partition in ("a", "b"):
        builder = client.queue(name).partition(partition)
        await builder.buffer({"message_count": 100, "time_millis": 60_000}).push([{"data": partition}])
    await client.flush_all_buffers()
    assert sorted(await _values(client.queue(name).batch(10).partitions(10))) == ["a", "b"]


async def a_refusal_tells_why(client, name):
    refusal = None
    try:
        await _push(client, name, 1, partition="p" * 10_000)
    except httpx.HTTPStatusError as error:
        refusal = error
    assert refusal is not None, "a name of 10,000 characters was taken"
    assert refusal.response.status_code == 400
    assert refusal.code.isupper()
    assert "partition" in str(refusal)
    assert "255" in refusal.response.json()["error"]
