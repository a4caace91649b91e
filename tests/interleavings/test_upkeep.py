"""Retention, deletion, limits and settings while the queue is in use: nothing deadlocks, nothing is lost."""

from functools import partial

import pytest

from queenmq.errors import LeaseGone, PartitionNotFound

ENDS = pytest.mark.parametrize("end", ["commit", "rollback"])


async def old_messages(scene, **options):
    """Three messages in two partitions, older than the queue keeps them; one group has read them, ours has not."""
    await scene.director.queue.configure(scene.name, retention_seconds=60, **options)
    await scene.stock(("ann", [1, 2]), ("bob", [3]))
    await scene.director.pop(group="others", partitions=2, auto_ack=True)
    scene.perishable |= {1, 2, 3}
    scene.director.queue.clock.advance(61)


@ENDS
async def test_retention_and_a_push(stage, end):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await old_messages(scene)
        alice.will_in_transaction(alice.retain, end=end)
        bert.will_in_transaction(partial(bert.push_many, ("bob", [21]), ("ann", [22])))
        carl.will(partial(carl.pop, auto_ack=True, partitions=2))

    assert await stage.every_order(prepare) == 30


@ENDS
@pytest.mark.parametrize("auto_ack", [False, True], ids=["leased", "auto_ack"])
async def test_retention_never_takes_what_a_pop_delivers(stage, auto_ack, end):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await old_messages(scene)
        alice.will_in_transaction(alice.retain)
        bert.will_in_transaction(partial(bert.pop, auto_ack=auto_ack, partitions=2), end=end)
        carl.will(partial(carl.push, "ann", 31))

    async def still_there(scene, cast):
        if end == "commit" and not auto_ack:
            for delivery in cast["bert"].heard[0]:
                assert (await scene.director.ack(delivery)).released

    assert await stage.every_order(prepare, still_there) == 30


@ENDS
async def test_retention_and_an_ack(stage, end):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await old_messages(scene)
        [delivery] = await scene.director.pop("ann")
        alice.will_in_transaction(alice.retain)
        bert.will_in_transaction(partial(bert.ack, delivery, [1]), partial(bert.ack, delivery, [0]), end=end)
        carl.will(partial(carl.push, "ann", 31))

    assert await stage.every_order(prepare) == 60


@ENDS
async def test_a_new_group_and_retention(stage, end):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await old_messages(scene)
        await scene.director.do("delete_group", "workers", scene.name)
        scene.first_seen.clear()
        alice.will_in_transaction(alice.retain)
        bert.will_in_transaction(bert.pop, end=end)
        carl.will(partial(carl.push_many, ("ann", [31]), ("eve", [32])))

    assert await stage.every_order(prepare) == 30


@ENDS
async def test_a_queue_is_cleared_while_it_is_used(stage, end):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        scene.perishable |= {1, 2, 3, 21, 22}
        await scene.director.push_many(("ann", [1, 2]), ("bob", [3]))
        [delivery] = await scene.director.pop("ann")
        alice.will_in_transaction(partial(alice.do, "clear_queue", scene.name), end=end)
        bert.will_in_transaction(partial(bert.push_many, ("bob", [21]), ("ann", [22])))
        carl.will(partial(carl.ack, delivery), partial(carl.pop, auto_ack=True))

    assert await stage.every_order(prepare) == 90


@pytest.mark.parametrize("what", ["queue", "partition"])
async def test_an_ack_and_the_deletion_of_its_place(stage, what):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.director.push("ann", 1)
        [delivery] = await scene.director.pop()
        alice.will_in_transaction(partial(alice.ack, delivery))
        bert.will_in_transaction(
            partial(bert.do, f"delete_{what}", scene.name, *(["ann"] if what == "partition" else []))
        )
        carl.will(carl.pop)

    async def gone(scene, cast):
        assert cast["bert"].heard[0][0][0] is True
        acked = not isinstance(cast["alice"].heard[0], LeaseGone)
        assert acked == (cast["alice"].heard[0].held if acked else False)
        assert await scene.director.pop() == []

    assert await stage.every_order(prepare, gone, drain=False) == 30


@ENDS
@pytest.mark.parametrize("what", ["queue", "partition"])
async def test_a_push_and_the_deletion_of_its_place(stage, what, end):
    """The push comes before, and is deleted too; or after, and begins anew."""

    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        scene.perishable |= {1, 2}
        await scene.director.push("ann", 1)
        await scene.director.pop(auto_ack=True)
        alice.will_in_transaction(
            partial(alice.do, f"delete_{what}", scene.name, *(["ann"] if what == "partition" else [])), end=end
        )
        bert.will_in_transaction(partial(push_by_name, bert, "ann", 2))
        carl.will(partial(carl.pop, auto_ack=True))

    assert await stage.every_order(prepare) == 30


async def push_by_name(actor, partition, value):
    """As the engine does it: a partition that was deleted under its id is looked up again."""
    while True:
        await actor.queue.connection.execute("savepoint before_push")
        try:
            return await actor.push(partition, value)
        except PartitionNotFound:
            await actor.queue.connection.execute("rollback to savepoint before_push")


async def test_idle_partitions_are_removed_unless_someone_pushes(stage):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await old_messages(scene)
        await scene.director.pop(auto_ack=True, partitions=2)
        scene.director.queue.clock.advance(1000)
        [row] = await scene.director.retain()
        assert row["messages"] == 3
        alice.will_in_transaction(
            partial(alice.do, "remove_idle_partitions", 100.0, p_now=scene.director.queue.clock.now)
        )
        bert.will_in_transaction(partial(push_by_name, bert, "ann", 21))
        carl.will(carl.pop)

    assert await stage.every_order(prepare) == 30
