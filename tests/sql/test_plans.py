"""Plans do not depend on statistics: what is true of ten partitions is true of a hundred thousand.

Every statement that runs inside a call is explained (auto_explain), with statistics from one extreme and data
from the other. What counts is which index is walked and how many rows are touched, not how long it took.
"""

import json
import uuid

import pytest

from tests.sql.plans import pages_of

pytestmark = pytest.mark.every_postgres

FEW, MANY = 10, 100_000
BY_KEY = {"Index Scan", "Index Only Scan", "Bitmap Heap Scan", "Tid Scan"}
HOT = {"partition_lookup", "partition_consumers", "segments"}


async def grow(connection, start, end):
    """Partitions start .. end - 1 of the queue `orders`, each with one message that group g has read."""
    await connection.execute(
        f"""
        with named as (
            insert into queen.partitions (queue_id, name)
            select q.id, 'p' || n from queen.queues q, generate_series({start}, {end - 1}) as n returning id, queue_id
        ), looked_up as (
            insert into queen.partition_lookup (partition_id, queue_id, next_offset, last_message_at, last_message_slot)
            select id, queue_id, 1, '2030-01-01', '2030-01-01' from named
        ), written as (
            insert into queen.segments
                   (partition_id, first_offset, message_count, queue_id, epoch, created_at, payloads)
            select id, 0, 1, queue_id, 1, '2030-01-01', '[1]' from named
        )
        insert into queen.partition_consumers (partition_id, group_id, committed, origin, completed)
        select n.id, g.id, 1, 0, 1 from named n join queen.queue_groups g using (queue_id)
        """
    )


async def shrink(connection, end):
    ids = f"(select id from queen.partitions where substr(name, 2)::int >= {end})"
    for table in ("partition_lookup", "segments", "partition_consumers"):
        await connection.execute(f"delete from queen.{table} where partition_id in {ids}")
    await connection.execute(f"delete from queen.partitions where id in {ids}")


async def make_ready(connection, where):
    await connection.execute(
        f"update queen.partition_consumers set committed = 0, completed = 0, ready_at = '2030-01-01' where {where}"
    )


READY = {
    "idle": "false",
    "one ready": "partition_id = (select max(partition_id) from queen.partition_consumers)",
    "all ready": "true",
}


SIZES = [
    "few, known as few",
    "few, known as many",
    "many, known as few",
    "many, known as many",
    "many, not counted yet",
    "many, planned for few",
]


@pytest.fixture(params=SIZES)
async def size(request, queue):
    """How many partitions there are, while the statistics may say otherwise."""
    connection = queue.connection
    for table in HOT:
        await connection.execute(f"alter table queen.{table} set (autovacuum_enabled = off)")
    await queue.configure("orders")
    await queue.call("subscribe", "g", "orders", None, None, None, "all", None, queue.clock.now)
    await connection.execute("update queen.queue_groups set complete = true")
    actual, known = request.param.split(", ")
    known = known.removeprefix("known as ")
    await grow(connection, 0, FEW)
    if known == "many":
        await grow(connection, FEW, MANY)
    if known == "planned for few":
        await make_ready(connection, "true")
        await check_a_hundred_pops(queue, FEW + 1)
    elif known != "not counted yet":
        await connection.execute("analyze")
    if actual == "many" and known != "many":
        await grow(connection, FEW, MANY)
    elif (actual, known) == ("few", "many"):
        await shrink(connection, FEW)
    return FEW if actual == "few" else MANY


class Explained:
    """The plans of everything that runs between two points of a test."""

    def __init__(self, connection):
        self.connection = connection
        self.plans = []

    async def __aenter__(self):
        self.connection.add_log_listener(self.hear)
        await self.connection.execute(
            "load 'auto_explain'; set auto_explain.log_min_duration = 0; set auto_explain.log_analyze = on;"
            "set auto_explain.log_nested_statements = on; set auto_explain.log_format = json;"
            "set client_min_messages = log"
        )
        self.plans.clear()
        return self

    async def __aexit__(self, *_):
        await self.connection.execute("set client_min_messages = notice")
        self.connection.remove_log_listener(self.hear)

    def hear(self, _, message):
        _, found, plan = message.message.partition("plan:\n")
        if found:
            self.plans.append(json.loads(plan))

    def texts(self):
        return {plan["Query Text"] for plan in self.plans}

    def nodes(self, *texts):
        for plan in self.plans:
            if all(text in plan["Query Text"] for text in texts):
                yield from walk(plan["Plan"])

    def scans(self, *texts):
        return [
            node
            for node in self.nodes(*texts)
            if node.get("Relation Name") in HOT and node["Node Type"] != "ModifyTable"
        ]


def walk(node):
    yield node
    for child in node.get("Plans", ()):
        yield from walk(child)


