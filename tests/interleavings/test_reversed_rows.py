"""Rows that lie in the table in the opposite order of their ids: whoever locks several sorts them by id first.

In each scene carl holds one row for a while. Two calls that both need it, and another row, then meet between the two.
If one of them follows the physical order of the rows, they wait for each other. The rules of locking are the same on
every PostgreSQL; one is enough.
"""

from functools import partial

import pytest

REVERSE = """
with gone as (delete from queen.partition_consumers c using queen.queue_groups g, queen.queues q
               where g.id = c.group_id and q.id = g.queue_id and q.name = $1 returning c.*)
insert into queen.partition_consumers select * from gone order by partition_id desc, group_id desc
"""
REVERSE_LOOKUP = """
with gone as (delete from queen.partition_lookup l using queen.queues q
               where q.id = l.queue_id and q.name = $1 returning l.*)
insert into queen.partition_lookup select * from gone order by partition_id desc
"""
HOLD_PLACE = """
select from queen.partition_consumers c join queen.partitions p on p.id = c.partition_id
  join queen.queues q on q.id = p.queue_id where q.name = $1 and p.name = $2 for update of c
"""
HOLD_LOOKUP = """
select from queen.partition_lookup l join queen.partitions p on p.id = l.partition_id
  join queen.queues q on q.id = p.queue_id where q.name = $1 and p.name = $2 for update of l
"""
HOLDS = {"place": HOLD_PLACE, "lookup": HOLD_LOOKUP}


async def reverse_rows(scene):
    """Write the queue's hot rows again, the highest id first."""
    connection = scene.director.queue.connection
    await connection.execute(REVERSE, scene.name)
    await connection.execute(REVERSE_LOOKUP, scene.name)
    places = await connection.fetch(
        "select c.partition_id from queen.partition_consumers c join queen.partitions p on p.id = c.partition_id "
        "join queen.queues q on q.id = p.queue_id where q.name = $1 order by c.ctid",
        scene.name,
    )
    ids = [row["partition_id"] for row in places]
    assert ids == sorted(ids, reverse=True)


def will_hold(actor, *, row, partition="ann"):
    """Lock the row of a partition, and let it go in the next step."""
    actor.will_in_transaction(partial(actor.queue.connection.execute, HOLDS[row], actor.scene.name, partition))


async def prepare_read_queue(scene):
    """Two partitions that the group has read to the end, written in reverse."""
    await scene.director.push_many(("ann", [1]), ("bob", [2]))
    await scene.director.pop(partitions=9, auto_ack=True)
    await reverse_rows(scene)


async def prepare_leased_queue(scene):
    """Two partitions, each under a lease of its own, written in reverse; the leases by partition."""
    await scene.director.push_many(("ann", [1]), ("bob", [2]), ("eve", [3]))
    deliveries = [await scene.director.pop(name) for name in ("ann", "bob")]
    await reverse_rows(scene)
    return [delivery for [delivery] in deliveries]


MOVERS = {
    "delete_group": lambda actor: actor.do("delete_group", "workers", actor.scene.name),
    "seek_group": lambda actor: actor.queue.seek("workers", actor.scene.name, to="beginning"),
    "clear_queue": lambda actor: actor.do("clear_queue", actor.scene.name),
    "delete_queue": lambda actor: actor.do("delete_queue", actor.scene.name),
    "resync_partition_lookup": lambda actor: actor.do("resync_partition_lookup", actor.scene.name),
    "push": lambda actor: actor.push_many(("bob", [31]), ("ann", [32])),
}


@pytest.mark.parametrize("row", HOLDS)
@pytest.mark.parametrize("name", MOVERS)
@pytest.mark.parametrize("window", [0, 60], ids=["ready at once", "ready after a window"])
async def test_a_push_wakes_groups_in_the_order_of_ids(stage, name, row, window):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await prepare_read_queue(scene)
        if window:
            await scene.director.queue.configure(scene.name, window_buffer_seconds=window)
        alice.will(partial(alice.push_many, ("bob", [21]), ("ann", [22])))
        bert.will(partial(MOVERS[name], bert))
        will_hold(carl, row=row)

    assert await stage.every_order(prepare, drain=False) == 12


