"""Push, pop and ack at the same moment: no message sleeps, none is handed out twice."""

from functools import partial

import pytest

from queenmq.errors import LeaseGone
from tests.queue_in_sql import Delivery

pytestmark = pytest.mark.usefixtures("crowd")
ENDS = pytest.mark.parametrize("end", ["commit", "rollback"])


def deliveries(*actors):
    """What the actors' pops got, one list for all."""
    answers = [answer for actor in actors for answer in actor.heard if isinstance(answer, list)]
    return [each for answer in answers for each in answer if isinstance(each, Delivery)]


@ENDS
async def test_a_push_while_everything_is_acknowledged_wakes_the_group(stage, end):
    """The lost wake-up: ack says "all is read" and push "nobody waits", each unaware of the other."""

    async def prepare(scene, cast):
        alice, bert = cast["alice"], cast["bert"]
        await scene.director.push("ann", 1)
        [delivery] = await scene.director.pop()
        alice.will_in_transaction(partial(alice.ack, delivery))
        bert.will_in_transaction(partial(bert.push, "ann", 2), end=end)

    assert await stage.every_order(prepare) == 6


@ENDS
async def test_two_pushes_and_an_ack_of_half_the_messages(stage, end):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.director.push("ann", 1, 2)
        [delivery] = await scene.director.pop()
        alice.will_in_transaction(partial(alice.ack, delivery, [1]), partial(alice.ack, delivery, [0]))
        bert.will_in_transaction(partial(bert.push, "ann", 3), end=end)
        carl.will(partial(carl.push, "ann", 4))

    assert await stage.every_order(prepare) == 60


@ENDS
@pytest.mark.parametrize("auto_ack", [False, True], ids=["leased", "auto_ack"])
@pytest.mark.parametrize("waiting", [0, 1], ids=["empty", "one waits"])
async def test_a_pop_and_a_push(stage, auto_ack, waiting, end):
    async def prepare(scene, cast):
        alice, bert = cast["alice"], cast["bert"]
        await scene.stock(("ann", [1]))
        if not waiting:
            await scene.director.pop(auto_ack=True)
        alice.will_in_transaction(partial(alice.pop, auto_ack=auto_ack))
        bert.will_in_transaction(partial(bert.push, "ann", 2), end=end)

    assert await stage.every_order(prepare) == 6


@ENDS
async def test_a_pop_that_is_undone_and_a_push(stage, end):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.stock(("ann", [1]))
        alice.will_in_transaction(partial(alice.pop, auto_ack=True), end="rollback")
        bert.will_in_transaction(partial(bert.push, "ann", 2), end=end)
        carl.will(partial(carl.pop, auto_ack=True))

    assert await stage.every_order(prepare) == 30


@ENDS
async def test_an_auto_ack_that_cannot_see_whether_someone_pushes_leaves_the_partition_ready(stage, end):
    """The pop skips the locked lookup row instead of waiting; the next pop must look again."""

    async def prepare(scene, cast):
        alice, bert = cast["alice"], cast["bert"]
        await scene.stock(("ann", [1]))
        alice.will_in_transaction(partial(alice.push, "ann", 2), end=end)
        bert.will(partial(bert.pop, auto_ack=True), partial(bert.pop, auto_ack=True), partial(bert.pop))

    assert await stage.every_order(prepare) == 10


@ENDS
async def test_a_pop_that_gives_everything_up_and_a_push(stage, end):
    async def prepare(scene, cast):
        alice, bert = cast["alice"], cast["bert"]
        await scene.director.queue.configure(scene.name, max_wait_seconds=60)
        await scene.stock(("ann", [1]))
        scene.director.queue.clock.advance(61)
        alice.will_in_transaction(partial(alice.push, "ann", 2), end=end)
        bert.will_in_transaction(bert.pop, bert.pop)

    assert await stage.every_order(prepare) == 10


@pytest.mark.parametrize("seconds", [29, 31], ids=["renewed in time", "renewed too late"])
async def test_a_renewal_and_the_pop_that_takes_over(stage, seconds):
    """The two servers' clocks differ: one thinks that the lease still runs, the other that it ended."""

    async def prepare(scene, cast):
        alice, bert = cast["alice"], cast["bert"]
        await scene.director.push("ann", 1)
        [delivery] = await scene.director.pop(lease_seconds=30)
        alice.queue.clock.advance(seconds)
        bert.queue.clock.advance(31)
        alice.will_in_transaction(partial(alice.queue.renew, delivery))
        bert.will_in_transaction(bert.pop)

    async def one_holder(scene, cast):
        renewed = not isinstance(cast["alice"].heard[0], LeaseGone)
        assert not (renewed and deliveries(cast["bert"]))
        assert seconds < 30 or not renewed

    assert await stage.every_order(prepare, one_holder) == 6


@pytest.mark.parametrize("seconds", [29, 31], ids=["in time", "too late"])
async def test_an_ack_and_the_pop_that_takes_over(stage, seconds):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.director.push("ann", 1, 2)
        [delivery] = await scene.director.pop(lease_seconds=30)
        alice.queue.clock.advance(seconds)
        bert.queue.clock.advance(31)
        alice.will_in_transaction(partial(alice.ack, delivery))
        bert.will_in_transaction(bert.pop)
        carl.will(partial(carl.push, "ann", 3))

    async def one_holder(scene, cast):
        acked = not isinstance(cast["alice"].heard[0], LeaseGone)
        assert not (acked and {0, 1} & {offset for each in deliveries(cast["bert"]) for offset in each.offsets})

    assert await stage.every_order(prepare, one_holder) == 30


async def test_two_pops_never_get_the_same_partition(stage):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.stock(("ann", [1]))
        alice.will_in_transaction(alice.pop)
        bert.will_in_transaction(bert.pop)
        carl.will(carl.pop)

    async def one_winner(scene, cast):
        assert len(deliveries(*cast.values())) == 1

    assert await stage.every_order(prepare, one_winner) == 30


async def test_each_pop_gets_a_partition_while_there_is_one(stage):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.stock(("ann", [1]), ("bob", [2]), ("eve", [3]))
        alice.will_in_transaction(alice.pop)
        bert.will_in_transaction(bert.pop)
        carl.will_in_transaction(carl.pop)

    async def all_win(scene, cast):
        assert sorted(each.partition for each in deliveries(*cast.values())) == ["ann", "bob", "eve"]

    assert await stage.every_order(prepare, all_win) == 90


@ENDS
async def test_an_ack_and_a_release_of_the_lease(stage, end):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.director.push("ann", 1, 2)
        [delivery] = await scene.director.pop()
        alice.will_in_transaction(partial(alice.ack, delivery, [0]), partial(alice.ack, delivery, [1]), end=end)
        bert.will_in_transaction(partial(bert.queue.release, delivery))
        carl.will(carl.pop)

    assert await stage.every_order(prepare) == 60


async def test_two_acks_of_one_lease(stage):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.director.push("ann", 1, 2)
        [delivery] = await scene.director.pop()
        alice.will_in_transaction(partial(alice.ack, delivery, [0]))
        bert.will_in_transaction(partial(bert.ack, delivery, [1]))
        carl.will(partial(carl.push, "ann", 3))

    async def released(scene, cast):
        assert sum(actor.heard[0].released for actor in (cast["alice"], cast["bert"])) == 1

    assert await stage.every_order(prepare, released) == 30
