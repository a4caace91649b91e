"""Everything that locks more than one kind of row, against pushes, pops and acks: one order for all, or a deadlock.

The rules of locking are the same on every PostgreSQL; one is enough.
"""

from functools import partial

import pytest

FUNCTIONS = {
    "seek": lambda actor: actor.queue.seek("workers", actor.scene.name, to="end"),
    "sequence_inbox": lambda actor: actor.queue.sequence(),
    "redrive_dead_letters": lambda actor: actor.do("redrive_dead_letters", p_queue=actor.scene.name),
    "extend_group": lambda actor: actor.pop(group="newcomers"),
    "configure_queue": lambda actor: actor.queue.configure(
        actor.scene.name, max_queue_size=99, window_buffer_seconds=1
    ),
    "delete_group": lambda actor: actor.do("delete_group", "others", actor.scene.name),
    "resync_partition_lookup": lambda actor: actor.do("resync_partition_lookup", actor.scene.name),
    "clear_queue": lambda actor: actor.do("clear_queue", actor.scene.name),
    "retain": lambda actor: actor.retain(),
    "delete_partition": lambda actor: actor.do("delete_partition", actor.scene.name, "eve"),
    "delete_queue": lambda actor: actor.do("delete_queue", actor.scene.name),
}


@pytest.mark.parametrize("name", FUNCTIONS)
async def test_a_push_to_a_limited_queue_and_everything_that_changes_its_depth(stage, name):
    """Both need the partitions' rows and the row of the queue's depth: in one order, or they block each other."""

    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.director.queue.configure(
            scene.name, max_queue_size=100, retention_seconds=60, retry_delay_ms=900_000
        )
        await scene.director.push_many(("ann", [1, 2]), ("bob", [3]), ("eve", [4]), ("zoe", [6]))
        await scene.director.pop(group="others", partitions=9, lease_seconds=10)
        for delivery in await scene.director.pop(partitions=9):
            status = {"ann": "dlq", "bob": "failed"}.get(delivery.partition, "completed")
            await scene.director.queue.ack(delivery, status=status)
        scene.director.queue.clock.advance(61)
        await scene.director.push_in_transaction("ann", 5)
        alice.will_in_transaction(partial(FUNCTIONS[name], alice))
        bert.will_in_transaction(partial(bert.push_many, ("ann", [21]), ("bob", [22])))
        carl.will_in_transaction(partial(carl.push, "zoe", 31))

    assert await stage.every_order(prepare, drain=False) == 90


@pytest.mark.parametrize("name", FUNCTIONS)
async def test_acks_and_pops_and_everything_that_moves_cursors(stage, name):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.director.queue.configure(scene.name, retention_seconds=60)
        await scene.director.push_many(("ann", [1, 2]), ("bob", [3]), ("eve", [4]))
        first, second, _ = sorted(await scene.director.pop(partitions=9, lease_seconds=900), key=lambda d: d.partition)
        await scene.director.pop(group="others", partitions=9, lease_seconds=10)
        await scene.director.queue.ack(first, [0], status="dlq")
        scene.director.queue.clock.advance(61)
        await scene.director.push_in_transaction("ann", 5)
        alice.will_in_transaction(partial(FUNCTIONS[name], alice))
        bert.will_in_transaction(partial(ack_both, bert, first, second))
        carl.will(partial(carl.pop, group="others"), partial(carl.pop, auto_ack=True))

    assert await stage.every_order(prepare, drain=False) == 90


async def ack_both(actor, first, second):
    await actor.ack(first)
    await actor.ack(second)
