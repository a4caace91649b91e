"""Pop: what a consumer gets, what it may ask for, and how few calls that takes."""

import asyncio
import math
from datetime import UTC, datetime, timedelta
from time import monotonic

import pytest

from queenmq.engine.pop.ready import ReadySince
from queenmq.errors import InvalidArgument, InvalidName, InvalidTimestamp, QueenError
from queenmq.model import QUEUE_MODE, PopRequest
from tests.engine.shorthand import HOUR_MS, ack, lease_id, messages, parked, pop, push_silently, until_asked, values

pytestmark = pytest.mark.every_postgres


async def test_a_named_partition_gives_its_own_messages(engine):
    await engine.push(messages("orders", 1, 2, partition="ann") + messages("orders", 3, partition="bob"))
    popped = await pop(engine, "orders", partition="bob", batch=10)
    assert values(popped) == [3]
    assert (popped.leases[0].queue, popped.leases[0].partition) == ("orders", "bob")


async def test_a_queue_gives_any_partition_and_each_to_one_consumer(engine):
    await engine.push(messages("orders", 1, partition="ann") + messages("orders", 2, partition="bob"))
    first, second, third = [await pop(engine, "orders") for _ in range(3)]
    assert {first.leases[0].partition, second.leases[0].partition} == {"ann", "bob"}
    assert (list(third.leases), list(third.messages)) == ([], [])


async def test_a_namespace_and_a_task_give_any_queue_that_matches(engine):
    for queue, namespace, task in [("a", "shop", "mail"), ("b", "shop", "bill"), ("c", "bank", "bill")]:
        await engine.admin.configure_queue(queue, namespace=namespace, task=task)
        await engine.push(messages(queue, queue))
    assert [values(await pop(engine, namespace="shop", task="bill", group="both")) for _ in range(2)] == [["b"], []]
    by_task = [values(await pop(engine, task="bill", group="task")) for _ in range(3)]
    assert sorted(by_task) == [[], ["b"], ["c"]]
    by_namespace = [values(await pop(engine, namespace="shop", group="namespace")) for _ in range(3)]
    assert sorted(by_namespace) == [[], ["a"], ["b"]]


async def test_a_batch_is_the_most_a_pop_gets_and_the_rest_comes_next(engine):
    await engine.push(messages("orders", *range(5)))
    first = await pop(engine, "orders", batch=3)
    assert values(first) == [0, 1, 2]
    await ack(engine, first)
    assert values(await pop(engine, "orders", batch=3)) == [3, 4]


async def test_several_partitions_come_under_one_lease(engine):
    for name in "abc":
        await engine.push(messages("orders", 1, 2, partition=name))
    popped = await pop(engine, "orders", batch=10, max_partitions=2)
    assert len(popped.leases) == 2
    assert len({lease.partition for lease in popped.leases}) == 2
    assert len(popped.messages) == 4
    assert {message.lease.id for message in popped.messages} == {lease_id(popped)}
    assert all(answer.accepted for answer in await ack(engine, popped))


async def test_a_message_carries_all_that_was_pushed_with_it(engine):
    trace = (await engine.push(messages("orders", 1)))[0].id
    await engine.push(messages("orders", 2, partition="ann", ids=["o-2"], trace_id=trace, producer="shop"))
    popped = await pop(engine, "orders", partition="ann", group="billing")
    [message] = popped.messages
    [stored] = await engine.admin.list_messages("orders", partition="ann")
    assert (message.transaction_id, message.trace_id, message.producer) == ("o-2", trace, "shop")
    assert (message.id, message.created_at, message.offset) == (stored.message_id, stored.created_at, stored.offset)
    assert (message.lease.group, message.retry_count) == ("billing", 0)


async def test_without_a_transaction_id_a_message_goes_by_its_own_id(engine):
    [pushed] = await engine.push(messages("orders", 1))
    [message] = (await pop(engine, "orders")).messages
    assert message.transaction_id == str(message.id) == str(pushed.id)


async def test_auto_ack_takes_messages_without_a_lease(engine):
    await engine.push(messages("orders", 1, 2))
    popped = await pop(engine, "orders", batch=10, auto_ack=True)
    assert values(popped) == [1, 2]
    assert [(lease.id, lease.expires_at) for lease in popped.leases] == [(None, None)]
    assert values(await pop(engine, "orders", batch=10)) == []
    [line] = await engine.admin.ledger("orders")
    assert (line.completed, line.pending) == (2, 0)


