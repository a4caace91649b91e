"""Groups that appear, move and go while others push, pop and acknowledge."""

from functools import partial

import pytest

ENDS = pytest.mark.parametrize("end", ["commit", "rollback"])
MODES = pytest.mark.parametrize("mode", ["all", "new"])
TARGETS = pytest.mark.parametrize("to", ["beginning", "end"])


async def origins(scene, group="workers"):
    """Where the group began in each partition."""
    rows = await scene.director.queue.connection.fetch(
        "select partition, skipped from queen.ledger where queue = $1 and group_name = $2", scene.name, group
    )
    return {row["partition"]: row["skipped"] for row in rows}


@ENDS
@MODES
@pytest.mark.parametrize("named", [None, "bob"], ids=["any partition", "that partition"])
async def test_a_group_is_born_while_a_partition_is(stage, mode, named, end):
    """Whatever is pushed from the first pop on belongs to the group, in old partitions and new ones."""

    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.director.push("ann", 1)
        scene.director.queue.clock.advance(60)
        alice.will_in_transaction(partial(alice.pop, named, mode=mode), end=end)
        bert.will_in_transaction(partial(bert.push, "bob", 21))
        carl.will(partial(carl.push, "ann", 31))

    async def subscribe_in_the_end(scene, cast):
        scene.director.queue.clock.advance(-60 if end == "rollback" else 0)
        await scene.director.pop(mode=mode)  # a no-op for a group that was born
        scene.director.queue.clock.advance(60)
        for partition, origin in (await origins(scene)).items():
            began_late = mode == "new" and end == "commit" and partition == "ann"
            assert origin == (1 if began_late else 0)

    assert await stage.every_order(prepare, subscribe_in_the_end) == 30


@ENDS
@MODES
async def test_a_group_is_born_while_its_queue_is(stage, mode, end):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        alice.will_in_transaction(partial(alice.pop, mode=mode), end=end)
        bert.will_in_transaction(partial(bert.push, "bob", 21))
        carl.will(partial(carl.pop, mode=mode), partial(carl.push, "ann", 31))

    async def from_the_beginning(scene, cast):
        await scene.director.pop(mode=mode)
        assert set((await origins(scene)).values()) == {0}

    assert await stage.every_order(prepare, from_the_beginning) == 90


@MODES
async def test_two_first_pops_of_one_group(stage, mode):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.director.push_many(("ann", [1]), ("bob", [2]))
        alice.will_in_transaction(partial(alice.pop, mode=mode))
        bert.will_in_transaction(partial(bert.pop, "ann", mode=mode))
        carl.will(partial(carl.push_many, ("bob", [31]), ("eve", [32])))

    assert await stage.every_order(prepare) == 30


@ENDS
async def test_a_group_walks_up_while_partitions_are_made(stage, end):
    """Ids are given early and committed late: no partition may slip below the walker's feet."""

    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.director.push_many(("p1", [1]), ("p2", [2]), ("p3", [3]))
        await scene.director.do("subscribe", "workers", scene.name, None, None, None, "all", None)
        group_id = await scene.director.queue.connection.fetchval(
            "select g.id from queen.queue_groups g join queen.queues q on q.id = g.queue_id where q.name = $1",
            scene.name,
        )
        alice.will(*[partial(alice.do, "extend_group", group_id, 2)] * 3)
        bert.will_in_transaction(partial(bert.push, "p4", 4), end=end)
        carl.will(partial(carl.push, "p5", 5))

    assert await stage.every_order(prepare) == 60


@ENDS
async def test_a_group_walks_in_an_open_transaction(stage, end):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.director.push_many(("p1", [1]), ("p2", [2]))
        alice.will_in_transaction(alice.pop, end=end)
        bert.will(partial(bert.push, "p1", 11), partial(bert.push, "p3", 12))
        carl.will(carl.pop)

    assert await stage.every_order(prepare) == 30


@ENDS
@TARGETS
async def test_a_group_is_moved_while_its_messages_are_acknowledged(stage, to, end):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.director.push("ann", 1, 2)
        [delivery] = await scene.director.pop()
        alice.will_in_transaction(partial(alice.ack, delivery))
        bert.will_in_transaction(partial(bert.queue.seek, "workers", scene.name, to=to), end=end)
        carl.will(partial(carl.push, "ann", 31))

    async def read_again_from_there(scene, cast):
        if end == "commit":  # the book begins anew
            scene.done.clear()
            scene.first_seen.clear()

    assert await stage.every_order(prepare, read_again_from_there) == 30


@TARGETS
async def test_a_group_is_moved_while_others_pop_and_push(stage, to):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.director.push_many(("ann", [1, 2]), ("bob", [3]))
        await scene.director.pop(auto_ack=True, batch=1)
        alice.will_in_transaction(partial(alice.pop, partitions=2))
        bert.will_in_transaction(partial(bert.queue.seek, "workers", scene.name, to=to))
        carl.will_in_transaction(partial(carl.push_many, ("bob", [31]), ("ann", [32])))

    async def read_again_from_there(scene, cast):
        scene.done.clear()
        scene.first_seen.clear()

    assert await stage.every_order(prepare, read_again_from_there) == 90


@ENDS
async def test_a_group_is_forgotten_while_it_works(stage, end):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.director.push("ann", 1)
        [delivery] = await scene.director.pop()
        alice.will_in_transaction(partial(alice.do, "delete_group", "workers", scene.name), end=end)
        bert.will_in_transaction(partial(bert.push, "ann", 2))
        carl.will(partial(carl.ack, delivery), carl.pop)

    async def start_over(scene, cast):
        if end == "commit":
            scene.done.clear()
            scene.first_seen.clear()
            await scene.director.queue.seek("workers", scene.name, to="beginning") if await origins(scene) else None

    assert await stage.every_order(prepare, start_over) == 90
