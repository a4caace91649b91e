"""Leases and acks after PostgreSQL has lost commits: a lease that survived counts, one that was lost counts no more."""

from contextlib import asynccontextmanager

import pytest

from queenmq.errors import LeaseGone, Refused
from tests.broker.shorthand import ack
from tests.faults.lost_history.changes import DATABASE, AsynchronousPromotion
from tests.faults.lost_history.places import (
    content,
    looking,
    patiently,
    places,
    push,
    push_as_a_stranger,
    seen,
    stored,
    take,
)

PLACES = ("one", "two", "direct")


@asynccontextmanager
async def promoted(replication, tmp_path, before, after):
    """Places whose primary was lost, with what they leased before the standby was detached and afterwards."""
    change = AsynchronousPromotion(replication)
    await change.prepare()
    async with places(change.dsn, tmp_path, spool=False) as at:
        kept = {place: await before(at[place], place) for place in PLACES}
        await change.keep()
        lost = {place: await after(at[place], place) for place in PLACES}
        await change.happen()
        async with looking(change.node.dsn(DATABASE)) as connection:
            yield at, connection, kept, lost


async def leased(queen, partition, ids):
    """Push messages to a partition and lease them."""
    await push(queen, "orders", partition, ids)
    messages = await queen.queue("orders").partition(partition).batch(10).pop()
    assert [message.transaction_id for message in messages] == ids
    return messages


async def leased_for_good(queen, place):
    return await leased(queen, f"kept-{place}", ["a", "b"])


async def leased_in_vain(queen, place):
    return await leased(queen, f"lost-{place}", ["a", "b"])


async def test_a_lease_that_survived_is_acknowledged_and_one_that_was_lost_is_not(replication, tmp_path):
    async with promoted(replication, tmp_path, leased_for_good, leased_in_vain) as (at, connection, kept, lost):
        for number in range(len(PLACES)):  # they take the ids of the lost partitions
            await push_as_a_stranger(connection, "news", f"news-{number}", ["a", "b"])
        for place, queen in at.items():
            acked = await patiently(lambda queen=queen, place=place: queen.ack_many(kept[place]))
            assert [each.success for each in acked] == [True, True]
            for gone in lost[place]:
                with pytest.raises(LeaseGone):
                    await gone.renew()
                assert not await gone.release()
            acked = await queen.ack_many(lost[place])
            assert [each.success for each in acked] == [False, False]
        assert await take(at["one"], "orders", "__QUEUE_MODE__") == []
        there = [each for each in await stored(connection) if each.queue == "news"]
        assert sorted(await take(at["two"], "news", "__QUEUE_MODE__"), key=place_of) == there


def place_of(message):
    return message.partition, message.offset


async def test_an_ack_of_a_lost_lease_does_not_touch_the_next_holder(replication, tmp_path):
    async with promoted(replication, tmp_path, nothing, leased_in_vain) as (at, connection, _, lost):
        for place, queen in at.items():
            partition = f"lost-{place}"
            await push_as_a_stranger(connection, "orders", partition, ["a", "b"])
            held = await patiently(queen.queue("orders").partition(partition).batch(10).pop)
            assert [seen(each) for each in held] == [seen(each) for each in lost[place]]  # the same ids and offsets
            assert [each.success for each in await queen.ack_many(lost[place])] == [False, False]
            with pytest.raises(Refused):
                await queen.transaction().ack(lost[place][0]).push("orders", {"never": "stored"}).commit()
            assert [each.success for each in await queen.ack_many(held)] == [True, True]
        assert {each.partition for each in await stored(connection)} == {f"lost-{place}" for place in PLACES}


async def nothing(_queen, _place):
    return []


async def test_an_ack_without_a_lease_does_not_find_a_lost_message(replication, tmp_path):
    async with promoted(replication, tmp_path, nothing, leased_in_vain) as (at, connection, _, lost):
        for number in range(len(PLACES)):
            await push_as_a_stranger(connection, "news", f"news-{number}", ["c", "d"])
        held = await patiently(at["direct"].queue("news").batch(10).max_partitions(10).pop)
        for server in at.servers:
            async with server.client() as http:
                for message in lost["one"] + lost["two"]:
                    acked = await ack(http, fields_of(message), leaseId=None)
                    assert [each["error"] for each in acked] == ["Message not found"]
        assert all(each.success for each in await at["direct"].ack_many(held))


def fields_of(message):
    return {"transactionId": message.transaction_id, "partitionId": message.partition_id, "leaseId": message.lease_id}


async def test_a_transaction_pushes_a_lost_message_again_and_acknowledges_what_it_came_from(replication, tmp_path):
    """Only the original of its message is lost: it must not be taken for a duplicate while the ack counts."""
    async with promoted(replication, tmp_path, leased_and_begun, derived) as (at, connection, kept, _):
        for place, queen in at.items():
            both = queen.transaction().ack(kept[place][0])
            both.push("results", content("results", place, "a"), partition=place, transaction_id="a")
            [pushed] = await patiently(both.commit)
            assert pushed.status == "queued"
        there = await stored(connection)
        assert {(each.partition, each.id) for each in there if each.queue == "results"} == {
            (place, id) for place in PLACES for id in ("first", "a")
        }


async def leased_and_begun(queen, place):
    assert await push(queen, "results", place, ["first"]) == ["queued"]
    return await leased_for_good(queen, place)


async def derived(queen, place):
    assert await push(queen, "results", place, ["a"]) == ["queued"]