LEASE_CALLS = {
    "renew_lease": lambda actor, ids: actor.do("renew_lease", ids, p_now=actor.queue.clock.now),
    "release_lease": lambda actor, ids: actor.do("release_lease", ids, p_now=actor.queue.clock.now),
    "delete_group": lambda actor, _: actor.do("delete_group", "workers", actor.scene.name),
    "seek_group": lambda actor, _: actor.queue.seek("workers", actor.scene.name, to="end"),
}


@pytest.mark.parametrize("row", HOLDS)
@pytest.mark.parametrize("name", LEASE_CALLS)
async def test_a_transaction_locks_the_leases_that_it_requires_in_the_order_of_ids(stage, name, row):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        first, second = await prepare_leased_queue(scene)
        pushes = [(scene.name, "eve", [9])]
        alice.will(partial(alice.queue.transact, [], pushes, [second, first]))
        bert.will(partial(LEASE_CALLS[name], bert, [first.lease_id, second.lease_id]))
        will_hold(carl, row=row)

    assert await stage.every_order(prepare, drain=False) == 12


@pytest.mark.parametrize("name", LEASE_CALLS)
async def test_a_transaction_locks_what_it_acknowledges_and_what_it_wakes_in_one_order(stage, name):
    """It acknowledges ann and wakes eve, whose row has the higher id, before."""

    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.director.push_many(("ann", [1]), ("eve", [2]))
        [first] = await scene.director.pop("ann")
        [second] = await scene.director.pop("eve")
        await scene.director.ack(second)
        await reverse_rows(scene)
        alice.will(partial(alice.transact, first, "eve", 3))
        bert.will(partial(LEASE_CALLS[name], bert, [first.lease_id]))
        will_hold(carl, row="place", partition="ann")

    assert await stage.every_order(prepare, drain=False) == 12


@pytest.mark.parametrize("name", ["delete_group", "delete_queue"])
async def test_a_group_in_commit_order_locks_its_own_row_before_its_partitions(stage, name):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.director.push_many(("ann", [1]), ("bob", [2]))
        await scene.director.do("subscribe", "workers", scene.name, None, None, None, "all", None)
        await scene.director.pop(partitions=9)
        await reverse_rows(scene)
        epoch, snapshot = await scene.director.queue.connection.fetchrow(
            "select epoch, pg_current_snapshot() from queen.system_state"
        )
        alice.will(partial(alice.do, "advance_group", "workers", scene.name, epoch, snapshot))
        bert.will(partial(MOVERS[name], bert))
        will_hold(carl, row="place", partition="bob")

    assert await stage.every_order(prepare, drain=False) == 12


async def test_a_changed_limit_and_window_lock_the_depth_before_the_partitions(stage):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.director.queue.configure(scene.name, max_queue_size=9, delayed_processing_seconds=60)
        await scene.director.push_many(("ann", [1]), ("bob", [2]))
        await scene.director.pop(partitions=9)
        await reverse_rows(scene)
        change = partial(alice.queue.configure, scene.name, max_queue_size=8, delayed_processing_seconds=30)
        alice.will(change)
        bert.will(partial(MOVERS["seek_group"], bert))
        will_hold(carl, row="place")

    assert await stage.every_order(prepare, drain=False) == 12


@pytest.mark.parametrize("names", [("zebra", "ape"), ("ape", "zebra")], ids=["names against ids", "names like ids"])
async def test_a_pop_that_extends_two_groups_locks_all_their_partitions_in_one_order(stage, names):
    """The partitions of the queues alternate, so one queue after the other is not the order of ids."""

    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        one, two = (f"{name}-{scene.name}" for name in names)
        director = scene.director.queue
        for partition in ("p1", "p2"):
            await director.push_many((one, partition, [1]), (two, partition, [2]))
        for queue in (one, two):
            await director.configure(queue, max_queue_size=99, namespace=scene.name)
        await director.call("subscribe", "workers", None, None, scene.name, None, "all", None)
        alice.will(partial(alice.queue.pop, "workers", namespace=scene.name, partitions=9))
        bert.will(partial(bert.queue.push_many, (two, "p1", [3]), (one, "p2", [4])))
        carl.will_in_transaction(
            partial(carl.queue.connection.execute, "select from queen.queues where name = $1 for update", two)
        )

    assert await stage.every_order(prepare, drain=False) == 12


