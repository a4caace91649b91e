"""Consumers: acknowledging, groups, leases and transactions."""

import asyncio
from datetime import UTC, datetime, timedelta

QUICK = {"retry_delay": 0}  # a message comes back at once


async def _push(client, name, *values, partition="Default"):
    return await client.queue(name).partition(partition).push([{"data": value} for value in values])


async def _pop(builder, batch=10):
    return await builder.batch(batch).wait(enabled=False).pop()


async def _values(builder, batch=10):
    return [message["data"] for message in await _pop(builder, batch)]


def _endless(builder):
    """A consumer that stops when nothing has come for a while."""
    return builder.timeout_millis(200).idle_millis(200)


async def a_message_is_acknowledged(client, name):
    await _push(client, name, 1, 2)
    messages = await _pop(client.queue(name))
    for message in messages:
        answer = await client.ack(message)
        assert answer["success"]
        assert answer["queueName"] == name
        assert answer["partitionName"] == "Default"
    assert answer["leaseReleased"]
    assert await _pop(client.queue(name)) == []


async def several_messages_are_acknowledged_together(client, name):
    await _push(client, name, *range(10))
    answer = await client.ack(await _pop(client.queue(name).group("readers")), True, {"group": "readers"})
    assert answer["success"]
    assert [result["index"] for result in answer["results"]] == list(range(10))
    assert await _pop(client.queue(name).group("readers")) == []


async def acknowledging_the_last_message_leaves_the_others(client, name):
    await client.queue(name).config({"lease_time": 1}).create()
    await _push(client, name, 1, 2, 3)
    messages = await _pop(client.queue(name))
    assert (await client.ack(messages[-1]))["success"]
    assert [message["data"] for message in await client.queue(name).batch(10).wait(enabled=True).pop()] == [1, 2]


async def an_ack_needs_the_lease(client, name):
    await _push(client, name, 1)
    [message] = await _pop(client.queue(name))
    assert (await client.ack(message))["success"]
    again = await client.ack(message)
    assert not again["success"]
    assert again["error"] == "Invalid or expired lease"
    unknown = await client.ack(message | {"transactionId": "unknown"})
    assert not unknown["success"]
    assert unknown["error"] == "Message not found"


async def a_nack_brings_a_message_back_until_it_is_buried(client, name):
    await client.queue(name).config(QUICK | {"retry_limit": 2}).create()
    await _push(client, name, 1)
    for attempt in range(3):
        [message] = await _pop(client.queue(name))
        assert message["retryCount"] == attempt
        answer = await client.ack(message, False, {"error": f"attempt {attempt}"})
        assert answer["success"]
        assert answer["dlq"] == (attempt == 2)
    assert await _pop(client.queue(name)) == []
    buried = await client.queue(name).dlq().get()
    assert buried["total"] == 1
    [letter] = buried["messages"]
    assert letter["data"] == 1
    assert letter["transactionId"] == message["transactionId"]
    assert letter["errorMessage"] == "attempt 2"
    assert letter["queue"] == name


async def a_retry_does_not_count(client, name):
    await client.queue(name).config(QUICK | {"retry_limit": 0}).create()
    await _push(client, name, 1)
    for _ in range(3):
        [message] = await _pop(client.queue(name))
        assert (await client.ack(message, "retry"))["success"]
    assert await _values(client.queue(name)) == [1]


async def a_message_is_buried_on_demand(client, name):
    await _push(client, name, 1, 2)
    messages = await _pop(client.queue(name).group("readers"))
    assert (await client.ack(messages[0], "dlq", {"group": "readers", "error": "no use"}))["dlq"]
    buried = await client.queue(name).dlq("readers").limit(10).get()
    assert [(letter["data"], letter["errorMessage"]) for letter in buried["messages"]] == [(1, "no use")]
    assert (await client.queue(name).dlq("others").get())["total"] == 0


async def messages_of_one_batch_may_fare_differently(client, name):
    await client.queue(name).config(QUICK | {"retry_limit": 5}).create()
    await _push(client, name, *range(4))
    messages = await _pop(client.queue(name))
    statuses = ["completed", "failed", "dlq", "completed"]
    judged = [message | {"_status": status} for message, status in zip(messages, statuses, strict=True)]
    assert (await client.ack(judged))["success"]
    assert await _values(client.queue(name)) == [1]
    assert (await client.queue(name).dlq().get())["total"] == 1


