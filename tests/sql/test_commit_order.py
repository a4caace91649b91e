"""Reading a whole queue in commit order, and writing whole batches: the functions behind Spark."""

import json
from collections import defaultdict
from itertools import permutations, product

import pytest

from queenmq.errors import GroupNotFound, MessageNotFound
from tests.sql.plans import pages

pytestmark = pytest.mark.every_postgres

BEGINNING = (0, "1:1:")


async def tick(queue):
    [row] = await queue.call("take_tick", queue.clock.now)
    return row[0]


async def position(queue, tick_id, *before):
    row = await queue.connection.fetchrow(
        f"select epoch, snapshot::text as snapshot from queen.position_at($1, {', '.join(before) or 'null, null'})",
        tick_id,
    )
    return row["epoch"], row["snapshot"]


async def queue_ids(queue):
    return [row["id"] for row in await queue.connection.fetch("select id from queen.queues order by id")]


async def slices(queue, start, end, count, messages_min=1):
    return await queue.connection.fetch(
        "select slice, queue_id, late, messages, segments from queen.slice_segments("
        "$1, $2::smallint, $3::text::pg_snapshot, $4::smallint, $5::text::pg_snapshot, $6, $7)",
        await queue_ids(queue), *start, *end, count, messages_min,
    )  # fmt: skip


async def limited(queue, start, end, limit):
    row = await queue.connection.fetchrow(
        "select epoch, xid::text as xid, messages from queen.limit_messages("
        "$1, $2::smallint, $3::text::pg_snapshot, $4::smallint, $5::text::pg_snapshot, $6)",
        await queue_ids(queue), *start, *end, limit,
    )  # fmt: skip
    return row["xid"], row["messages"]


async def test_slices_are_balanced_by_messages(queue):
    for number in range(6):
        await queue.push("orders", f"p{number}", *range(10))
    await queue.push("letters", "ann", *range(30))
    end = await position(queue, await tick(queue))
    found = await slices(queue, BEGINNING, end, 3)
    assert [(row["slice"], row["messages"]) for row in found] == [(0, 30), (1, 30), (2, 30)]
    assert [row["slice"] for row in await slices(queue, BEGINNING, end, 3, 1000)] == [0, 0]
    assert await slices(queue, end, end, 3) == []


async def test_what_was_running_at_a_position_is_late(queue, another):
    await queue.partition_id("orders", "ann")
    alice = await another()
    transaction = alice.connection.transaction()
    await transaction.start()
    await alice.push("orders", "ann", "late")
    await queue.push("orders", "bob", "early")
    first = await position(queue, await tick(queue))
    await transaction.commit()
    await queue.push("orders", "bob", "new")
    second = await position(queue, await tick(queue))
    found = await slices(queue, first, second, 1)
    assert [(row["late"], row["messages"]) for row in found] == [(True, 1), (False, 1)]


class Reader:
    """Reads a queue twice while others write to it: from tick to tick, and as a group."""

    def __init__(self, queue, name):
        self.queue, self.name = queue, name
        self.by_ticks, self.by_group = [], defaultdict(list)
        self._tick = 0

    async def read(self):
        upto = await tick(self.queue)
        for row in await self.queue.call("segments_between", self.name, self._tick, upto):
            self.by_ticks += json.loads(row["payloads"])
        self._tick = upto
        for delivery in await self.queue.pop("g", self.name, partitions=2, auto_ack=True):
            self.by_group[delivery.partition] += delivery.values


class Writer:
    """Pushes two messages in a transaction that stays open, and ends it when its turn comes again."""

    def __init__(self, client, name, push, partition, end):
        self.push, self.partition, self.end = push, partition, end
        self.values = [f"{name}1", f"{name}2"]
        self.committed = []
        self.holds_lock = False
        self._client, self._open = client, None

    async def go_on(self, queue_name):
        if self._open is None:
            self._open = self._client.connection.transaction()
            await self._open.start()
            for value in self.values:
                await getattr(self._client, self.push)(queue_name, self.partition, value)
            self.holds_lock = self.push == "push"
        else:
            await getattr(self._open, self.end)()
            self.holds_lock = False
            self.committed = self.values if self.end == "commit" else []