async def test_a_lease_lasts_as_long_as_the_queue_says_or_the_request(engine, connection):
    await engine.admin.configure_queue("orders", lease_seconds=100)
    await engine.push(messages("orders", 1, partition="ann") + messages("orders", 2, partition="bob"))
    by_queue, by_request = await pop(engine, "orders"), await pop(engine, "orders", lease_seconds=7.5)
    now = await connection.fetchval("select clock_timestamp()")
    assert 90 < (by_queue.leases[0].expires_at - now).total_seconds() <= 100
    assert 0 < (by_request.leases[0].expires_at - now).total_seconds() <= 7.5


async def test_an_expired_lease_is_delivered_again_with_its_retry_counted(engine):
    await engine.push(messages("orders", 1))
    first = await pop(engine, "orders", lease_seconds=0.001)
    again = await pop(engine, "orders", wait_seconds=10)
    assert values(first) == values(again) == [1]
    assert again.messages[0].retry_count == 1


async def test_an_unknown_queue_and_an_empty_one_give_nothing(engine):
    await engine.admin.configure_queue("empty")
    assert values(await pop(engine, "unknown")) == []
    assert values(await pop(engine, "unknown", partition="p")) == []
    assert values(await pop(engine, "empty")) == []
    assert values(await pop(engine, namespace="nowhere")) == []


# -- where ready partitions begin


def test_the_pause_between_looks_at_all_partitions_grows_with_what_they_take():
    ready = ReadySince()
    for seconds, pause in ((0.01, 1), (5, 1), (0.2, 4), (0.3, 4), (0.3, 6), (9, 6), (9, 30), (0.01, 1)):
        ready.look()
        ready.looked(seconds)
        assert ready.pause == pytest.approx(pause)


async def test_what_was_ready_long_ago_and_seen_late_is_found_by_the_next_look_at_all(engine, connection, monkeypatch):
    await engine.push([*messages("orders", 1, partition="ann"), *messages("orders", 2, partition="bob")])
    assert values(await pop(engine, "orders", group="g")) == [1]
    await engine.push(messages("orders", 3, partition="carl"))
    assert values(await pop(engine, "orders", group="g")) == [2]
    await connection.execute(
        "update queen.partition_consumers set ready_at = ready_at - interval '1 hour' where lease_id is null"
    )
    assert values(await pop(engine, "orders", group="g")) == []
    monkeypatch.setattr("queenmq.engine.pop.ready.monotonic", lambda: monotonic() + 2)
    assert values(await pop(engine, "orders", group="g")) == [3]


# -- subscriptions


async def test_plain_queue_mode_reads_everything_whatever_the_default_is(open_engine):
    engine = await open_engine(default_subscription_mode="new")
    await engine.push(messages("orders", 1))
    assert values(await pop(engine, "orders", group=QUEUE_MODE)) == [1]


async def test_a_group_that_asks_for_new_messages_starts_a_little_before_now(open_engine, connection):
    engine = await open_engine(poll_interval_min_ms=1, poll_interval_max_ms=60_000)
    await engine.push(messages("orders", "long ago"))
    await age(connection, 121)
    await engine.push(messages("orders", "just now"))
    popped = await pop(engine, "orders", group="g", subscription_mode="new", batch=10)
    assert values(popped) == ["just now"]


async def test_the_look_back_is_twice_the_longest_poll_interval(open_engine, connection):
    engine = await open_engine(poll_interval_min_ms=1, poll_interval_max_ms=1)
    await engine.push(messages("orders", "two seconds ago"))
    await age(connection, 2)
    assert values(await pop(engine, "orders", group="g", subscription_mode="new", batch=10)) == []


@pytest.mark.parametrize(("mode", "read"), [("all", ["old", "fresh"]), ("new", ["fresh"])])
async def test_a_group_that_does_not_say_starts_where_the_setting_says(open_engine, connection, mode, read):
    engine = await open_engine(default_subscription_mode=mode)
    await engine.push(messages("orders", "old"))
    await age(connection, 3600)
    await engine.push(messages("orders", "fresh"))
    assert values(await pop(engine, "orders", group="g", batch=10)) == read


async def test_the_first_mode_wins_and_survives_a_restart(open_engine, connection):
    engine = await open_engine()
    await engine.push(messages("orders", "old"))
    await age(connection, 3600)
    assert values(await pop(engine, "orders", group="g", subscription_mode="new")) == []
    await engine.close()
    engine = await open_engine(default_subscription_mode="all")
    assert values(await pop(engine, "orders", group="g", subscription_mode="all")) == []


