"""Pops that begin where the last one said ready partitions begin: none of them is passed by.

A pop locks more partitions than it delivers, and another pop skips them. What the first one leaves, or gives back
because its transaction rolls back, became ready before everything that the second one has seen.
"""

from functools import partial
from uuid import uuid4

import pytest

from tests.interleavings.schedule import GROUP

pytestmark = pytest.mark.usefixtures("crowd")
ENDS = pytest.mark.parametrize("end", ["commit", "rollback"])


async def stock_one_after_the_other(scene, *partitions):
    """One message in each, a second between them, so that the partitions have been ready for different times."""
    director = scene.director
    await scene.stock((partitions[0], [0]))
    for number, name in enumerate(partitions[1:], 1):
        director.queue.clock.advance(1)
        await director.push(name, number)
    director.queue.clock.advance(1)


def poll(actor, **options):
    """A pop that remembers where ready partitions begin, as the engine does between two pops of one kind."""

    async def pop():
        deliveries = await actor.pop(ready_since=getattr(actor, "ready_since", None), **options)
        if deliveries:
            actor.ready_since = deliveries[-1].ready_since
        return deliveries

    return pop


async def assert_nothing_became_ready_before(scene, actor):
    """Partitions that are ready now, and that the actor's next pop would not look at."""
    passed_by = await scene.director.queue.connection.fetch(
        "select p.name, c.ready_at from queen.queues q join queen.queue_groups g on g.queue_id = q.id "
        "join queen.partition_consumers c on c.group_id = g.id join queen.partitions p on p.id = c.partition_id "
        "where q.name = $1 and g.name = $2 and c.ready_at < $3",
        scene.name, GROUP, actor.ready_since,
    )  # fmt: skip
    assert not passed_by, f"the next pop begins at {actor.ready_since}"


@ENDS
@pytest.mark.parametrize("partitions", [1, 2], ids=["one partition", "two partitions"])
async def test_a_pop_beside_one_that_locks_more_than_it_delivers_passes_no_partition_by(stage, partitions, end):
    """Alice locks ann and bob, or ann alone, and takes one message; bert, beside her, gets only newer partitions."""

    async def prepare(scene, cast):
        alice, bert = cast["alice"], cast["bert"]
        await stock_one_after_the_other(scene, "ann", "bob", "eve", "joe")
        alice.will_in_transaction(partial(alice.pop, batch=1, partitions=partitions), end=end)
        bert.will(poll(bert), poll(bert))

    async def check(scene, cast):
        await assert_nothing_became_ready_before(scene, cast["bert"])

    assert await stage.every_order(prepare, check) == 6


@ENDS
async def test_pops_of_two_groups_in_one_call_pass_no_partition_by(stage, end):
    """Bert asks for two groups together, which the pop serves with other statements than one group."""

    async def prepare(scene, cast):
        alice, bert = cast["alice"], cast["bert"]
        await stock_one_after_the_other(scene, "ann", "bob", "eve", "joe")
        await scene.director.pop(group="others", auto_ack=True, partitions=4)
        alice.will_in_transaction(partial(alice.pop, batch=1, partitions=2), end=end)

        async def pop_for_both():
            rows = await bert.do(
                "pop_batch", [scene.name] * 2, *[[None] * 2] * 3, [GROUP, "others"], [1, 1], [1, 1], [None] * 2,
                [False] * 2, [uuid4(), uuid4()], [None] * 2, [None] * 2, p_now=bert.queue.clock.now,
            )  # fmt: skip
            [bert.ready_since] = [row["ready_since"] for row in rows]

        bert.will(pop_for_both)

    async def check(scene, cast):
        await assert_nothing_became_ready_before(scene, cast["bert"])

    assert await stage.every_order(prepare, check) == 3
