"""Push inside the application's own transaction: stored at its commit, gone with its rollback."""

import asyncio
import json
from datetime import timedelta

import pytest

from queenmq.errors import EncryptionRequired, InvalidName, InvalidPayload, QueueFull

pytestmark = pytest.mark.every_postgres


async def stored(queue, name="orders"):
    rows = await queue.connection.fetch(
        'select partition, "offset", payload from queen.messages where queue = $1 order by 1, 2', name
    )
    return [(row["partition"], row["offset"], json.loads(row["payload"])) for row in rows]


async def waiting(queue):
    return await queue.connection.fetchval("select count(*) from queen.inbox")


async def test_a_message_is_stored_after_the_commit(queue, another):
    alice = await another()
    async with alice.connection.transaction():
        await alice.push_in_transaction("orders", "ann", 1, 2)
        assert (await queue.sequence())["moved"] == 0
    row = await queue.sequence()
    assert (row["moved"], row["stored"], row["queues"], row["more"]) == (2, 2, ["orders"], False)
    assert await stored(queue) == [("ann", 0, 1), ("ann", 1, 2)]
    assert (await queue.sequence())["moved"] == 0


async def test_a_rolled_back_push_leaves_nothing(queue, another):
    alice = await another()
    transaction = alice.connection.transaction()
    await transaction.start()
    await alice.push_in_transaction("orders", "ann", 1)
    await transaction.rollback()
    assert (await queue.sequence())["moved"] == 0
    assert await queue.connection.fetchval("select count(*) from queen.queues") == 0


async def test_what_commits_late_is_placed_late_and_nobody_misses_it(queue, another):
    alice, bob = await another(), await another()
    slow = alice.connection.transaction()
    await slow.start()
    await alice.push_in_transaction("orders", "ann", "slow 1", "slow 2")
    await bob.push_in_transaction("orders", "ann", "fast")
    await queue.sequence()
    [delivery] = await queue.pop("g", "orders")
    assert delivery.messages == {0: "fast"}
    await queue.ack(delivery)
    await slow.commit()
    await queue.sequence()
    [delivery] = await queue.pop("g", "orders")
    assert delivery.messages == {1: "slow 1", 2: "slow 2"}


async def test_an_open_transaction_blocks_nobody(queue, another):
    await queue.push("orders", "ann", 1)
    alice = await another()
    async with alice.connection.transaction():
        await alice.push_in_transaction("orders", "ann", "open")
        assert await queue.push("orders", "ann", 2) == [1]
        await queue.sequence()
        [delivery] = await queue.pop("g", "orders")
        assert delivery.values == [1, 2]


async def test_the_groups_that_wait_are_named(queue):
    await queue.push("orders", "ann", 1)
    [delivery] = await queue.pop("g", "orders")
    await queue.ack(delivery)
    await queue.push_in_transaction("orders", "ann", 2)
    await queue.push_in_transaction("letters", "bob", 3)
    row = await queue.sequence()
    assert row["woken"] == [delivery.partition_id]
    assert sorted(row["queues"]) == ["letters", "orders"]


async def pushed(queue, id, partition="ann"):
    [row] = await queue.call("push", "orders", "1", partition, id, p_now=queue.clock.now)
    return row[0] is not None


async def test_a_push_answers_null_for_a_duplicate(queue):
    await queue.push("orders", "ann", "first", ids=['a "quoted" id'])
    assert [await pushed(queue, id) for id in ('a "quoted" id', "quoted", "id", "b", "b")] == [
        False,
        True,
        True,
        True,
        False,
    ]
    assert await pushed(queue, "b", "bob")
    await queue.sequence()
    assert not await pushed(queue, "b")
    queue.clock.now += timedelta(hours=2)
    assert await pushed(queue, "b")


async def test_duplicates_of_open_transactions_are_dropped_and_the_first_stays(queue, another):
    alice = await another()
    async with alice.connection.transaction():
        await alice.push_in_transaction("orders", "ann", *"xy", ids=["b", "a"])
        await queue.push("orders", "ann", "first", ids=["a"])
        await queue.push_in_transaction("orders", "ann", *"wz", ids=["b", "c"])
    await queue.push_in_transaction("orders", "bob", "other", ids=["a"])
    row = await queue.sequence()
    assert (row["moved"], row["stored"]) == (5, 3)
    assert await stored(queue) == [("ann", 0, "first"), ("ann", 1, "x"), ("ann", 2, "z"), ("bob", 0, "other")]
    assert await queue.push("orders", "ann", "again", ids=["c"]) == [2]