async def test_a_timestamp_subscribes_from_there_with_or_without_the_mode(engine, connection):
    await engine.push(messages("orders", "old"))
    await age(connection, 3600)
    [fresh] = await engine.push(messages("orders", "fresh"))
    since = fresh.created_at - timedelta(seconds=1)
    named = await pop(engine, "orders", group="a", batch=9, subscription_mode="timestamp", subscription_from=since)
    unnamed = await pop(engine, "orders", group="b", batch=9, subscription_from=since)
    assert values(named) == values(unnamed) == ["fresh"]


async def age(connection, seconds):
    """Everything that is stored was pushed so much earlier."""
    by = timedelta(seconds=seconds)
    await connection.execute("update queen.segments set created_at = created_at - $1::interval", by)
    await connection.execute("update queen.partition_lookup set last_message_at = last_message_at - $1::interval", by)


# -- bad requests

WEEK = 604_800


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({}, InvalidArgument),
        ({"partition": "p", "namespace": "n"}, InvalidArgument),
        ({"queue": ""}, InvalidName),
        ({"queue": "q" * 256}, InvalidName),
        ({"queue": "a\nb"}, InvalidName),
        ({"queue": "\ud800"}, InvalidName),
        ({"queue": "q", "partition": ""}, InvalidName),
        ({"queue": "q", "group": ""}, InvalidName),
        ({"queue": "q", "group": "g\x00"}, InvalidName),
        ({"namespace": "n\x7f"}, InvalidName),
        ({"task": "t" * 256}, InvalidName),
        ({"queue": "q", "batch": 0}, InvalidArgument),
        ({"queue": "q", "batch": 10_001}, InvalidArgument),
        ({"queue": "q", "max_partitions": 0}, InvalidArgument),
        ({"queue": "q", "max_partitions": 1_001}, InvalidArgument),
        ({"queue": "q", "lease_seconds": 0}, InvalidArgument),
        ({"queue": "q", "lease_seconds": -1}, InvalidArgument),
        ({"queue": "q", "lease_seconds": math.nan}, InvalidArgument),
        ({"queue": "q", "lease_seconds": WEEK + 1}, InvalidArgument),
        ({"queue": "q", "subscription_mode": "timestamp"}, InvalidTimestamp),
        ({"queue": "q", "subscription_from": datetime(2025, 1, 1)}, InvalidTimestamp),  # noqa: DTZ001
        ({"queue": "q", "subscription_mode": "newest", "group": "g"}, InvalidArgument),
    ],
)
async def test_a_pop_that_makes_no_sense_is_refused(engine, request_, error):
    await engine.admin.configure_queue("q")
    with pytest.raises(error):
        await engine.pop(PopRequest(**request_))


@pytest.mark.parametrize("seconds", [-1, 3601, math.nan, math.inf])
async def test_a_wait_that_makes_no_sense_is_refused(engine, seconds):
    with pytest.raises(InvalidArgument):
        await pop(engine, "orders", wait_seconds=seconds)


async def test_a_subscription_may_begin_at_any_time_there_is(engine):
    await engine.push(messages("orders", 1))
    earliest, latest = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)
    assert values(await pop(engine, "orders", group="a", subscription_from=earliest)) == [1]
    assert values(await pop(engine, "orders", group="b", subscription_from=latest)) == []


async def test_the_largest_batch_is_a_setting(open_engine):
    engine = await open_engine(batch_messages_max=3)
    await engine.push(messages("orders", *range(5)))
    with pytest.raises(InvalidArgument):
        await pop(engine, "orders", batch=4)
    assert values(await pop(engine, "orders", batch=3)) == [0, 1, 2]


async def test_a_bad_pop_does_not_spoil_those_that_travel_with_it(engine):
    await engine.push(messages("orders", 1, partition="ann") + messages("orders", 2, partition="bob"))
    answers = await asyncio.gather(
        pop(engine, "orders"),
        pop(engine, "orders", group="g", subscription_mode="newest"),
        pop(engine, "orders"),
        return_exceptions=True,
    )
    assert isinstance(answers[1], InvalidArgument)
    assert sorted(values(answers[0]) + values(answers[2])) == [1, 2]


# -- many at once


async def test_a_hundred_pops_get_a_hundred_partitions_with_at_most_ten_calls(engine):
    await engine.push([each for n in range(100) for each in messages("orders", n, partition=str(n))])
    popped = await asyncio.gather(*(pop(engine, "orders", group="g") for _ in range(100)))
    assert engine.popper.batcher.batches <= 10
    assert len({each.leases[0].partition for each in popped}) == 100
    assert len({lease_id(each) for each in popped}) == 100
    assert sorted(values(each)[0] for each in popped) == list(range(100))


