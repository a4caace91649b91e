"""After a promotion, servers find the PostgreSQL that takes writes, and leave the one that does not."""

import asyncio
import sys
from time import monotonic

import pytest

from tests.faults.lost_history.changes import DATABASE, AsynchronousPromotion, SynchronousPromotion
from tests.faults.lost_history.places import looking, patiently, places, push, stored, take
from tests.waits import until

DEADLINE_SECONDS = 30  # on a machine that does much else; the times are printed
SESSIONS = "select count(*) from pg_stat_activity where application_name = 'queen'"


@pytest.fixture
async def change(replication):
    made = SynchronousPromotion(replication)
    await made.prepare()
    return made


async def test_servers_leave_a_postgresql_that_became_read_only(change, tmp_path):
    old, new = change.nodes
    async with places(change.dsn, tmp_path, spool=False) as at:
        for name, queen in at.items():
            await push(queen, "orders", "ann", [f"before-{name}"])
            assert await take(queen, "orders", name)
        await old.set("default_transaction_read_only", "on")
        await new.promote()
        for name, queen in at.items():
            assert await push(queen, "orders", "ann", [f"after-{name}"]) == ["queued"]
        for name, queen in at.items():
            await take(queen, "orders", name)
        async with looking(new.dsn(DATABASE)) as connection:
            assert [each.id for each in await stored(connection)] == [f"before-{name}" for name in at] + [
                f"after-{name}" for name in at
            ]
        for queen in at.values():
            await patiently(queen.ping)
        await old.until(SESSIONS, 0)


async def test_pushes_and_pops_go_on_soon_after_a_promotion(replication, tmp_path):
    change = AsynchronousPromotion(replication)
    await change.prepare()
    async with places(change.dsn, tmp_path, spool=False) as at:
        for name, queen in at.items():
            await push(queen, "orders", name, ["before"])
            await take(queen, "orders", name)
        await change.keep()
        polls = {name: asyncio.create_task(poll(queen, name)) for name, queen in at.items()}
        await change.happen()
        promoted = monotonic()
        pushed, popped = {}, {}
        for name, queen in at.items():
            assert await push(queen, "orders", name, ["after"]) == ["queued"]
            pushed[name] = monotonic() - promoted
        for name, waiting in polls.items():
            await waiting
            popped[name] = monotonic() - promoted
        sys.stderr.write(f"seconds from the promotion to the first push {pushed}, to the first pop {popped}\n")
        assert max(pushed.values()) < DEADLINE_SECONDS
        assert max(popped.values()) < DEADLINE_SECONDS


async def poll(queen, group):
    """A long poll that began before the promotion; it is repeated where the connection to PostgreSQL broke."""
    source = queen.queue("orders").group(group).wait(DEADLINE_SECONDS)
    return await until("a long poll gets messages", lambda: patiently(source.pop))
