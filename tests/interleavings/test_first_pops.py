"""The first pops of new groups: each records its group and locks the queue, in one order, or they block each other."""

import asyncio
import uuid
from functools import partial

import pytest

from tests.queue_in_sql import Clock, Queue
from tests.waits import until


async def waiting_for_locks(connection, count):
    query = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
    return await connection.fetchval(query) >= count


async def test_two_groups_that_begin_on_the_same_queue(stage):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.director.push_many(("ann", [1]), ("bob", [2]))
        for actor, groups in ((alice, ("workers", "others")), (bert, ("others", "workers"))):
            actor.will_in_transaction(*[partial(actor.pop, group=group, lease_seconds=1) for group in groups])
        carl.will(partial(carl.push, "cid", 3))

    await stage.every_order(prepare, drain=False)


@pytest.mark.parametrize("asked", ["groups", "queues"])
async def test_calls_that_begin_several_groups_at_once(connect, asked):
    """Whoever asks first for what: the locks of one call are taken in an order that does not depend on it."""
    alice, bert, watcher = await connect(), await connect(), await connect()
    for name in ("one", "two"):
        await watcher.fetch("select * from queen.ensure_partitions($1, $2)", [name], ["ann"])
    first = [("one", "workers"), ("one", "others")] if asked == "groups" else [("one", "workers"), ("two", "workers")]
    await watcher.execute("begin")
    await watcher.execute("select from queen.queues for update")
    calls = [pop(alice, first), pop(bert, first[::-1])]
    tasks = [asyncio.create_task(call) for call in calls]
    other = await connect()
    await until("both pops wait for a lock", lambda: waiting_for_locks(other, 2))
    await watcher.execute("rollback")
    await asyncio.gather(*tasks)
    assert await watcher.fetchval("select count(*) from queen.queue_groups") == 2


async def test_a_first_pop_that_waited_for_another_one_sees_what_that_left(connect):
    """The one that came first and waited has an older clock than the one that made the group."""
    alice, watcher, other = await connect(), await connect(), await connect()
    await Queue(watcher, Clock()).push_many(("orders", "ann", [1]), ("orders", "bob", [2]))
    await watcher.execute("begin")
    await watcher.execute("select from queen.queues for update")
    waiting = asyncio.create_task(pop(alice, [("orders", "workers")]))
    await until("the pop waits for a lock", lambda: waiting_for_locks(other, 1))
    first = await pop(watcher, [("orders", "workers")])
    await watcher.execute("commit")
    second = await waiting
    assert [len(first), len(second)] == [1, 1]
    assert first[0]["partition_id"] != second[0]["partition_id"]


async def pop(session, asks):
    count = len(asks)
    await session.execute("set deadlock_timeout = '5ms'")
    return await session.fetch(
        "select * from queen.pop_batch($1, $2, $2, $2, $3, $4, $4, $5, $6, $7, $8, $9)",
        *([queue for queue, _ in asks], [None] * count, [group for _, group in asks], [1] * count),
        *([None] * count, [False] * count, [uuid.uuid4() for _ in asks], ["all"] * count, [None] * count),
    )
