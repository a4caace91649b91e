"""Each setting of a queue changes what the queue does, and a bad one changes nothing."""

import asyncio
import json
from datetime import timedelta

import pytest

from queenmq.errors import EncryptionRequired, InvalidName, InvalidSetting, QueueFull

pytestmark = pytest.mark.every_postgres


async def settings(queue, name):
    [row] = await queue.connection.fetch("select * from queen.queues where name = $1", name)
    return dict(row)


async def test_a_queue_is_created_with_defaults(queue):
    await queue.configure("orders")
    row = await settings(queue, "orders")
    assert (row["lease_seconds"], row["retry_limit"], row["max_queue_size"]) == (300, 3, 0)
    assert (row["namespace"], row["task"], row["created_at"]) == ("", "", queue.clock.now)


async def test_only_what_is_named_changes(queue):
    await queue.configure("orders", "shop", "billing", lease_seconds=60, priority=-5)
    before = await settings(queue, "orders")
    await queue.configure("orders", retry_limit=7, retention_enabled=False)
    assert await settings(queue, "orders") == before | {"retry_limit": 7, "retention_enabled": False}
    await queue.configure("orders", "", None)
    after = await settings(queue, "orders")
    assert (after["namespace"], after["task"]) == ("", "billing")


async def test_configuring_answers_the_whole_row(queue):
    [row] = await queue.call("configure_queue", "orders", None, None, '{"priority": 3}', queue.clock.now)
    assert dict(row) == await settings(queue, "orders")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"lease": 5}, "there is no option lease (its value was 5)"),
        ({"lease_seconds": 0}, "option lease_seconds is 0; it must be a whole number between 1 and 604800"),
        ({"lease_seconds": 604801}, "between 1 and 604800"),
        ({"lease_seconds": 1.5}, "option lease_seconds is 1.5; it must be a whole number"),
        ({"lease_seconds": "60"}, 'option lease_seconds is "60"; it must be a whole number'),
        ({"lease_seconds": None}, "option lease_seconds is null; it must be a whole number"),
        ({"retry_limit": -1}, "option retry_limit is -1; it must be a whole number between 0 and 1000"),
        ({"retry_delay_ms": 86400001}, "between 0 and 86400000"),
        ({"retry_backoff": 11}, "option retry_backoff is 11; it must be a whole number between 1 and 10"),
        ({"priority": 10**30}, "between -1000000 and 1000000"),
        ({"delayed_processing_seconds": -1}, "between 0 and 31536000"),
        ({"window_buffer_seconds": 10**6}, "between 0 and 604800"),
        ({"max_wait_seconds": -2}, "between 0 and 315360000"),
        ({"ttl_seconds": -2}, "between 0 and 315360000"),
        ({"max_queue_size": -1}, "between 0 and 1000000000000"),
        ({"retention_seconds": []}, "option retention_seconds is []; it must be a whole number"),
        ({"completed_retention_seconds": True}, "option completed_retention_seconds is true"),
        ({"dedup_window_seconds": 2592001}, "between 0 and 2592000"),
        ({"retention_enabled": 1}, "option retention_enabled is 1; it must be true or false"),
        ({"encryption_enabled": "yes"}, 'option encryption_enabled is "yes"; it must be true or false'),
        ({"dead_letter_enabled": None}, "option dead_letter_enabled is null; it must be true or false"),
        ({"lease_seconds": 60, "name": "mine"}, 'there is no option name (its value was "mine")'),
        ([], "queue options are a JSON object"),
        (None, "queue options are a JSON object"),
    ],
)
async def test_a_bad_option_is_refused_with_its_range_and_leaves_no_trace(queue, options, sentence):
    with pytest.raises(InvalidSetting) as refusal:
        await queue.call("configure_queue", "orders", "shop", None, json.dumps(options), queue.clock.now)
    assert sentence in str(refusal.value)
    assert await queue.connection.fetchval("select count(*) from queen.queues") == 0


