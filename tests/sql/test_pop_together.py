"""Pops that travel together: whatever else is in the call, each gets what it would get alone, and nobody the same."""

import itertools
import uuid

import pytest

from tests.queue_in_sql import Delivery

pytestmark = pytest.mark.every_postgres


async def pop_together(queue, *asks):
    """One call for (queue, partition, group[, options]); what each got, as {(partition, offsets)}."""
    asks = [(*ask, {}) if len(ask) == 3 else ask for ask in asks]

    def option(name, default):
        return [options.get(name, default) for *_, options in asks]

    rows = await queue.call(
        "pop_batch", [ask[0] for ask in asks], [ask[1] for ask in asks], option("namespace", None),
        option("task", None), [ask[2] for ask in asks], option("batch", 100), option("partitions", 1),
        option("lease_seconds", None),
        option("auto_ack", False), [uuid.uuid4() for _ in asks], option("mode", "all"), option("since", None),
        p_now=queue.clock.now,
    )  # fmt: skip
    got = [[] for _ in asks]
    for row in rows:
        got[row["request"] - 1].append(await queue._delivery(row))
    return got


def what(got):
    return [[(each.queue, each.partition, each.values) for each in own] for own in got]


@pytest.fixture
async def orders(queue):
    """A queue with two partitions, of which ann has been ready for longer, and two groups."""
    await queue.configure("orders")
    for group in ("g", "h"):
        assert await queue.pop(group, "orders") == []
    await queue.push("orders", "ann", 1, 2)
    queue.clock.advance(1)
    await queue.push("orders", "bob", 7)
    return queue


async def test_groups_do_not_take_from_each_other(orders):
    got = await pop_together(orders, *[("orders", None, group) for group in ("g", "h", "g", "h", "h")])
    ann, bob = ("orders", "ann", [1, 2]), ("orders", "bob", [7])
    assert what(got) == [[ann], [ann], [bob], [bob], []]
    leases = [each.lease_id for own in got for each in own]
    assert len(set(leases)) == 4


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_a_queue_that_is_not_there_changes_nothing_for_the_others(orders, place):
    asks = [("orders", None, "g"), ("orders", None, "h")]
    asks.insert(place, ("nothing", None, "g"))
    got = await pop_together(orders, *asks)
    assert what(got[:place] + got[place + 1 :]) == [[("orders", "ann", [1, 2])]] * 2
    assert got[place] == []
    got = await pop_together(orders, ("nothing", None, "g"), ("orders", None, "g"))
    assert what(got) == [[], [("orders", "bob", [7])]]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
async def test_who_names_a_partition_and_who_does_not_never_get_the_same_one(orders, order):
    asks = [("orders", "ann", "g"), ("orders", None, "g"), ("orders", "ann", "g")]
    got = await pop_together(orders, *[asks[place] for place in order])
    held = sorted(each.partition for own in got for each in own)
    assert held == ["ann", "bob"]


async def test_what_lapsed_or_failed_goes_out_beside_what_did_not(orders):
    [[lapsed], [failed]] = await pop_together(
        orders, ("orders", "ann", "g", {"lease_seconds": 1}), ("orders", "ann", "h", {"batch": 1})
    )
    assert isinstance(lapsed, Delivery)
    await orders.fail(failed)
    orders.clock.advance(60)
    got = await pop_together(orders, *[("orders", None, group) for group in ("g", "h", "g", "h")])
    found = {(number % 2, each.partition): each for number, own in enumerate(got) for each in own}
    assert {key: each.values for key, each in found.items()} == {
        (0, "ann"): [1, 2], (0, "bob"): [7], (1, "ann"): [1, 2], (1, "bob"): [7],
    }  # fmt: skip
    assert (found[0, "ann"].retry_counts, found[0, "bob"].retry_counts) == ([1, 1], [0])
    assert (found[1, "ann"].retries, found[1, "bob"].retries) == ({0: 1}, {})


async def test_some_acknowledge_at_once_and_others_hold_leases(orders):
    got = await pop_together(
        orders,
        ("orders", "ann", "g", {"auto_ack": True, "batch": 1}),
        ("orders", "ann", "h", {"lease_seconds": 5}),
        ("orders", "bob", "h", {"auto_ack": True}),
    )
    assert what(got) == [[("orders", "ann", [1])], [("orders", "ann", [1, 2])], [("orders", "bob", [7])]]
    assert [own[0].lease_id is None for own in got] == [True, False, True]
    assert (got[1][0].expires_at - orders.clock.now).total_seconds() == 5
    got = await pop_together(orders, *[("orders", None, group) for group in ("g", "g", "h", "h")])
    assert sorted((each.partition, each.values) for own in got[:2] for each in own) == [("ann", [2]), ("bob", [7])]
    assert got[2:] == [[], []]


async def test_queues_with_a_delay_and_without_one_are_served_in_one_call(orders):
    await orders.configure("later", delayed_processing_seconds=10)
    await orders.push("later", "ann", 1)
    asks = [("later", None, "g"), ("orders", None, "g"), ("later", None, "h")]
    got = await pop_together(orders, *asks)
    assert what(got) == [[], [("orders", "ann", [1, 2])], []]
    orders.clock.advance(11)
    got = await pop_together(orders, *asks)
    assert what(got) == [[("later", "ann", [1])], [("orders", "bob", [7])], [("later", "ann", [1])]]


async def test_one_that_wants_several_partitions_leaves_some_to_the_others(orders):
    got = await pop_together(
        orders, ("orders", None, "g", {"partitions": 2}), ("orders", None, "g"), ("orders", None, "h")
    )
    assert [len(own) for own in got] == [1, 1, 1]