async def consumers_share_the_work(client, name):
    for partition in range(8):
        await _push(client, name, *(f"{partition}.{number}" for number in range(25)), partition=f"p{partition}")
    seen, entered, together = [], 0, asyncio.Event()

    async def handle(messages):
        nonlocal entered
        entered += 1
        if entered == 2:
            together.set()
        await together.wait()  # the first one is still here when the second one comes
        seen.extend(message["data"] for message in messages)

    await _endless(client.queue(name).group("workers").concurrency(4).batch(5)).consume(handle)
    assert sorted(seen) == sorted(f"{partition}.{number}" for partition in range(8) for number in range(25))
    for partition in range(8):
        own = [int(value.partition(".")[2]) for value in seen if value.startswith(f"{partition}.")]
        assert own == sorted(own), f"partition {partition} was out of order"


async def a_consumer_takes_messages_one_by_one(client, name):
    await _push(client, name, *range(20))
    seen = []

    async def handle(message):
        seen.append(message["data"])

    await _endless(client.queue(name).batch(7).each()).limit(20).consume(handle)
    assert seen == list(range(20))
    assert await _pop(client.queue(name)) == []


async def a_failing_consumer_gets_the_message_again(client, name):
    await client.queue(name).config(QUICK).create()
    await _push(client, name, 1)
    attempts = []

    async def handle(message):
        attempts.append(message["retryCount"])
        if len(attempts) < 3:
            raise ValueError("not yet")

    await _endless(client.queue(name).batch(1)).consume(handle)
    assert attempts == [0, 1, 2]


async def a_message_is_buried_before_an_idle_consumer_stops(client, name):
    """With the default delay: every further attempt comes within two seconds."""
    await client.queue(name).config({"retry_limit": 2}).create()
    await _push(client, name, 1)
    attempts = []

    async def handle(message):
        attempts.append(message["retryCount"])
        raise ValueError("never")

    await client.queue(name).batch(1).each().timeout_millis(500).idle_millis(2000).consume(handle)
    assert attempts == [0, 1, 2]
    [letter] = (await client.queue(name).dlq().get())["messages"]
    assert letter["errorMessage"] == "never"


async def a_consumer_may_acknowledge_by_itself(client, name):
    await client.queue(name).config(QUICK | {"retry_limit": 0}).create()
    await _push(client, name, 1, 2)

    async def handle(message):
        if message["data"] == 2:
            raise ValueError("two is too much")

    async def done(message, _result):
        await client.ack(message, True)

    async def failed(message, error):
        await client.ack(message, False, {"error": str(error)})

    await _endless(client.queue(name).batch(1)).consume(handle).on_success(done).on_error(failed)
    assert await _pop(client.queue(name)) == []
    [letter] = (await client.queue(name).dlq().get())["messages"]
    assert letter["errorMessage"] == "two is too much"


async def a_consumer_is_stopped_by_its_signal(client, name):
    stop = asyncio.Event()
    await _push(client, name, 1)

    async def handle(_messages):
        stop.set()

    await client.queue(name).consume(handle, signal=stop)


async def every_group_gets_everything(client, name):
    await _push(client, name, 1, 2)
    for group in ("one", "two"):
        messages = await _pop(client.queue(name).group(group))
        assert [message["data"] for message in messages] == [1, 2]
        assert (await client.ack(messages, True, {"group": group}))["success"]
    assert await _pop(client.queue(name).group("one")) == []


async def a_new_group_reads_from_the_beginning(client, name):
    await _push(client, name, 1)
    for mode in ("all", "from_beginning"):
        assert await _values(client.queue(name).group(mode).subscription_mode(mode)) == [1]


async def a_group_may_read_only_what_is_new(client, name):
    await _push(client, name, "old")
    # What came a moment before the first pop is new too, so that a consumer that starts misses nothing.
    assert await client.queue(f"{name}-silence").timeout_millis(500).pop() == []
    for mode in ("new", "new-only"):
        assert await _pop(client.queue(name).group(mode).subscription_mode(mode)) == []
    await _push(client, name, "new")
    for mode in ("new", "new-only"):
        assert await _values(client.queue(name).group(mode).subscription_mode(mode)) == ["new"]