@pytest.mark.parametrize(
    ("name", "namespace", "task"),
    [
        ("", None, None),
        ("x" * 256, None, None),
        ("a\nb", None, None),
        ("__system_x", None, None),
        ("orders", "a\tb", None),
        ("orders", None, "t" * 256),
    ],
)
async def test_a_bad_name_is_refused_and_leaves_no_trace(queue, name, namespace, task):
    with pytest.raises(InvalidName):
        await queue.configure(name, namespace, task)
    assert await queue.connection.fetchval("select count(*) from queen.queues") == 0


async def test_the_lease_lasts_as_long_as_the_queue_says(queue):
    await queue.configure("orders", lease_seconds=10)
    await queue.push("orders", "ann", 1)
    [delivery] = await queue.pop("g", "orders")
    assert delivery.expires_at == queue.clock.now + timedelta(seconds=10)
    queue.clock.advance(9.9)
    assert await queue.pop("g", "orders") == []
    queue.clock.advance(0.1)
    [again] = await queue.pop("g", "orders")
    assert (again.values, again.retry_counts) == ([1], [1])


@pytest.mark.parametrize(("options", "pauses"), [({}, [1, 1, 1]), ({"retry_backoff": 3}, [1, 3, 9])])
async def test_retries_pause_as_the_queue_says_until_the_limit(queue, options, pauses):
    await queue.configure("orders", retry_limit=3, retry_delay_ms=1000, **options)
    await queue.push("orders", "ann", "bad", "good")
    for failures, pause in enumerate(pauses):
        [delivery] = await queue.pop("g", "orders", batch=1)
        assert (delivery.values, delivery.retries.get(0, 0)) == (["bad"], failures)
        await queue.fail(delivery, error="boom")
        queue.clock.advance(pause - 0.001)
        assert await queue.pop("g", "orders") == []
        queue.clock.advance(0.001)
    [delivery] = await queue.pop("g", "orders", batch=1)
    assert (await queue.fail(delivery, error="boom")).dead == [0]
    [letter] = await queue.dead_letters("orders")
    assert (letter["offset"], letter["retry_count"], letter["error"]) == (0, 3, "boom")
    [delivery] = await queue.pop("g", "orders")
    assert delivery.values == ["good"]


async def test_a_retry_limit_of_zero_gives_up_at_once(queue):
    await queue.configure("orders", retry_limit=0)
    await queue.push("orders", "ann", 1)
    [delivery] = await queue.pop("g", "orders")
    assert (await queue.fail(delivery)).dead == [0]


async def test_without_dead_letters_what_fails_counts_as_expired(queue):
    await queue.configure("orders", retry_limit=0, dead_letter_enabled=False)
    await queue.push("orders", "ann", 1, 2)
    [delivery] = await queue.pop("g", "orders")
    await queue.fail(delivery, [0])
    await queue.ack(delivery, [1])
    assert await queue.dead_letters("orders") == []
    row = await queue.connection.fetchrow("select * from queen.ledger")
    assert (row["completed"], row["dead_lettered"], row["expired"], row["balanced"]) == (1, 0, 1, True)


async def test_an_explicit_dlq_is_kept_even_where_failures_are_not(queue):
    await queue.configure("orders", dead_letter_enabled=False)
    await queue.push("orders", "ann", 1)
    [delivery] = await queue.pop("g", "orders")
    await queue.ack(delivery, status="dlq", error="please look")
    assert [letter["error"] for letter in await queue.dead_letters("orders")] == ["please look"]


async def test_a_delay_holds_each_message_back_for_its_own_time(queue):
    await queue.configure("orders", delayed_processing_seconds=30)
    await queue.push("orders", "ann", 1)
    queue.clock.advance(10)
    await queue.push("orders", "ann", 2)
    assert await queue.pop("g", "orders") == []
    queue.clock.advance(20)
    [delivery] = await queue.pop("g", "orders")
    assert delivery.values == [1]
    await queue.ack(delivery)
    assert await queue.pop("g", "orders") == []
    queue.clock.advance(10)
    [delivery] = await queue.pop("g", "orders")
    assert delivery.values == [2]


async def test_a_shorter_delay_counts_at_once_for_what_is_waiting(queue):
    await queue.configure("orders", delayed_processing_seconds=3600)
    await queue.push("orders", "ann", 1)
    assert await queue.pop("g", "orders") == []
    await queue.configure("orders", delayed_processing_seconds=10)
    queue.clock.advance(10)
    [delivery] = await queue.pop("g", "orders")
    assert delivery.values == [1]