async def test_without_a_dedup_window_nothing_is_dropped(queue):
    await queue.configure("orders", dedup_window_seconds=0)
    await queue.push_in_transaction("orders", "ann", 1, 2, ids=["a", "a"])
    assert (await queue.sequence())["stored"] == 2


async def test_a_batch_is_as_large_as_asked_and_says_that_there_is_more(queue):
    await queue.push_in_transaction("orders", "ann", *range(5))
    [row] = await queue.call("sequence_inbox", 3, queue.clock.now)
    assert (row["moved"], row["more"]) == (3, True)
    [row] = await queue.call("sequence_inbox", 3, queue.clock.now)
    assert (row["moved"], row["more"]) == (2, False)
    assert [value for _, _, value in await stored(queue)] == list(range(5))


async def test_segments_hold_a_thousand_messages_or_a_mebibyte(queue):
    await queue.connection.execute(
        "select queen.push('many', to_jsonb(n)) from generate_series(0, 2499) as n;"
        "select queen.push('big', to_jsonb(repeat('x', 300000))) from generate_series(1, 8)"
    )
    await queue.call("sequence_inbox", 10_000, queue.clock.now)
    rows = await queue.connection.fetch(
        "select q.name, array_agg(s.message_count order by first_offset) as sizes "
        "from queen.segments s join queen.queues q on q.id = s.queue_id group by 1 order by 1"
    )
    assert [(row["name"], row["sizes"]) for row in rows] == [("big", [4, 3, 1]), ("many", [1000, 1000, 500])]
    assert [value for _, _, value in await stored(queue, "many")] == list(range(2500))


async def test_one_sequencer_at_a_time(queue, another):
    await queue.push_in_transaction("orders", "ann", 1)
    alice = await another()
    async with alice.connection.transaction():
        assert (await alice.sequence())["moved"] == 1
        assert (await queue.sequence())["moved"] == 0
    assert await stored(queue) == [("ann", 0, 1)]


async def test_a_full_queue_refuses_and_counts_what_waits(queue):
    await queue.configure("orders", max_queue_size=3)
    await queue.push("orders", "ann", 1)
    await queue.push_in_transaction("orders", "ann", 2, 3)
    with pytest.raises(QueueFull) as refusal:
        await queue.push_in_transaction("orders", "ann", 4)
    assert (refusal.value.depth, refusal.value.limit) == (3, 3)
    await queue.sequence()
    with pytest.raises(QueueFull):
        await queue.push_in_transaction("orders", "ann", 4)
    assert [value for _, _, value in await stored(queue)] == [1, 2, 3]


async def test_what_was_accepted_for_a_full_queue_waits_in_order_and_others_pass(queue, another):
    await queue.configure("orders", max_queue_size=3)
    alice, bob = await another(), await another()
    first, second = alice.connection.transaction(), bob.connection.transaction()
    await first.start()
    await second.start()
    await alice.push_in_transaction("orders", "ann", 1, 2)
    await bob.push_in_transaction("orders", "ann", 3, 4)
    await queue.push_in_transaction("letters", "ann", "passes")
    await first.commit()
    await second.commit()
    assert (await queue.sequence())["moved"] == 4
    assert (await queue.sequence())["moved"] == 0
    assert await waiting(queue) == 1
    assert await stored(queue, "letters") == [("ann", 0, "passes")]
    await queue.push_in_transaction("letters", "ann", "passes too")
    assert (await queue.sequence())["moved"] == 1
    [delivery] = await queue.pop("g", "orders")
    assert delivery.values == [1, 2, 3]
    await queue.ack(delivery)
    assert (await queue.sequence())["moved"] == 1
    [delivery] = await queue.pop("g", "orders")
    assert delivery.values == [4]


async def test_a_deleted_queue_is_created_again(queue, another):
    await queue.configure("orders", lease_seconds=10)
    alice = await another()
    async with alice.connection.transaction():
        await alice.push_in_transaction("orders", "ann", 1)
        await queue.call("delete_queue", "orders")
    await queue.sequence()
    assert await stored(queue) == [("ann", 0, 1)]