def rows_touched(scans):
    return sum((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"] for node in scans)


def pairs_compared(explained):
    """Statements that compare every row of one side with every row of the other, and how often they do."""
    compared = {
        plan["Query Text"]: sum(
            node.get("Rows Removed by Join Filter", 0) * node["Actual Loops"] for node in walk(plan["Plan"])
        )
        for plan in explained.plans
        if "typeinfo_tree" not in plan["Query Text"]  # asyncpg's own
    }
    return {text: pairs for text, pairs in compared.items() if pairs}


def assert_only_index_scans(explained, rows_max):
    scans = explained.scans()
    assert scans
    assert {node["Node Type"] for node in scans} <= BY_KEY
    assert rows_touched(scans) <= rows_max


async def pending(queue):
    return await queue.call("has_pending_messages", ["orders"], [None], [None], [None], ["g"], p_now=queue.clock.now)


async def test_no_call_touches_more_than_a_handful_of_rows(queue, size):
    for ready, where in READY.items():
        await make_ready(queue.connection, where)
        await check_pending(queue, ready)
        await check_pop_and_ack(queue, ready)
    await check_pops_of_several_kinds(queue)
    await check_a_hundred_pops(queue, size)
    await check_push(queue)
    await check_changes(queue)


async def check_pending(queue, ready):
    async with Explained(queue.connection) as explained:
        [row] = await queue.call(
            "has_pending_messages", ["orders"], [None], [None], [None], ["g"], p_now=queue.clock.now
        )
    assert row["pending"] == (ready != "idle")
    assert_only_index_scans(explained, 5)
    used = {node["Index Name"] for node in explained.scans() if node["Relation Name"] == "partition_consumers"}
    assert "partition_consumers_ready" in used


async def check_pop_and_ack(queue, ready):
    async with Explained(queue.connection) as explained:
        deliveries = await queue.pop("g", "orders")
    assert len(deliveries) == (ready != "idle")
    claim = ("from queen.partition_consumers", "order by c.ready_at", "for update skip locked")
    assert {node["Index Name"] for node in explained.scans(*claim)} == {"partition_consumers_ready"}
    assert "Sort" not in {node["Node Type"] for node in explained.nodes(*claim)}
    by_test = "select first_offset, payloads from queen.segments"
    explained.plans = [plan for plan in explained.plans if by_test not in plan["Query Text"]]
    assert_only_index_scans(explained, 20)

    for delivery in deliveries:
        async with Explained(queue.connection) as explained:
            await queue.call("fetch_segments", [delivery.partition_id], [0], [1], 1_000)
            assert (await queue.ack(delivery)).released
        assert_only_index_scans(explained, 20)


async def check_pops_of_several_kinds(queue):
    partitions = [None, None, "p2", "p3", "p4"]
    requests = len(partitions)
    async with Explained(queue.connection) as explained:
        rows = await queue.call(
            "pop_batch", ["orders"] * requests, partitions, [None] * requests, [None] * requests,
            ["g"] * requests, [1] * requests, [1] * requests, [None] * requests, [False] * requests,
            [uuid.uuid4() for _ in range(requests)], ["all"] * requests, [None] * requests, p_now=queue.clock.now,
        )  # fmt: skip
    assert len(rows) == requests
    assert_only_index_scans(explained, 20 * requests)
    assert pairs_compared(explained) == {}
    await queue.call("release_lease", [row["lease_id"] for row in rows], p_now=queue.clock.now)


async def check_a_hundred_pops(queue, size):
    requests = 100
    async with Explained(queue.connection) as explained:
        rows = await queue.call(
            "pop_batch", ["orders"] * requests, [None] * requests, [None] * requests, [None] * requests,
            ["g"] * requests, [1] * requests, [1] * requests, [None] * requests, [False] * requests,
            [uuid.uuid4() for _ in range(requests)], ["all"] * requests, [None] * requests, p_now=queue.clock.now,
        )  # fmt: skip
    assert len(rows) == min(size - 1, requests)
    assert_only_index_scans(explained, 20 * requests)
    assert pairs_compared(explained) == {}

    ids = [row["partition_id"] for row in rows]
    groups, leases = [row["group_id"] for row in rows], [row["lease_id"] for row in rows]
    async with Explained(queue.connection) as explained:
        acked = await queue.call(
            "ack_batch", ids, groups, leases, list(range(1, len(ids) + 1)), [0] * len(ids), [1] * len(ids),
            p_now=queue.clock.now,
        )  # fmt: skip
    assert all(row["released"] for row in acked)
    assert_only_index_scans(explained, 20 * requests)
    assert pairs_compared(explained) == {}


async def check_push(queue):
    partition_id = await queue.partition_id("orders", "p3")
    async with Explained(queue.connection) as explained:
        await queue.call("push_segments", [partition_id], [1], [b"[2]"], p_now=queue.clock.now)
    assert_only_index_scans(explained, 20)


async def check_changes(queue):
    async with Explained(queue.connection) as explained:
        assert await queue.call("changed_partitions", "orders", queue.clock.now, None, 10)
    assert_only_index_scans(explained, 10)


async def test_ids_of_others_are_compared_once_each(queue):
    await queue.configure("orders")
    [[_, partition_id, *_]] = await queue.call("ensure_partitions", ["orders"], ["ann"])
    for flush in ("a", "b"):
        ids = json.dumps([None, *(f"{flush}{number}" for number in range(1, 1_000))])  # nothing is like nothing
        payloads = b"[" + b",".join([b"1"] * 1_000) + b"]"
        async with Explained(queue.connection) as explained:
            [row] = await queue.call(
                "push_segments", [partition_id], [1_000], [payloads], [ids], p_now=queue.clock.now
            )  # without a word about what is known: all of the window is looked at
        assert row["first_offsets"]
        assert pairs_compared(explained) == {}
    assert row["missed_offsets"] == [0]


async def test_new_partitions_cost_the_same_however_many_there_are(queue):
    """PostgreSQL plans anew for the first calls of a session and then keeps a plan, whatever has been counted."""
    for table in ("queues", "partitions", "partition_lookup"):
        await queue.connection.execute(f"alter table queen.{table} set (autovacuum_enabled = off)")
    taken = []
    for start in range(0, 3_000, 300):
        names = [f"p{n}" for n in range(start, start + 300)]
        ensure = "select * from queen.ensure_partitions($1, $2)"
        taken.append(await pages_of(queue.connection, ensure, ["orders"] * 300, names))
    assert max(taken[1:]) < 2 * min(taken[1:])
    read = "select * from queen.read_ranges($1, $2, array_fill(0, array[300]), array_fill(0, array[300]), 0)"
    assert await pages_of(queue.connection, read, ["orders"] * 300, names) < max(taken)
