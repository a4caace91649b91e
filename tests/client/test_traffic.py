"""Push, pop, ack: the same over every transport and in both skins."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import Raw

from queenmq import Outgoing
from queenmq.errors import (
    InvalidArgument,
    InvalidHeaders,
    InvalidName,
    InvalidPayload,
    InvalidTraceId,
    LeaseGone,
    QueueFull,
)


def payloads(messages):
    return [message.payload for message in messages]


# -- push


async def test_what_is_pushed_is_popped_in_order(queen, queue):
    await queen.queue(queue).partition("ann").push({"id": 1})
    await queen.queue(queue).partition("ann").push_many([{"id": 2}, None])
    messages = await queen.queue(queue).batch(10).pop()
    assert payloads(messages) == [{"id": 1}, {"id": 2}, None]
    assert [message.offset for message in messages] == [0, 1, 2]
    assert {(message.queue, message.partition) for message in messages} == {(queue, "ann")}


async def test_a_message_carries_what_went_with_it(queen, queue):
    trace_id = "018f0000-0000-7000-8000-000000000001"
    pushed = await queen.queue(queue).push(1, transaction_id="order-1", trace_id=trace_id, headers={"a": "b"})
    [message] = await queen.queue(queue).group("billing").pop()
    assert (message.id, message.partition_id) == (pushed.id, pushed.partition_id)
    assert (message.transaction_id, message.trace_id, message.headers) == ("order-1", trace_id, {"a": "b"})
    assert (message.group, message.partition, message.retry_count) == ("billing", "Default", 0)
    assert message.created_at.tzinfo is not None


async def test_a_message_without_a_transaction_id_gets_one(queen, queue):
    pushed = await queen.queue(queue).push_many([1, 2])
    messages = await queen.queue(queue).batch(2).pop()
    assert [message.transaction_id for message in messages] == [each.transaction_id for each in pushed]
    assert len({each.transaction_id for each in pushed}) == 2


async def test_the_same_transaction_id_is_stored_once(queen, queue):
    first = await queen.queue(queue).push(1, transaction_id="order-1")
    [again, other] = await queen.queue(queue).push_many([Outgoing(1, transaction_id="order-1"), 2])
    assert (again.status, again.duplicate, again.id, other.status) == ("duplicate", True, first.id, "queued")


async def test_answers_of_many_are_those_of_each(queen, queue):
    one = await queen.queue(queue).push("before")
    pushed = await queen.queue(queue).push_many([f"payload {n}" for n in range(12)])
    messages = await queen.queue(queue).batch(20).pop()
    assert len(pushed) == 12
    assert [each.id for each in [one, *pushed]] == [message.id for message in messages]
    assert (pushed[3], pushed[-1], pushed[2:4]) == (list(pushed)[3], list(pushed)[-1], list(pushed)[2:4])
    assert {(each.status, each.queue, each.partition_id) for each in pushed} == {("queued", queue, one.partition_id)}


async def test_texts_that_are_ready_are_passed_on_untouched(queen, queue):
    texts = [b'{"a":  1}', b"1e2", b' "spaces around" ']
    await queen.queue(queue).push_many(map(Raw, texts))
    await queen.queue(queue).push_many(map(Raw, texts[:2]))
    messages = await queen.queue(queue).batch(9).pop()
    assert [message.json.strip() for message in messages] == [text.strip() for text in [*texts, *texts[:2]]]


@pytest.mark.parametrize(
    "texts",
    [
        [b"1,2", b"3"],
        [b'"a', b'b"', b"1,2"],  # as many values as texts, and none of them as it was given
        [b"", b"1"],
        [b"1", b"]"],
        [b'"\xff"', b"1"],
    ],
)
async def test_texts_that_are_not_one_value_each_are_refused(queen, queue, texts):
    with pytest.raises(InvalidPayload):
        await queen.queue(queue).push_many(map(Raw, texts))
    with pytest.raises(InvalidPayload):
        await queen.queue(queue).push_many([{"inside": 1}, {"inside": Raw(b"1},{")}])
    assert await queen.queue(queue).pop() == []


async def test_nothing_pushed_is_nothing_stored(queen, queue):
    assert await queen.queue(queue).push_many([]) == []


@pytest.mark.parametrize(
    ("item", "refusal"),
    [
        (Outgoing(1, trace_id="no-uuid"), InvalidTraceId),
        (Outgoing(1, partition=""), InvalidName),
        (Outgoing(1, headers={"": "no name"}), InvalidHeaders),
        (object(), InvalidPayload),
        ("\ud800", InvalidPayload),
    ],
)
async def test_a_push_is_refused_whole(queen, queue, item, refusal):
    with pytest.raises(refusal):
        await queen.queue(queue).push_many(["fine", item])
    assert await queen.queue(queue).pop() == []


async def test_a_partition_without_a_name_is_refused(queen, queue):
    with pytest.raises(InvalidName):
        await queen.queue(queue).partition("").push(1)


async def test_a_reserved_queue_name_is_refused_with_the_name(queen):
    queue = queen.queue("__system_things")
    sentence = 'the queue name "__system_things" begins with __system_, which is reserved; choose another name'
    for call in (queue.push(1), queue.pop(), queen.admin.configure("__system_things", priority=1)):
        with pytest.raises(InvalidName) as refusal:
            await call
        assert str(refusal.value) == sentence


async def test_a_full_queue_says_how_full_it_is(queen, queue):
    await queen.admin.configure(queue, max_queue_size=2)
    await queen.queue(queue).push_many([1, 2])
    with pytest.raises(QueueFull) as refusal:
        await queen.queue(queue).push(3)
    assert (refusal.value.queue, refusal.value.depth, refusal.value.limit) == (queue, 2, 2)
    assert str(refusal.value) == f'queue "{queue}" is full: 2 messages are waiting and 2 is the limit'
    with pytest.raises(QueueFull, match="a push of 3 messages can never fit"):
        await queen.queue(queue).push_many([1, 2, 3])


async def test_a_push_tells_depth_and_remaining_capacity_when_asked(queen, queue):
    await queen.admin.configure(queue, max_queue_size=5)
    one = await queen.queue(queue).push(1, capacity=True)
    assert (one.queue_depth, one.remaining_capacity) == (1, 4)
    many = await queen.queue(queue).push_many([2, 3], capacity=True)
    assert [(each.status, each.queue_depth, each.remaining_capacity) for each in many] == [("queued", 3, 2)] * 2
    again = await queen.queue(queue).push(4, transaction_id="4", capacity=True)
    assert (again.queue_depth, again.remaining_capacity) == (4, 1)
    assert (await queen.queue(queue).push(5)).queue_depth is None
    await queen.admin.configure(queue, max_queue_size=0)
    assert (await queen.queue(queue).push(6, capacity=True)).remaining_capacity is None


@pytest.mark.parametrize("name", ["a/b c", "ünï 🐝", "a?b&c=d#e", "..", "%2F"])
async def test_names_may_be_anything(queen, queue, name):
    name = f"{queue} {name}"
    await queen.queue(name).partition(name).push("here", transaction_id=name)
    [message] = await queen.queue(name).partition(name).group(name).pop()
    assert (message.queue, message.partition, message.group, message.transaction_id) == (name, name, name, name)
    await message.ack()
    assert (await queen.messages.get(message.partition_id, name, group=name)).status == "completed"


# -- pop


async def test_groups_are_independent(queen, queue):
    await queen.queue(queue).push("a")
    assert payloads(await queen.queue(queue).group("one").auto_ack().pop()) == ["a"]
    assert payloads(await queen.queue(queue).group("two").pop()) == ["a"]
    assert await queen.queue(queue).group("one").pop() == []


async def test_a_new_group_starts_where_it_says(queen, queue):
    await queen.queue(queue).push("old")
    [old] = await queen.queue(queue).group("all").subscription_mode("all").pop()
    hence = old.created_at + timedelta(microseconds=1)
    await queen.queue(queue).push("new")
    assert payloads(await queen.queue(queue).group("since").subscription_from(hence).batch(9).pop()) == ["new"]
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    assert await queen.queue(queue).group("later").subscription_from(tomorrow).pop() == []


async def test_a_group_that_wants_only_what_is_new_gets_that(queen, queue):
    groups = {"new": queen.queue(queue).group("new"), "new-only": queen.queue(queue).group("only")}
    for mode, source in groups.items():
        assert await source.subscription_mode(mode).pop() == []
    await queen.queue(queue).push("new")
    assert [payloads(await source.pop()) for source in groups.values()] == [["new"], ["new"]]
    everything = queen.queue(queue).group("all").subscription_mode("from_beginning")
    assert payloads(await everything.pop()) == ["new"]


async def test_a_mode_that_does_not_exist_is_refused(queen, queue):
    with pytest.raises(
        InvalidArgument, match="mode is one of all, from_beginning, new, new-only, timestamp, not 'old'"
    ):
        await queen.queue(queue).group("g").subscription_mode("old").pop()


async def test_several_partitions_come_under_one_lease(queen, queue):
    await queen.queue(queue).push_many([Outgoing(name, partition=name) for name in "abc"])
    messages = await queen.queue(queue).batch(10).max_partitions(2).pop()
    assert len({message.partition for message in messages}) == 2
    assert len({message.lease_id for message in messages}) == 1
    [rest] = await queen.queue(queue).batch(10).pop()
    assert {rest.partition, *(message.partition for message in messages)} == set("abc")


async def test_a_namespace_and_a_task_choose_among_queues(queen, queue):
    await queen.admin.configure(f"{queue}-mail", namespace=f"ns-{queue}", task=f"mail-{queue}")
    await queen.admin.configure(f"{queue}-bill", namespace=f"ns-{queue}", task=f"bill-{queue}")
    await queen.queue(f"{queue}-mail").push("mail")
    await queen.queue(f"{queue}-bill").push("bill")
    assert payloads(await queen.namespace(f"ns-{queue}").task(f"mail-{queue}").pop()) == ["mail"]
    assert payloads(await queen.task(f"bill-{queue}").pop()) == ["bill"]
    assert await queen.task(f"none-{queue}").namespace(f"ns-{queue}").pop() == []


async def test_a_poll_waits_for_a_push(queen, queue):
    poll = asyncio.ensure_future(queen.queue(queue).wait(30).pop())
    await queen.queue(queue).push("at last")
    assert payloads(await poll) == ["at last"]


async def test_a_poll_gives_up_in_time(queen, queue):
    assert await queen.queue(queue).wait(0.05).pop() == []


async def test_a_description_is_never_changed(queen, queue):
    await queen.queue(queue).push_many([1, 2])
    one = queen.queue(queue).group("g")
    one.batch(2).auto_ack()
    assert payloads(await one.pop()) == [1]


@pytest.mark.parametrize("change", [lambda q: q.batch(0), lambda q: q.max_partitions(0), lambda q: q.wait(-1)])
async def test_a_pop_out_of_range_is_refused(queen, queue, change):
    with pytest.raises(InvalidArgument):
        await change(queen.queue(queue)).pop()


# -- ack


async def test_an_acknowledged_message_does_not_come_back(queen, queue):
    await queen.queue(queue).push("once")
    [message] = await queen.queue(queue).pop()
    acked = await queen.ack(message)
    assert (acked.success, acked.released) == (True, True)
    assert await queen.queue(queue).pop() == []


async def test_what_failed_comes_back_counted(queen, queue):
    await queen.admin.configure(queue, retry_delay_ms=0)
    await queen.queue(queue).push_many([1, 2])
    messages = await queen.queue(queue).batch(2).pop()
    assert [each.success for each in await queen.ack_many(messages, failed="no paper")] == [True, True]
    again = await queen.queue(queue).batch(2).wait().pop()
    assert (again[0].payload, again[0].retry_count) == (1, 1)


async def test_what_fails_too_often_is_a_dead_letter(queen, queue):
    await queen.admin.configure(queue, retry_limit=0)
    await queen.queue(queue).push("poison")
    [message] = await queen.queue(queue).pop()
    assert (await message.ack("failed", "no good")).dead_lettered is True


async def test_a_lease_that_ended_is_gone(queen, queue):
    await queen.queue(queue).push(1)
    [message] = await queen.queue(queue).pop()
    await message.ack()
    with pytest.raises(LeaseGone):
        await queen.ack(message)
    with pytest.raises(LeaseGone):
        await message.renew()
    [answer] = await queen.ack_many([message])
    assert answer.success is False
    assert answer.error


async def test_a_lease_lasts_as_long_as_asked_and_can_be_renewed(queen, queue):
    await queen.queue(queue).push(1)
    [message] = await queen.queue(queue).lease_seconds(1000).pop()
    [place] = [each for each in await queen.groups.lag(message.group) if each.queue == queue]
    assert place.lease_id == message.lease_id
    expires_at = await message.renew(5000)
    assert timedelta(seconds=4000) < expires_at - datetime.now(UTC) < timedelta(seconds=6000)


async def test_what_the_pop_acknowledged_needs_no_ack(queen, queue):
    await queen.queue(queue).push(1)
    [message] = await queen.queue(queue).auto_ack().pop()
    assert message.lease_id == ""
    with pytest.raises(InvalidArgument):
        await message.ack()
    with pytest.raises(InvalidArgument):
        await message.renew()
    with pytest.raises(InvalidArgument):
        await message.release()


async def test_what_is_released_comes_again_uncounted(queen, queue):
    await queen.queue(queue).push_many([1, 2, 3])
    first, *_ = messages = await queen.queue(queue).batch(3).pop()
    await first.ack()
    assert await queen.release(messages[2]) is True  # and what came with it
    again = await queen.queue(queue).batch(3).pop()
    assert [(each.payload, each.retry_count) for each in again] == [(2, 0), (3, 0)]
    assert await again[0].release() is True
    assert payloads(await queen.queue(queue).batch(3).pop()) == [2, 3]


async def test_a_release_wakes_who_waits(queen, queue):
    await queen.queue(queue).push(1)
    [message] = await queen.queue(queue).pop()
    poll = asyncio.create_task(queen.queue(queue).wait().pop())
    await message.release()
    assert payloads(await poll) == [1]


async def test_several_leases_are_released_together(queen, queue):
    for partition in ("a", "b"):
        await queen.queue(queue).partition(partition).push_many([1, 2])
    [a, _], [b, _] = [await queen.queue(queue).partition(each).batch(2).pop() for each in ("a", "b")]
    await b.release()
    assert await queen.release_many([a, b, a]) == [True, False, True]
    assert await queen.release_many([]) == []
    assert len(await queen.queue(queue).batch(4).max_partitions(2).pop()) == 4


async def test_a_lease_that_is_gone_is_not_released_again(queen, queue):
    await queen.queue(queue).push(1)
    [message] = await queen.queue(queue).pop()
    await message.release()
    [other] = await queen.queue(queue).pop()
    assert await message.release() is False
    assert await queen.release_many([message]) == [False]
    await other.ack()


async def test_nothing_acknowledged_is_no_call(queen):
    assert await queen.ack_many([]) == []


# -- transactions


async def test_acks_and_pushes_of_a_transaction_happen_together(queen, queue):
    await queen.queue(queue).push(1)
    [message] = await queen.queue(queue).pop()
    async with queen.transaction() as transaction:
        transaction.ack(message)
        transaction.push(f"{queue}-next", {"after": 1}, partition="p", headers={"a": "b"})
    assert await queen.queue(queue).pop() == []
    [following] = await queen.queue(f"{queue}-next").pop()
    assert (following.payload, following.partition, following.headers) == ({"after": 1}, "p", {"a": "b"})


async def test_a_transaction_whose_lease_is_gone_leaves_nothing(queen, queue):
    await queen.queue(queue).push(1)
    [message] = await queen.queue(queue).pop()
    await message.ack()
    with pytest.raises(LeaseGone):
        await queen.transaction().ack(message).push(f"{queue}-next", 2).commit()
    assert await queen.queue(f"{queue}-next").pop() == []


async def test_a_transaction_that_is_left_with_an_error_is_forgotten(queen, queue):
    with pytest.raises(ZeroDivisionError):
        async with queen.transaction() as transaction:
            transaction.push(queue, 1 / 0)
    async with queen.transaction():
        pass
    assert await queen.queue(queue).pop() == []


async def test_a_transaction_is_committed_once(queen, queue):
    transaction = queen.transaction().push(queue, 1, transaction_id="a").push(queue, 1, transaction_id="a")
    assert [each.status for each in await transaction.commit()] == ["queued", "duplicate"]
    with pytest.raises(InvalidArgument):
        await transaction.commit()