ENDS = ("commit", "rollback")
ORDERS = sorted({"".join(order) for order in permutations("aabb")})  # each pushes, then ends


@pytest.mark.parametrize("second", ["push", "push_in_transaction"])
@pytest.mark.parametrize("first", ["push", "push_in_transaction"])
async def test_whoever_commits_late_is_not_passed_by(queue, another, first, second):
    """An engine's push or an application's, to one partition or two, whichever ends first and however."""
    alice, bob = await another(), await another()
    for order, end, other_end, partition in product(ORDERS, ENDS, ENDS, ("ann", "bob")):
        if first == second == "push" and partition == "ann" and order[0] != order[1]:
            continue  # the second one waits for the first: tests/interleavings has that
        name = f"orders {order} {end} {other_end} {partition}"
        writers = {
            "a": Writer(alice, "a", first, "ann", end),
            "b": Writer(bob, "b", second, partition, other_end),
        }
        await queue.push_many((name, "ann", ["before"]), (name, "bob", ["before"]))
        reader = Reader(queue, name)
        await reader.read()
        for who in order:
            await writers[who].go_on(name)
            if not any(each.holds_lock for each in writers.values()):  # for which the sequencer would wait
                await queue.sequence()
            await reader.read()
        committed = [value for each in writers.values() for value in ("before", *each.committed)]
        delivered = reader.by_group["ann"] + reader.by_group["bob"]
        assert sorted(reader.by_ticks) == sorted(delivered) == sorted(committed), name
        assert delivered == await stored(queue, name), name
        for each in writers.values():
            assert [value for value in delivered if value in each.values] == each.committed, name


async def test_a_limit_stops_at_a_transaction(queue):
    for _ in range(3):
        await queue.push("orders", "ann", 1, 2, 3, 4)
    end = await position(queue, await tick(queue))
    xid, messages = await limited(queue, BEGINNING, end, 9)
    assert messages == 8
    middle = await position(queue, await tick(queue), "1::smallint", f"'{xid}'::xid8")
    assert await limited(queue, BEGINNING, middle, 9) == (None, 8)
    assert await limited(queue, middle, end, 9) == (None, 4)
    assert (await limited(queue, BEGINNING, end, 1))[1] == 4
    assert (await limited(queue, BEGINNING, end, None))[1] > 0
    assert await limited(queue, end, end, None) == (None, 0)


async def test_a_group_moves_with_a_position(queue):
    await queue.call("subscribe", "lake", "orders", None, None, None, "all", None, queue.clock.now)
    await queue.push("orders", "ann", 1, 2)
    await queue.call("subscribe", "lake", "orders", None, None, None, "all", None, queue.clock.now)
    group = await queue.connection.fetchval("select id from queen.queue_groups where name = 'lake'")
    await queue.call("extend_group", group, 1000, None, queue.clock.now)
    first = await position(queue, await tick(queue))
    await queue.push("orders", "ann", 3)

    async def advance(name, to):
        return await queue.connection.fetchval(
            "select queen.advance_group($1, 'orders', $2::smallint, $3::text::pg_snapshot, false, $4)",
            name, *to, queue.clock.now,
        )  # fmt: skip

    assert await advance("lake", first) == 1
    assert await advance("lake", first) == 0
    row = await queue.connection.fetchrow("select committed, completed from queen.partition_consumers")
    assert tuple(row) == (2, 2)
    [delivery] = await queue.pop("lake", "orders")
    assert delivery.values == [3]
    with pytest.raises(GroupNotFound):
        await queue.call("advance_group", "nobody", "orders", 1, (1, 1, []))


