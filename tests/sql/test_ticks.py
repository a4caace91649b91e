"""Between two ticks lies an exact set of segments, across late commits and across clusters."""

import os
import subprocess
from datetime import timedelta
from itertools import pairwise

import asyncpg
import pytest

from queenmq.engine.postgres.embedded.binaries import wheel_bin_dir
from queenmq.errors import InvalidArgument, QueueNotFound

pytestmark = pytest.mark.every_postgres


async def tick(queue):
    [row] = await queue.call("take_tick", queue.clock.now)
    return row[0]


async def between(queue, start, end, name="orders"):
    rows = await queue.call("segments_between", name, start, end)
    return [row["payloads"].decode() for row in rows]


async def test_a_tick_is_taken_only_when_something_was_written(queue):
    first = await tick(queue)
    assert await tick(queue) == first
    await queue.push("orders", "ann", 1)
    second = await tick(queue)
    assert second > first
    assert await tick(queue) == second
    await queue.pop("g", "orders")
    assert await tick(queue) == second


async def test_each_segment_lies_between_exactly_two_ticks(queue):
    ticks = [0, await tick(queue)]
    for number in range(3):
        await queue.push_many(("orders", "ann", [number]), ("orders", "bob", [number]))
        await queue.push("letters", "ann", "other queue")
        ticks.append(await tick(queue))
    steps = [await between(queue, start, end) for start, end in pairwise(ticks)]
    assert steps == [[], ["[0]", "[0]"], ["[1]", "[1]"], ["[2]", "[2]"]]
    assert await between(queue, 0, ticks[-1]) == [each for step in steps for each in step]
    assert await between(queue, None, ticks[2]) == ["[0]", "[0]"]
    assert await between(queue, ticks[-1], ticks[-1]) == []


async def test_what_commits_late_belongs_to_the_later_tick(queue, another):
    for partition in ("ann", "bob", "carl"):
        await queue.partition_id("orders", partition)
    alice, bob = await another(), await another()
    late, gone = alice.connection.transaction(), bob.connection.transaction()
    await late.start()
    await gone.start()
    await alice.push("orders", "ann", "late")
    await bob.push("orders", "bob", "gone")
    await queue.push("orders", "carl", "early")
    first = await tick(queue)
    await queue.push("orders", "carl", "middle")
    second = await tick(queue)
    await late.commit()
    await gone.rollback()
    third = await tick(queue)
    assert third > second
    assert await tick(queue) == third
    assert await between(queue, 0, first) == ['["early"]']
    assert await between(queue, first, second) == ['["middle"]']
    assert await between(queue, second, third) == ['["late"]']
    assert await between(queue, first, third) == ['["late"]', '["middle"]']


async def test_ticks_must_exist_and_be_in_order(queue):
    await queue.push("orders", "ann", 1)
    first = await tick(queue)
    await queue.push("orders", "ann", 1)
    second = await tick(queue)
    for start, end in [(second, first), (first, 999), (999, second)]:
        with pytest.raises(InvalidArgument):
            await between(queue, start, end)
    with pytest.raises(QueueNotFound):
        await between(queue, first, second, "nowhere")


async def test_old_ticks_are_removed_but_never_the_newest(queue):
    await queue.push("orders", "ann", 1)
    first = await tick(queue)
    queue.clock.advance(86400)
    await queue.push("orders", "ann", 2)
    second = await tick(queue)
    queue.clock.now += timedelta(days=29, seconds=1)
    assert await tick(queue) == second
    with pytest.raises(InvalidArgument):
        await between(queue, first, second)
    queue.clock.now += timedelta(days=300)
    assert await tick(queue) == second


async def test_the_epoch_stays_in_the_same_cluster(queue):
    [row] = await queue.call("check_epoch")
    assert row[0] == 1


async def test_after_a_restore_into_another_cluster_old_segments_come_before_new_ones(
    queue, another, database, own_postgres, cluster
):
    if cluster.name != "pg18":
        pytest.skip("pg_dump of the wheel restores into the server of the wheel")
    for partition in ("late", "ann"):
        await queue.partition_id("orders", partition)
    # The old cluster has seen more transactions than the new one will have, as in life.
    await queue.connection.execute(
        "do $$ begin for i in 1 .. 3000 loop perform pg_current_xact_id(); commit; end loop; end $$"
    )
    alice = await another()
    late = alice.connection.transaction()
    await late.start()
    await alice.push("orders", "late", "late")
    await queue.push("orders", "ann", "before the tick")
    before = await tick(queue)
    await late.commit()
    await queue.push("orders", "ann", "after the tick")

    restored_dsn = dump_and_restore(database, own_postgres.dsn())
    connection = await asyncpg.connect(restored_dsn)
    try:
        restored = type(queue)(connection, queue.clock)
        [row] = await restored.call("check_epoch")
        assert row[0] == 2
        assert [(await restored.call("check_epoch"))[0][0] for _ in range(2)] == [2, 2]
        await restored.push("orders", "ann", "in the new cluster")
        first = await tick(restored)
        await restored.push("orders", "ann", "later")
        second = await tick(restored)
        epochs = await connection.fetch("select epoch, xid::text::bigint from queen.segments order by 1, 2")
        assert epochs[-1][1] < epochs[0][1], "transaction ids have started over"
        assert before < first < second
        assert await between(restored, before, first) == [
            '["late"]',
            '["after the tick"]',
            '["in the new cluster"]',
        ]
        assert await between(restored, 0, second) == [
            '["late"]',
            '["before the tick"]',
            '["after the tick"]',
            '["in the new cluster"]',
            '["later"]',
        ]
        assert await between(restored, first, second) == ['["later"]']
        assert await connection.fetch("select * from queen.check_consistency()") == []
    finally:
        await connection.close()


def dump_and_restore(source, target):
    dump = subprocess.run(
        [wheel_bin_dir() / "pg_dump", "--format=custom", "--no-owner", source],
        check=True, capture_output=True, env=os.environ,
    ).stdout  # fmt: skip
    subprocess.run(
        [wheel_bin_dir() / "pg_restore", "--no-owner", "--no-privileges", "--exit-on-error", "--dbname", target],
        check=True, capture_output=True, input=dump, env=os.environ,
    )  # fmt: skip
    return target