async def acknowledge_ends(actor, first, last):
    """The last partition of a lease, then the first. Two ranges of one lease need the general statement."""
    ids = [last.partition_id, first.partition_id]
    groups, leases = [first.group_id] * 2, [first.lease_id] * 2
    rows = await actor.do(
        "ack_batch", ids, groups, leases, [1, 1, 2], [0, 1, 0], [1, 2, 1], p_now=actor.queue.clock.now
    )
    places = await actor.queue.connection.fetch(
        "select partition_id from queen.partition_consumers where partition_id = any ($1) order by ctid", ids
    )
    assert [place["partition_id"] for place in places] == ids
    return rows


LEASE_KEEPERS = {
    "renew_lease": lambda actor, lease: actor.do("renew_lease", [lease.lease_id], p_now=actor.queue.clock.now),
    "release_lease": lambda actor, lease: actor.do("release_lease", [lease.lease_id], p_now=actor.queue.clock.now),
    "transact": lambda actor, lease: actor.queue.transact([], [(actor.scene.name, "zoe", [9])], [lease]),
}


@pytest.mark.parametrize("name", LEASE_KEEPERS)
async def test_a_lease_that_ends_while_a_call_waits_for_its_rows_leaves_no_row_to_a_push_without_order(stage, name):
    """Alice ends the lease on ann and eve while bert's call waits for ann, then pushes to both; carl holds bob.

    Bert's call then has the row of ann, which has read all, and goes on to eve. A push wakes rows that have read all in
    their order on disk, here eve before ann, so bert must not have one without its lookup row.
    """

    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.director.push_many(("ann", [1]), ("bob", [2]), ("eve", [3, 4]))
        deliveries = await scene.director.pop(partitions=3)
        first, middle, last = sorted(deliveries, key=lambda delivery: delivery.partition_id)
        await scene.director.push("zoe", 5)
        await reverse_rows(scene)
        alice.will_in_transaction(partial(acknowledge_ends, alice, first, last))
        alice.will(partial(alice.push_many, ("ann", [21]), ("eve", [23])))
        bert.will(partial(LEASE_KEEPERS[name], bert, middle))
        will_hold(carl, row="place", partition="bob")

    assert await stage.every_order(prepare, drain=False) == 60


DEAD_LETTERS = {
    "purge_dead_letters": lambda actor: actor.do("purge_dead_letters", p_queue=actor.scene.name),
    "redrive_dead_letters": lambda actor: actor.do("redrive_dead_letters", p_queue=actor.scene.name),
    "delete_queue": lambda actor: actor.do("delete_queue", actor.scene.name),
}


@pytest.mark.parametrize("name", DEAD_LETTERS)
async def test_dead_letters_are_locked_in_the_order_of_ids(stage, name):
    async def prepare(scene, cast):
        alice, bert, carl = cast.values()
        await scene.director.push("ann", 1, 2)
        [delivery] = await scene.director.pop()
        await scene.director.queue.ack(delivery, status="dlq")
        connection = scene.director.queue.connection
        queue = "(select id from queen.queues where name = $1)"
        await connection.execute(
            f"with gone as (delete from queen.dead_letters where queue_id = {queue} returning *) "
            "insert into queen.dead_letters overriding system value select * from gone order by id desc",
            scene.name,
        )
        [first, _] = await connection.fetch(
            f"select id from queen.dead_letters where queue_id = {queue} order by id", scene.name
        )
        alice.will(partial(alice.do, "purge_dead_letters", p_queue=scene.name))
        bert.will(partial(DEAD_LETTERS[name], bert))
        carl.will_in_transaction(
            partial(
                carl.queue.connection.execute, "select from queen.dead_letters where id = $1 for update", first["id"]
            )
        )

    assert await stage.every_order(prepare, drain=False) == 12