async def a_group_in_mode_new_misses_nothing_of_an_empty_queue(client, name):
    assert await _pop(client.queue(name).group("readers").subscription_mode("new")) == []
    await _push(client, name, 1)
    assert await _values(client.queue(name).group("readers").subscription_mode("new")) == [1]


async def a_group_may_read_from_now_on(client, name):
    await _push(client, name, "old")
    assert await client.queue(f"{name}-silence").timeout_millis(500).pop() == []
    assert await _pop(client.queue(name).group("readers").subscription_from("now")) == []
    await _push(client, name, "new")
    assert await _values(client.queue(name).group("readers").subscription_from("now")) == ["new"]


async def a_group_may_read_from_a_time(client, name):
    await _push(client, name, "old")
    [message] = await _pop(client.queue(name).group("clock"))
    created_at = datetime.fromisoformat(message["createdAt"])
    deadline = datetime.now(UTC) + timedelta(minutes=1)
    while (now := datetime.now(UTC)) <= created_at:
        assert now < deadline
    await _push(client, name, "new")
    assert await _values(client.queue(name).group("readers").subscription_from(now.isoformat())) == ["new"]


async def a_lease_is_renewed(client, name):
    await client.queue(name).config({"lease_time": 1}).create()
    await _push(client, name, 1)
    [message] = await _pop(client.queue(name))
    renewed = await client.renew(message)
    assert renewed["success"]
    assert datetime.fromisoformat(renewed["newExpiresAt"]) > datetime.now(UTC)
    assert await client.queue(name).wait(enabled=True).timeout_millis(1500).pop() == []
    assert (await client.ack(message))["success"]
    gone = await client.renew([message])
    assert [(each["success"], each["error"]) for each in gone] == [(False, "Lease not found")]


async def a_consumer_renews_its_leases(client, name):
    await client.queue(name).config({"lease_time": 1}).create()
    await _push(client, name, 1)
    seen = []

    async def handle(message):
        seen.append(message["data"])
        assert await client.queue(name).wait(enabled=True).timeout_millis(1500).pop() == [], "the lease had ended"

    await _endless(client.queue(name).batch(1).renew_lease(enabled=True, interval_millis=300)).consume(handle)
    assert seen == [1]


async def a_lease_that_ends_gives_the_messages_back(client, name):
    await client.queue(name).config({"lease_time": 1}).create()
    await _push(client, name, 1)
    [late] = await _pop(client.queue(name))
    [message] = await client.queue(name).wait(enabled=True).pop()
    assert message["data"] == 1
    assert not (await client.ack(late))["success"]
    assert (await client.ack(message))["success"]


async def a_transaction_acknowledges_and_pushes(client, name):
    await _push(client, name, 1, 2)
    messages = await _pop(client.queue(name))
    transaction = client.transaction().ack(messages).queue(f"{name}-next").partition("p").push([{"data": 3}])
    result = await transaction.commit()
    assert result
    assert result["transactionId"]
    assert [(each["type"], each["success"]) for each in result["results"]] == [
        ("ack", True),
        ("ack", True),
        ("push", True),
    ]
    assert await _values(client.queue(f"{name}-next").partition("p")) == [3]
    assert await _pop(client.queue(name)) == []


async def a_transaction_may_be_of_a_group(client, name):
    await _push(client, name, 1)
    messages = await _pop(client.queue(name).group("readers"))
    context = {"consumer_group": "readers"}
    assert await client.transaction().ack(messages, "completed", context).queue(name).push({"data": 2}).commit()
    assert await _values(client.queue(name).group("readers")) == [2]


async def a_transaction_that_fails_changes_nothing(client, name):
    await _push(client, name, 1)
    [message] = await _pop(client.queue(name))
    assert (await client.ack(message))["success"]
    complaint = None
    try:
        await client.transaction().ack(message).queue(f"{name}-next").push({"data": 2}).commit()
    except Exception as error:  # noqa: BLE001 (the client raises no other class)
        complaint = str(error)
    assert "lease" in complaint, complaint
    assert await _pop(client.queue(f"{name}-next")) == []


async def a_transaction_repeated_is_a_duplicate(client, name):
    for status in ("queued", "duplicate"):
        result = await client.transaction().queue(name).push({"data": 1, "transactionId": "same"}).commit()
        assert [each["status"] for each in result["results"]] == [status]
    assert await _values(client.queue(name)) == [1]