async def test_a_group_that_skips_to_a_position_counts_from_there(queue):
    """The ledger balances (fixture healthy) also if the group had read something before."""
    await queue.push("orders", "ann", 1, 2, 3)
    [delivery] = await queue.pop("lake", "orders", batch=1)
    await queue.ack(delivery)
    end = await position(queue, await tick(queue))
    moved = await queue.connection.fetchval(
        "select queen.advance_group('lake', 'orders', $1::smallint, $2::text::pg_snapshot, true, $3)",
        *end, queue.clock.now,
    )  # fmt: skip
    assert moved == 1
    row = await queue.connection.fetchrow("select origin, committed, completed from queen.partition_consumers")
    assert tuple(row) == (3, 3, 0)


async def stage(queue, write_id, *segments):
    stage_id = await queue.connection.fetchval("select nextval('queen.stage_ids')")
    for n, (partition, ids) in enumerate(segments):
        await queue.connection.execute(
            "insert into queen.staged_segments (stage_id, n, write_id, partition_name) values ($1, $2, $3, $4)",
            stage_id, n, write_id, partition,
        )  # fmt: skip
        await queue.connection.execute(
            "insert into queen.segments (partition_id, first_offset, message_count, queue_id, epoch, created_at, "
            "transaction_ids, payloads) values (-$1::bigint, $2, $3, 0, 0, $4, $5, $6)",
            stage_id, n, len(ids), queue.clock.now, json.dumps(ids), json.dumps(ids).encode(),
        )  # fmt: skip
    return stage_id


async def stored(queue, name="orders"):
    rows = await queue.connection.fetch(
        'select payload::text as p from queen.messages where queue = $1 order by partition, "offset"', name
    )
    return [json.loads(row["p"]) for row in rows]


async def test_a_staged_batch_is_stored_once(queue):
    for epoch, expected in [(0, 3), (0, None), (1, 3)]:
        staged = await stage(queue, "w", ("ann", ["a", "b"]), ("bob", ["c"]))
        [row] = await queue.call("commit_write", "w", epoch, "orders", [staged], 2)
        assert row[0] == expected
    assert await stored(queue) == ["a", "b", "a", "b", "c", "c"]
    with pytest.raises(MessageNotFound):
        await queue.call("commit_write", "w", 2, "orders", [staged + 1], 1)


async def test_with_the_users_ids_duplicates_are_left_out(queue):
    await queue.push("orders", "ann", "before", ids=["a"])
    staged = await stage(queue, "w", ("ann", ["a", "b"]), ("ann", ["b"]), ("ann", ["c", "b"]), ("bob", ["a"]))
    [row] = await queue.call("commit_write", "w", 0, "orders", [staged], 4, p_own_ids=True)
    assert row[0] == 3
    assert await stored(queue) == ["before", "b", "c", "a"]
    assert await queue.connection.fetchval("select count(*) from queen.segments where queue_id = 0") == 0


@pytest.mark.parametrize("own_ids", [False, True])
@pytest.mark.parametrize("analyzed", [False, True])
async def test_a_commit_costs_the_same_whatever_else_is_stored(queue, own_ids, analyzed):
    async def commit(epoch):
        batch = [(f"p{n % 50}", [f"{epoch} {n}"]) for n in range(100)]
        staged = await stage(queue, "w", *batch)
        return await pages(queue, "commit_write", "w", epoch, "orders", [staged], len(batch), own_ids)

    await commit(0)  # makes the partitions
    before = await commit(1)
    ids = [await queue.partition_id("others", f"p{n}") for n in range(100)]
    for _ in range(100):
        await queue.call("push_segments", ids, [1] * 100, [b"[1]"] * 100)
    if analyzed:
        await queue.connection.execute("analyze queen.segments")
    assert await commit(2) < 2 * before


async def test_what_is_staged_is_nowhere_to_be_seen(queue):
    await queue.push("orders", "ann", "before")
    first = await position(queue, await tick(queue))
    staged = await stage(queue, "w", ("ann", ["a"]))
    assert await stored(queue) == ["before"]
    assert await queue.connection.fetch("select * from queen.check_consistency()") == []
    assert await slices(queue, first, await position(queue, await tick(queue)), 1) == []
    await queue.call("discard_staged", [staged])
    assert await queue.connection.fetchval("select count(*) from queen.segments") == 1