async def test_a_longer_delay_counts_for_what_is_ready(queue):
    await queue.push("orders", "ann", 1)
    await queue.configure("orders", delayed_processing_seconds=60)
    assert await queue.pop("g", "orders") == []
    queue.clock.advance(60)
    assert len(await queue.pop("g", "orders")) == 1


async def test_a_changed_delay_does_not_shorten_the_pause_before_a_retry(queue):
    await queue.configure("orders", retry_delay_ms=60_000)
    await queue.push("orders", "ann", 1)
    [delivery] = await queue.pop("g", "orders")
    await queue.fail(delivery)
    await queue.configure("orders", delayed_processing_seconds=1)
    queue.clock.advance(59)
    assert await queue.pop("g", "orders") == []
    queue.clock.advance(1)
    assert len(await queue.pop("g", "orders")) == 1


async def test_a_window_waits_until_the_partition_is_quiet(queue):
    await queue.configure("orders", window_buffer_seconds=5)
    await queue.push("orders", "ann", 1)
    queue.clock.advance(4)
    await queue.push("orders", "ann", 2)
    queue.clock.advance(4)
    assert await queue.pop("g", "orders") == []
    queue.clock.advance(1)
    [delivery] = await queue.pop("g", "orders")
    assert delivery.values == [1, 2]


async def test_a_window_that_is_switched_off_releases_what_it_held(queue):
    await queue.configure("orders", window_buffer_seconds=3600)
    await queue.push("orders", "ann", 1)
    assert await queue.pop("g", "orders") == []
    await queue.configure("orders", window_buffer_seconds=0)
    assert len(await queue.pop("g", "orders")) == 1


@pytest.mark.parametrize("dead_letters", [True, False])
async def test_what_waited_too_long_is_given_up(queue, dead_letters):
    await queue.configure("orders", max_wait_seconds=60, dead_letter_enabled=dead_letters)
    await queue.push("orders", "ann", 1, 2)
    queue.clock.advance(30)
    await queue.push("orders", "ann", 3)
    queue.clock.advance(31)
    [delivery] = await queue.pop("g", "orders")
    assert delivery.values == [3]
    letters = await queue.dead_letters("orders")
    assert [letter["error"] for letter in letters] == ["waited longer than 60 s"] * (2 * dead_letters)
    row = await queue.connection.fetchrow("select dead_lettered, expired from queen.ledger")
    assert tuple(row) == ((2, 0) if dead_letters else (0, 2))


async def test_thousands_that_waited_too_long_are_never_delivered(queue):
    await queue.configure("orders", max_wait_seconds=60)
    await queue.push("orders", "ann", *range(2500))
    queue.clock.advance(61)
    await queue.push("orders", "ann", "fresh")
    delivered = []
    for _ in range(5):
        for delivery in await queue.pop("g", "orders"):
            delivered += delivery.values
            await queue.ack(delivery)
    assert delivered == ["fresh"]
    assert await queue.connection.fetchval("select dead_lettered from queen.ledger") == 2500


async def test_a_full_queue_refuses_a_push_whole(queue):
    await queue.configure("orders", max_queue_size=3)
    await queue.push("orders", "ann", 1, 2)
    with pytest.raises(QueueFull) as refusal:
        await queue.push_many(("orders", "ann", [3]), ("orders", "bob", [4]))
    assert (refusal.value.queue, refusal.value.depth, refusal.value.limit) == ("orders", 2, 3)
    await queue.push("orders", "bob", 3)
    [delivery] = await queue.pop("g", "orders", "ann")
    await queue.ack(delivery)
    await queue.push("orders", "ann", 5, 6)
    with pytest.raises(QueueFull):
        await queue.push("orders", "ann", 7)


async def test_a_push_larger_than_the_limit_says_that_it_can_never_fit(queue):
    await queue.configure("orders", max_queue_size=3)
    with pytest.raises(QueueFull, match="a push of 4 messages can never fit into") as never:
        await queue.push("orders", "ann", 1, 2, 3, 4)
    assert (never.value.depth, never.value.limit) == (0, 3)
    await queue.push("orders", "ann", 1, 2)
    with pytest.raises(QueueFull, match="no room for 2 messages: 2 are waiting and 3 is the limit"):
        await queue.push("orders", "ann", 3, 4)