@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_a_queue_deleted_while_the_sequencer_waits_takes_its_messages_along(queue, another, until_blocked, end):
    await queue.push("orders", "ann", 0)
    await queue.push_in_transaction("orders", "ann", 1)
    await queue.push_in_transaction("letters", "ann", 2)
    alice, bob = await another(), await another()
    deleting = alice.connection.transaction()
    await deleting.start()
    await alice.call("delete_queue", "orders")
    sequencing = asyncio.create_task(bob.sequence())
    await until_blocked(bob)
    await (deleting.commit() if end == "commit" else deleting.rollback())
    assert (await sequencing)["moved"] == (1 if end == "commit" else 2)
    assert await stored(queue) == ([] if end == "commit" else [("ann", 0, 0), ("ann", 1, 1)])
    assert await stored(queue, "letters") == [("ann", 0, 2)]
    assert await waiting(queue) == 0


async def test_an_encrypted_queue_refuses_and_keeps_what_it_had_accepted(queue):
    await queue.push_in_transaction("orders", "ann", 1)
    await queue.configure("orders", encryption_enabled=True)
    with pytest.raises(EncryptionRequired):
        await queue.push_in_transaction("orders", "ann", 2)
    await queue.sequence()
    assert await stored(queue) == [("ann", 0, 1)]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("", "1"), InvalidName),
        (("__system_x", "1"), InvalidName),
        (("orders", "1", ""), InvalidName),
        (("orders", "1", None), InvalidName),
        (("orders", None), InvalidPayload),
        (("orders", "1", "ann", ""), InvalidPayload),
        (("orders", "1", "ann", "x" * 256), InvalidPayload),
    ],
)
async def test_bad_input_is_refused_and_leaves_no_trace(queue, arguments, error):
    with pytest.raises(error):
        await queue.call("push", *arguments)
    assert await waiting(queue) == 0


async def test_the_partition_is_default_when_none_is_named(queue):
    await queue.call("push", "orders", "null")
    await queue.sequence()
    assert await stored(queue) == [("Default", 0, None)]


async def test_an_insert_into_the_view_is_a_push(queue):
    await queue.connection.execute(
        "insert into queen.messages (queue, partition, payload, transaction_id) "
        """values ('orders', 'ann', '{"n": 1}', 'a'), ('orders', null, '2', null), ('orders', 'ann', '3', 'a')"""
    )
    row = await queue.sequence()
    assert (row["moved"], row["stored"]) == (2, 2)
    assert await stored(queue) == [("Default", 0, 2), ("ann", 0, {"n": 1})]


async def test_a_sleeping_sequencer_is_notified_and_a_waking_one_is_not(queue, another):
    sleeper, alice = await another(), await another()
    heard = asyncio.Queue()
    await sleeper.connection.add_listener("queen_inbox", lambda *_: heard.put_nowait("inbox"))
    await sleeper.connection.add_listener("done", lambda *_: heard.put_nowait("done"))

    await alice.push_in_transaction("orders", "ann", 1)
    await alice.connection.execute("notify done")
    assert await heard.get() == "done"

    assert await sleeper.connection.fetchval("select pg_try_advisory_lock(20814, 1)")
    await alice.push_in_transaction("orders", "ann", 2)
    assert await heard.get() == "inbox"
    await sleeper.connection.execute("select pg_advisory_unlock(20814, 1)")

    async with alice.connection.transaction():
        await alice.push_in_transaction("orders", "ann", 3)
        asleep = await sleeper.connection.fetchval("select pg_try_advisory_lock(20814, 1)")
        assert not asleep, "the sequencer may not sleep while a push is on its way"


@pytest.mark.parametrize("isolation", ["read_committed", "repeatable_read", "serializable"])
async def test_concurrent_transactions_push_at_every_isolation_level(queue, another, isolation):
    await queue.push("orders", "ann", "first", ids=["a"])
    alice, bob = await another(), await another()
    async with alice.connection.transaction(isolation=isolation), bob.connection.transaction(isolation=isolation):
        await alice.push_in_transaction("orders", "ann", *"xy", ids=["a", "b"])
        await bob.push_in_transaction("orders", "ann", *"yz", ids=["b", "c"])
    await queue.sequence()
    assert sorted(value for _, _, value in await stored(queue)) == ["first", "y", "z"]
