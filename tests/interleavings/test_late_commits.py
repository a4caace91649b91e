"""Transactions that commit late, roll back or meet: what is committed is delivered, in order, and once."""

from functools import partial

import pytest

from queenmq.errors import LeaseGone

pytestmark = pytest.mark.usefixtures("crowd")
ENDS = pytest.mark.parametrize("end", ["commit", "rollback"])


@ENDS
async def test_a_push_that_commits_late_is_never_passed_by(stage, end):
    """Alice pushes and stays open; bert pushes to her partition and to another; carl reads all he can."""

    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.director.push_many(("ann", [1]), ("bob", [2]))
        await scene.director.pop(auto_ack=True, partitions=2)
        alice.will_in_transaction(partial(alice.push, "ann", 11, 12), end=end)
        bert.will(partial(bert.push, "bob", 21), partial(bert.push, "ann", 22))
        carl.will(*[partial(carl.pop, auto_ack=True, partitions=2)] * 2)

    assert await stage.every_order(prepare) == 90


@ENDS
async def test_two_open_pushes_to_one_partition(stage, end):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        alice.will_in_transaction(partial(alice.push, "ann", 11), partial(alice.push, "ann", 12), end=end)
        bert.will_in_transaction(partial(bert.push, "ann", 21))
        carl.will(partial(carl.pop, auto_ack=True))

    assert await stage.every_order(prepare) == 60


@ENDS
async def test_pushes_through_the_inbox_are_placed_as_they_commit(stage, end):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.stock(("ann", [1]))
        alice.will_in_transaction(partial(alice.push_in_transaction, "ann", 11, 12), end=end)
        bert.will_in_transaction(partial(bert.push_in_transaction, "ann", 21))
        carl.will(carl.queue.sequence, partial(carl.pop, auto_ack=True))

    assert await stage.every_order(prepare) == 90


@ENDS
async def test_the_inbox_is_sequenced_while_someone_pushes_directly(stage, end):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.stock(("ann", [1]))
        await scene.director.push_in_transaction("ann", 2)
        alice.will_in_transaction(partial(alice.push, "ann", 11), end=end)
        bert.will_in_transaction(bert.queue.sequence)
        carl.will(carl.queue.sequence, carl.pop)

    assert await stage.every_order(prepare) == 90


@ENDS
async def test_a_sequencer_that_dies_loses_nothing(stage, end):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.director.push_in_transaction("ann", 2, 3)
        alice.will_in_transaction(alice.queue.sequence, end="rollback")
        bert.will_in_transaction(partial(bert.push_in_transaction, "ann", 21), end=end)
        carl.will(carl.queue.sequence)

    assert await stage.every_order(prepare) == 30


@ENDS
async def test_the_same_id_from_two_pushers_is_stored_once(stage, end):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        scene.once = True
        await scene.director.push("ann", 1, ids=["x"])
        alice.will_in_transaction(partial(alice.push, "ann", 5, 6, ids=["a", "b"]), end=end)
        bert.will_in_transaction(partial(bert.push, "ann", 6, 7, ids=["b", "c"]))
        carl.will(partial(carl.push, "ann", 7, 5, ids=["c", "a"]))

    async def told_where_it_is(scene, cast):
        rows = await scene.director.queue.connection.fetch(
            'select "offset", transaction_id from queen.messages where queue = $1', scene.name
        )
        places = {row["transaction_id"]: row["offset"] for row in rows}
        assert cast["bert"].heard == [[places["b"], places["c"]]]
        assert cast["carl"].heard == [[places["c"], places["a"]]]

    assert await stage.every_order(prepare, told_where_it_is) == 30


async def test_pushes_to_the_same_partitions_in_opposite_order_do_not_block_each_other_for_good(stage):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.director.push_many(("ann", [1]), ("bob", [2]), ("eve", [3]))
        alice.will_in_transaction(partial(alice.push_many, ("ann", [11]), ("bob", [12]), ("eve", [13])))
        bert.will_in_transaction(partial(bert.push_many, ("eve", [21]), ("bob", [22]), ("ann", [23])))
        carl.will_in_transaction(partial(carl.push_many, ("bob", [31]), ("ann", [32]), ("eve", [33])))

    assert await stage.every_order(prepare) == 90


@ENDS
async def test_new_partitions_in_opposite_order(stage, end):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        alice.will_in_transaction(partial(alice.push_many, ("ann", [11]), ("bob", [12])), end=end)
        bert.will_in_transaction(partial(bert.push_many, ("bob", [21]), ("ann", [22])))
        carl.will(partial(carl.pop, auto_ack=True))

    assert await stage.every_order(prepare) == 30


@ENDS
async def test_a_transaction_and_a_push(stage, end):
    """Ack in one partition, push to another, while someone pushes to both."""

    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.director.push_many(("ann", [1]), ("bob", [2]))
        [delivery] = await scene.director.pop("bob")
        alice.will_in_transaction(partial(alice.transact, delivery, "ann", 11), end=end)
        bert.will_in_transaction(partial(bert.push_many, ("bob", [21]), ("ann", [22])))
        carl.will(partial(carl.pop, auto_ack=True, partitions=2))

    assert await stage.every_order(prepare) == 30


@ENDS
async def test_transactions_that_cross(stage, end):
    """Alice reads ann and writes bob, bert reads bob and writes ann, carl only acknowledges both."""

    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.director.push_many(("ann", [1]), ("bob", [2]))
        [one] = await scene.director.pop("ann")
        [two] = await scene.director.pop("bob")
        alice.will_in_transaction(partial(alice.transact, one, "bob", 11), end=end)
        bert.will_in_transaction(partial(bert.transact, two, "ann", 21))
        carl.will(partial(carl.ack, two), partial(carl.ack, one))

    assert await stage.every_order(prepare) == 90


async def test_transactions_that_cross_behind_a_push(stage):
    """Carl lets go of one partition after the other: whoever comes first must not wait for who comes second."""

    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.director.push_many(("ann", [1]), ("bob", [2]))
        [one] = await scene.director.pop("ann")
        [two] = await scene.director.pop("bob")

        async def push_for_a_while():
            await carl.queue.connection.execute("savepoint before")
            await carl.queue.push(scene.name, "bob", 32)

        carl.will_in_transaction(
            partial(carl.push, "ann", 31),
            push_for_a_while,
            partial(carl.queue.connection.execute, "rollback to savepoint before"),
        )
        alice.will(partial(alice.transact, one, "bob", 11))
        bert.will(partial(bert.transact, two, "ann", 21))

    assert await stage.every_order(prepare) == 30


async def test_one_of_two_transactions_on_one_lease_is_refused_whole(stage):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.director.push("ann", 1)
        [delivery] = await scene.director.pop()
        alice.will_in_transaction(partial(alice.transact, delivery, "ann", 11))
        bert.will_in_transaction(partial(bert.transact, delivery, "bob", 21))
        carl.will(partial(carl.queue.renew, delivery, 1000))

    async def one_was_refused(scene, cast):
        answers = [cast["alice"].heard[0], cast["bert"].heard[0]]
        assert sum(isinstance(answer, LeaseGone) for answer in answers) == 1

    assert await stage.every_order(prepare, one_was_refused) == 30
