"""A transaction that is held open elsewhere keeps every version of every row; calls do not cost more and more.

What counts is how many pages a call looks at, not how long it takes.
"""

import uuid

import pytest

from tests.sql.plans import pages

pytestmark = pytest.mark.every_postgres

PARTITIONS = [f"p{number}" for number in range(20)]


@pytest.fixture
async def held(connect, queue):
    """A group that has read all of some partitions, and somebody who keeps an old snapshot."""
    for table in ("partition_lookup", "partition_consumers"):
        await queue.connection.execute(f"alter table queen.{table} set (autovacuum_enabled = off)")
    for name in PARTITIONS:
        await queue.push("orders", name, 0)
    await queue.pop("g", "orders", partitions=len(PARTITIONS), auto_ack=True)
    holder = await connect()
    await holder.execute("begin isolation level repeatable read")
    await holder.fetch("select pg_current_xact_id(), count(*) from queen.queues")
    yield
    await holder.execute("rollback")


async def one_round(queue, ids, group_id):
    """One message for each partition: pushed, popped, acknowledged; the pages that each call looked at."""
    queue.clock.advance(1)
    count, leases = len(ids), [uuid.uuid4()]
    pushed = await pages(queue, "push_segments", ids, [1] * count, [b"[1]"] * count)
    popped = await pages(
        queue, "pop_batch", ["orders"], [None], [None], [None], ["g"], [1_000], [count], [None], [False], leases,
        ["all"], [None], [queue.clock.now],
    )  # fmt: skip
    places = await queue.connection.fetch(
        "select partition_id, lease_from, lease_to from queen.partition_consumers where lease_id = $1", leases[0]
    )
    assert sorted(place["partition_id"] for place in places) == ids
    acknowledged = await pages(
        queue, "ack_batch", [place["partition_id"] for place in places], [group_id] * count, leases * count,
        list(range(1, count + 1)), [place["lease_from"] for place in places], [place["lease_to"] for place in places],
    )  # fmt: skip
    return pushed, popped, acknowledged


async def test_a_call_looks_at_no_more_pages_after_many_more_rounds(queue, held):
    ids = sorted([await queue.partition_id("orders", name) for name in PARTITIONS])
    group_id = await queue.connection.fetchval("select id from queen.queue_groups")
    rounds = [await one_round(queue, ids, group_id) for _ in range(300)]
    early, late = rounds[100:120], rounds[-20:]
    for call in range(3):
        assert sum(each[call] for each in late) < 1.3 * sum(each[call] for each in early)