async def test_a_new_limit_counts_at_once(queue):
    await queue.configure("orders", max_queue_size=100)
    await queue.push("orders", "ann", *range(10))
    await queue.configure("orders", max_queue_size=10)
    with pytest.raises(QueueFull):
        await queue.push("orders", "ann", 11)
    await queue.configure("orders", max_queue_size=0)
    await queue.push("orders", "ann", 11)


@pytest.mark.parametrize("partition", ["ann", "bob"])
async def test_two_pushes_race_for_the_last_place_and_one_gets_it(queue, another, until_blocked, partition):
    await queue.configure("orders", max_queue_size=2)
    await queue.push("orders", "ann", 1)
    await queue.partition_id("orders", "bob")
    alice, bob = await another(), await another()
    transaction = alice.connection.transaction()
    await transaction.start()
    await alice.push("orders", "ann", 2)
    racing = asyncio.create_task(bob.push("orders", partition, 3))
    await until_blocked(bob)
    await transaction.commit()
    with pytest.raises(QueueFull):
        await racing


async def test_the_last_place_is_free_again_when_its_push_is_rolled_back(queue, another, until_blocked):
    await queue.configure("orders", max_queue_size=2)
    await queue.push("orders", "ann", 1)
    alice, bob = await another(), await another()
    transaction = alice.connection.transaction()
    await transaction.start()
    await alice.push("orders", "ann", 2)
    racing = asyncio.create_task(bob.push("orders", "ann", 3))
    await until_blocked(bob)
    await transaction.rollback()
    assert await racing == [1]


async def test_an_id_may_be_used_again_after_the_dedup_window(queue):
    await queue.configure("orders", dedup_window_seconds=60)
    assert await queue.push("orders", "ann", 1, ids=["a"]) == [0]
    queue.clock.advance(60)
    assert await queue.push("orders", "ann", 2, ids=["a"]) == [0]
    queue.clock.advance(1)
    assert await queue.push("orders", "ann", 3, ids=["a"]) == [1]
    assert await queue.push("orders", "bob", 4, ids=["a"]) == [0]


async def test_a_dedup_window_of_zero_stores_everything(queue):
    await queue.configure("orders", dedup_window_seconds=0)
    assert await queue.push("orders", "ann", 1, ids=["a"]) == [0]
    assert await queue.push("orders", "ann", 2, ids=["a"]) == [1]


async def test_a_refused_duplicate_does_not_start_the_quiet_time_anew(queue):
    await queue.configure("orders", window_buffer_seconds=5)
    await queue.push("orders", "ann", 1, ids=["a"])
    queue.clock.advance(4)
    assert await queue.push("orders", "ann", 1, ids=["a"]) == [0]
    queue.clock.advance(1)
    assert len(await queue.pop("g", "orders")) == 1


async def test_a_namespace_pop_takes_the_queue_with_the_highest_priority_first(queue):
    for name, priority in [("low", 1), ("high", 10), ("middle", 5)]:
        await queue.configure(name, "shop", priority=priority)
        await queue.push(name, "p", name)
    taken = [(await queue.pop("g", namespace="shop"))[0].values[0] for _ in range(3)]
    assert taken == ["high", "middle", "low"]
    assert await queue.pop("g", namespace="shop") == []


async def test_nothing_readable_enters_an_encrypted_queue(queue):
    await queue.configure("orders", encryption_enabled=True)
    with pytest.raises(EncryptionRequired):
        await queue.push("orders", "ann", 1)
    assert await queue.connection.fetchval("select count(*) from queen.segments") == 0


async def test_a_queue_that_moves_gets_the_groups_of_its_new_namespace(queue):
    await queue.configure("orders", "shop")
    assert await queue.pop("auditors", namespace="bank") == []
    await queue.push("orders", "ann", 1)
    await queue.configure("orders", "bank")
    [delivery] = await queue.pop("auditors", namespace="bank")
    assert delivery.values == [1]
    await queue.configure("orders", "shop")
    await queue.ack(delivery)
    assert await queue.pop("auditors", namespace="bank") == []