async def test_pops_of_all_kinds_travel_together(engine):
    await engine.admin.configure_queue("orders", namespace="shop")
    await engine.push([each for n in range(20) for each in messages("orders", n, partition=str(n))])
    popped = await asyncio.gather(
        *(pop(engine, "orders", group=f"g{n % 3}") for n in range(12)),
        *(pop(engine, "orders", partition=str(n), group="named") for n in range(5)),
        *(pop(engine, namespace="shop", group="any") for _ in range(5)),
    )
    assert engine.popper.batcher.batches <= 5
    held = {(each.leases[0].partition, each.leases[0].group) for each in popped}
    assert len(held) == len({lease_id(each) for each in popped}) == 22


async def test_pops_that_do_not_share_calls_make_one_each(open_engine):
    engine = await open_engine(pop_batching=False)
    await engine.push([each for n in range(10) for each in messages("orders", n, partition=str(n))])
    popped = await asyncio.gather(*(pop(engine, "orders") for _ in range(10)))
    assert engine.popper.batcher.batches == 10
    assert len({each.leases[0].partition for each in popped}) == 10


@pytest.mark.parametrize("calls", [1, 3])
async def test_only_so_many_pops_are_in_flight_as_the_setting_allows(open_engine, connection, calls):
    engine = await open_engine(pop_calls_max=calls, pop_batching=False, pool_size_max=10)
    await engine.push([each for n in range(8) for each in messages("orders", n, partition=str(n))])
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("lock table queen.partition_consumers in access exclusive mode")
    pops = [asyncio.create_task(pop(engine, "orders")) for _ in range(8)]

    async def waiting():
        return await connection.fetchval(
            "select count(*) from pg_locks where not granted and database = "
            "(select oid from pg_database where datname = current_database())"
        )

    async def all_wait():
        return await waiting() >= calls

    await until_asked(all_wait)
    seen = max([await waiting() for _ in range(50)])
    await transaction.rollback()
    await asyncio.gather(*pops)
    assert seen == calls


async def test_groups_that_start_together_get_as_much_as_each_asked_for(engine):
    for n in range(3):  # three segments
        await engine.push(messages("orders", n, n + 10))
    many, one = await asyncio.gather(
        pop(engine, "orders", group="many", batch=6), pop(engine, "orders", group="one", batch=1)
    )
    assert values(many) == [0, 10, 1, 11, 2, 12]
    assert values(one) == [0]


# -- nobody there to take it


async def leased(connection):
    return await connection.fetchval("select count(*) from queen.partition_consumers where lease_id is not null")


async def test_a_caller_that_goes_away_leaves_no_lease_behind(engine, connection):
    await engine.push(messages("orders", 1))
    await ack(engine, await pop(engine, "orders", group="g"))
    await engine.push(messages("orders", 2))
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("lock table queen.partition_consumers in share mode")
    going = asyncio.create_task(pop(engine, "orders", group="g"))
    await until_asked(lambda: connection.fetchval("select count(*) from pg_locks where not granted"))
    going.cancel()
    await transaction.rollback()
    await engine.close()
    assert going.cancelled()
    assert await leased(connection) == 0


async def test_what_a_caller_left_behind_goes_at_once_to_a_poll_that_waits(open_engine, connection):
    engine = await open_engine(poll_interval_min_ms=HOUR_MS, poll_interval_max_ms=HOUR_MS)
    [first] = await engine.push(messages("orders", 1))
    await ack(engine, await pop(engine, "orders", group="g"))
    staying = asyncio.create_task(pop(engine, "orders", group="g", wait_seconds=60))
    await parked(engine)
    await push_silently(connection, first.partition_id, 2)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("lock table queen.partition_consumers in share mode")
    going = asyncio.create_task(pop(engine, "orders", group="g"))
    await until_asked(lambda: connection.fetchval("select count(*) from pg_locks where not granted"))
    going.cancel()
    await transaction.rollback()
    popped = await staying
    assert values(popped) == [2]
    assert popped.messages[0].retry_count == 0


async def test_a_pop_whose_payloads_cannot_be_fetched_gives_its_lease_back(open_engine, connection):
    engine = await open_engine(segment_cache_bytes_max=0)
    await engine.push(messages("orders", 1))
    await connection.execute("alter function queen.fetch_segments rename to fetch_nothing")
    with pytest.raises(QueenError):
        await pop(engine, "orders")
    await connection.execute("alter function queen.fetch_nothing rename to fetch_segments")
    assert await leased(connection) == 0
    assert values(await pop(engine, "orders")) == [1]
