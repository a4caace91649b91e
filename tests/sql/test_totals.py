"""Totals: what is in partitions and queues, where the work is, and what happened when."""

from datetime import timedelta

import pytest

from queenmq.errors import GroupNotFound, InvalidArgument, QueueNotFound

pytestmark = pytest.mark.every_postgres


async def totals(queue, name="orders", most=1000):
    id = await queue.connection.fetchval("select id from queen.queues where name = $1", name)
    [row] = await queue.call("queue_totals", [id], most)
    return {key: row[key] for key in ("partitions", "stored", "pending", "leased", "retrying", "dead_letters")}


async def pending(queue, group=None, limit=100):
    rows = await queue.call("pending_partitions", "orders", group, limit, queue.clock.now)
    return [(row["partition"], row["pending"], row["partitions_pending"], row["pending_total"]) for row in rows]


async def traffic(queue, before, after, step="minute", **named):
    since, until = queue.clock.now + timedelta(minutes=before), queue.clock.now + timedelta(minutes=after)
    rows = await queue.call("traffic", since, until, step, **named)
    return [(row["pushed"], row["completed"], row["dead_lettered"], row["unfinished"]) for row in rows]


async def test_a_queue_that_nobody_reads_has_everything_pending(queue):
    await queue.configure("orders")
    nothing = dict.fromkeys(("partitions", "stored", "pending", "leased", "retrying", "dead_letters"), 0)
    assert await totals(queue) == nothing
    await queue.push_many(("orders", "ann", [1, 2, 3]), ("orders", "bob", [4]))
    assert await totals(queue) == nothing | {"partitions": 2, "stored": 4, "pending": 4}


async def test_the_slowest_group_counts(queue):
    await queue.push("orders", "ann", *range(10))
    [delivery] = await queue.pop("quick", "orders")
    await queue.ack(delivery)
    assert (await totals(queue))["pending"] == 0
    [delivery] = await queue.pop("slow", "orders", batch=4)
    assert await totals(queue) == {
        "partitions": 1, "stored": 10, "pending": 6, "leased": 4, "retrying": 0, "dead_letters": 0,
    }  # fmt: skip
    await queue.ack(delivery, [1, 2])
    await queue.fail(delivery, [0])
    await queue.ack(delivery, [3], "dlq")
    assert await totals(queue) == {
        "partitions": 1, "stored": 10, "pending": 7, "leased": 0, "retrying": 1, "dead_letters": 1,
    }  # fmt: skip


async def test_large_queues_are_as_they_were_when_last_counted(queue):
    await queue.push_many(*[("orders", str(n), [n]) for n in range(5)])
    assert (await totals(queue, most=4))["stored"] == 5  # never counted before
    await queue.call("collect_stats", queue.clock.now)
    await queue.push("orders", "0", "more")
    assert (await totals(queue, most=4))["stored"] == 5
    assert (await totals(queue, most=5))["stored"] == 6


async def test_where_the_work_is(queue):
    await queue.push_many(("orders", "ann", [1, 2, 3]), ("orders", "bob", [4]), ("orders", "eve", [5, 6]))
    assert await pending(queue) == [("ann", 3, 3, 6), ("eve", 2, 3, 6), ("bob", 1, 3, 6)]
    for delivery in await queue.pop("g", "orders", partitions=3):
        await queue.ack(delivery, delivery.offsets[-1:])
    assert await pending(queue, "g") == []  # the others are leased
    queue.clock.advance(10_000)
    assert await pending(queue, "g") == [("ann", 2, 2, 3), ("eve", 1, 2, 3)]
    assert await pending(queue, limit=1) == [("ann", 2, 2, 3)]
    with pytest.raises(GroupNotFound):
        await pending(queue, "nobody")
    with pytest.raises(InvalidArgument):
        await pending(queue, limit=0)
    with pytest.raises(QueueNotFound):
        await queue.call("pending_partitions", "nowhere")


async def test_the_backlog_and_the_totals_agree_on_what_is_pending(queue):
    await queue.push_many(("orders", "ann", [1, 2, 3]), ("orders", "bob", [4, 5]))
    [ann] = await queue.pop("g", "orders", batch=2)
    await queue.ack(ann, ann.offsets[:1])
    await queue.pop("g", "orders", batch=2)
    assert await pending(queue) == [("ann", 1, 1, 1)]
    counted = await totals(queue)
    assert (counted["pending"], counted["leased"]) == (1, 3)


async def test_traffic_is_told_step_by_step(queue):
    await queue.configure("orders", "shop")
    await queue.push("orders", "ann", 1, 2, 3)
    await queue.call("collect_stats", queue.clock.now)
    queue.clock.advance(60)
    [delivery] = await queue.pop("g", "orders")
    await queue.ack(delivery, [0, 1])
    await queue.ack(delivery, [2], "dlq")
    await queue.push("orders", "ann", 4)
    await queue.configure("mail")
    await queue.push("mail", "ann", 5)
    await queue.call("collect_stats", queue.clock.now)
    assert await traffic(queue, -1, 2) == [(3, 0, 0, 3), (2, 2, 1, 2), (0, 0, 0, None)]
    assert await traffic(queue, 0, 1) == [(2, 2, 1, 2)]
    assert (
        await traffic(queue, 0, 1, p_queue="orders") == await traffic(queue, 0, 1, p_namespace="shop") == [(1, 2, 1, 1)]
    )
    assert await traffic(queue, -1, 2, "day") == [(5, 2, 1, 2)]


async def test_what_an_old_queue_held_before_it_was_first_counted_is_no_traffic(queue):
    await queue.push("orders", "ann", 1, 2, 3)
    queue.clock.advance(3600)
    await queue.call("collect_stats", queue.clock.now)
    assert await traffic(queue, 0, 1) == [(0, 0, 0, 3)]


async def test_a_time_that_makes_no_sense_is_refused(queue):
    for before, after, step in ((0, 0, "hour"), (1, 0, "hour"), (0, 1, "week"), (0, 1501, "minute")):
        with pytest.raises(InvalidArgument):
            await traffic(queue, before, after, step)
    with pytest.raises(QueueNotFound):
        await traffic(queue, 0, 1, p_queue="nowhere")
