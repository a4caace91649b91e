"""PostgreSQL loses commits and issues offsets and partition ids again: what servers remember must not count.

Two servers and an SDK without a server have warm caches. PostgreSQL loses a part of what they pushed, and a stranger
takes the offsets and partition ids that are free again. Then they pop first, or push first. The same happens behind
PgBouncer, which connects to the other PostgreSQL without a word.
"""

import pytest

from tests.faults.lost_history.changes import DATABASE, KINDS, AsynchronousPromotion, Restore
from tests.faults.lost_history.places import looking, places, push, push_as_a_stranger, stored, take
from tests.fixtures.pgbouncer import poolers

PLACES = ("one", "two", "direct")
QUEUES = ("orders", "salaries", "public-news")
PARTITIONS = 4


def named(what, place="", count=10):
    return [f"{what}-{place}-{number}" for number in range(count)]


async def warm_up(at, what):
    """Every place has pushed to its queues, and has read all of what the others pushed."""
    for place in PLACES:
        assert set(await push(at[place], "orders", "ann", named(what, place))) == {"queued"}
        for number in range(PARTITIONS):
            await push(at[place], "salaries", f"{what}-{place}-{number}", named("pay", place, 1))
    for place in PLACES:
        await take(at[place], "orders", f"{what}-{place}")
        await take(at[place], "salaries", f"{what}-{place}")


async def write_as_strangers(connection):
    """Another server has taken the offsets and the partition ids that are free again."""
    await push_as_a_stranger(connection, "orders", "ann", named("new"))
    for number in range(3 * PARTITIONS):
        await push_as_a_stranger(connection, "public-news", f"news-{number}", named("news", number, 2))


class Groups:
    """One group for each place, and all that it got."""

    def __init__(self, at, connection):
        self._at = at
        self._connection = connection
        self._taken = {(place, queue): [] for place in PLACES for queue in QUEUES}

    async def read_on(self):
        """Every group has got what is stored, each message once, each partition in order."""
        there = await stored(self._connection)
        for (place, queue), taken in self._taken.items():
            taken.extend(await take(self._at[place], queue, f"late-{place}"))
            assert sorted(taken, key=order) == [each for each in there if each.queue == queue]
            for partition in {each.partition for each in taken}:
                offsets = [each.offset for each in taken if each.partition == partition]
                assert offsets == sorted(offsets)


async def push_on(at, connection):
    """What is pushed to a queue is stored in this queue, whoever has its partition ids now."""
    for place in PLACES:
        for number in range(PARTITIONS):
            assert await push(at[place], "salaries", f"lost-{place}-{number}", named("raise", place, 1)) == ["queued"]
        assert set(await push(at[place], "orders", "ann", named("after", place))) == {"queued"}
    await stored(connection)


async def push_again(at, change):
    """A producer that repeats its ids repairs the loss, and stores nothing twice."""
    for place in PLACES:
        lost, kept = ("queued", "duplicate") if change.loses else ("duplicate", "duplicate")
        kept = kept if change.keeps else "queued"
        assert set(await push(at[place], "orders", "ann", named("lost", place))) == {lost}
        assert set(await push(at[place], "orders", "ann", named("kept", place))) == {kept}
        for number in range(PARTITIONS):
            assert await push(at[place], "salaries", f"lost-{place}-{number}", named("pay", place, 1)) == [lost]
            assert await push(at[place], "salaries", f"kept-{place}-{number}", named("pay", place, 1)) == [kept]


def order(message):
    return message.queue, message.partition, message.offset


@pytest.mark.parametrize("first", ["pop", "push"])
@pytest.mark.parametrize("kind", KINDS)
async def test_what_servers_remember_does_not_outlive_history(replication, tmp_path, kind, first):
    change = kind(replication)
    await change.prepare()
    async with places(change.dsn, tmp_path, spool=False) as at:
        await lose_history(at, change)
        await go_on(at, change, first)


@pytest.mark.parametrize("mode", ["session", "transaction"])
@pytest.mark.parametrize("kind", [AsynchronousPromotion, Restore])
async def test_servers_behind_a_pooler_notice_that_history_has_changed(replication, tmp_path, monkeypatch, kind, mode):
    change = kind(replication)
    await change.prepare()
    with poolers(change.node.dsn(DATABASE)) as start:
        pooler = start(mode, server_login_retry=1)
        settings = {}
        if mode == "transaction":
            settings["session_dsn"] = change.dsn
            monkeypatch.setenv("QUEEN_SESSION_DSN", change.dsn)  # of the SDK without a server
        async with places(pooler.dsn, tmp_path, spool=False, **settings) as at:
            await lose_history(at, change)
            pooler.redirect(change.node.dsn(DATABASE))
            await go_on(at, change, "push")


async def lose_history(at, change):
    await warm_up(at, "kept")
    await change.keep()
    await warm_up(at, "lost")
    await change.happen()


async def go_on(at, change, first):
    async with looking(change.node.dsn(DATABASE)) as connection:
        await write_as_strangers(connection)
        groups = Groups(at, connection)
        if first == "pop":
            await groups.read_on()
        await push_on(at, connection)
        await push_again(at, change)
        await groups.read_on()
