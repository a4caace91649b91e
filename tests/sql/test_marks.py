"""A tick's mark tells whether a position that was kept elsewhere is still one of this database."""

import json
from itertools import pairwise

import asyncpg
import pytest

from queenmq.errors import InvalidArgument, PositionLost

pytestmark = pytest.mark.every_postgres


class History:
    """Takes ticks, and loses the newest of them as a database does that goes back to an earlier state."""

    def __init__(self, queue):
        self._queue = queue
        self._connection = queue.connection

    async def write(self, count=1):
        """Push as often, with a tick after each push; answers the last position."""
        for _ in range(count):
            await self._queue.push("orders", "ann", 1)
            [row] = await self._queue.call("take_tick", self._queue.clock.now)
        mark = await self._connection.fetchval("select mark from queen.ticks where id = $1", row[0])
        return row[0], mark, await self._connection.fetchval("select queen.tick_trail($1)::text", row[0])

    async def restart(self):
        await self._connection.execute("truncate queen.incarnations")

    async def go_back(self, tick):
        await self._connection.execute("delete from queen.ticks where id > $1", tick)
        await self._connection.execute("delete from queen.tick_incarnations where first_tick > $1", tick)
        await self._connection.execute(f"alter table queen.ticks alter id restart with {tick + 1}")
        await self.restart()

    async def common(self, position):
        """The number of the last common tick; None if there is none."""
        tick, mark, trail = position
        return await self._connection.fetchval(
            "select id from queen.common_tick($1, $2, $3::text::jsonb)", tick, mark, trail
        )

    async def is_lost(self, position):
        tick, mark, _ = position
        try:
            await self._queue.call("find_tick", tick, mark)
        except PositionLost:
            return True
        return False


@pytest.fixture
def history(queue):
    return History(queue)


async def test_a_position_is_known_as_long_as_its_tick_is_there(history):
    first, second = await history.write(), await history.write()
    assert first[1] != second[1]
    await history.restart()
    third = await history.write()
    for position in (first, second, third):
        assert not await history.is_lost(position)
        assert await history.common(position) == position[0]


@pytest.mark.parametrize("written_after", [0, 1, 2, 9])
async def test_a_position_is_lost_whether_or_not_its_number_is_given_out_again(history, written_after):
    kept = await history.write(3)
    lost = await history.write(2)
    await history.go_back(kept[0])
    if written_after:
        await history.write(written_after)
    assert await history.is_lost(lost)
    assert await history.common(lost) == kept[0]
    assert not await history.is_lost(kept)


async def test_the_last_common_tick_is_found_across_restarts_on_either_side(history):
    await history.write(2)
    await history.restart()
    kept = await history.write(3)
    before_the_restart = await history.write(2)
    await history.restart()
    lost = await history.write(2)
    await history.go_back(kept[0])
    await history.write(2)
    await history.restart()
    await history.write(9)
    for position in (before_the_restart, lost):
        assert await history.is_lost(position)
        assert await history.common(position) == kept[0]


async def test_the_last_common_tick_is_found_after_history_was_lost_twice(history):
    kept = await history.write(2)
    lost_first = await history.write(4)
    await history.go_back(kept[0])
    between = await history.write(2)
    lost_second = await history.write(2)
    await history.go_back(between[0])
    await history.write(9)
    assert await history.common(lost_first) == kept[0]
    assert await history.common(lost_second) == between[0]


async def test_a_position_of_another_database_has_no_tick_in_common(history):
    await history.write(3)
    assert await history.common((2, "00000000-0000-0000-0000-000000000000", json.dumps([[1, "another", 0]]))) is None
    assert await history.common((2, "00000000-0000-0000-0000-000000000000", "[]")) is None


async def test_a_tick_that_is_too_old_was_not_lost(history, queue):
    old = await history.write()
    queue.clock.advance(31 * 86400)
    await history.write(2)
    await history.restart()
    await history.write()
    with pytest.raises(asyncpg.PostgresError, match="30 days"):
        await history.common(old)
    with pytest.raises(InvalidArgument, match="30 days"):
        await history.is_lost(old)


async def test_a_trail_is_short_and_old_incarnations_are_forgotten(history, queue):
    for _ in range(12):
        position = await history.write()
        await history.restart()
    firsts = [first for first, _, _ in json.loads(position[2])]
    assert len(firsts) == 8
    assert all(newer > older for newer, older in pairwise(firsts))
    queue.clock.advance(31 * 86400)
    await history.write()
    rows = await queue.connection.fetch("select first_tick from queen.tick_incarnations")
    assert len(rows) == 1


async def test_segments_between_refuses_a_tick_with_another_mark(history, queue):
    first, second = await history.write(), await history.write()
    rows = await queue.call("segments_between", "orders", first[0], second[0], first[1], second[1])
    assert len(rows) == 1
    for marks in [(second[1], None), (None, first[1])]:
        with pytest.raises(PositionLost):
            await queue.call("segments_between", "orders", first[0], second[0], *marks)


async def test_a_group_is_not_moved_to_a_position_that_was_lost(history, queue):
    kept = await history.write()
    lost = await history.write(3)
    snapshot = await queue.connection.fetchval("select snapshot::text from queen.position_at($1)", lost[0])
    await queue.call("subscribe", "lake", "orders", None, None, None, "all", None, queue.clock.now)
    await history.go_back(kept[0])
    await history.write(5)
    advance = (
        "select queen.advance_group('lake', 'orders', 1::smallint, $1::text::pg_snapshot, p_tick => $2, p_mark => $3)"
    )
    with pytest.raises(asyncpg.PostgresError, match="PostgreSQL has lost"):
        await queue.connection.execute(advance, snapshot, lost[0], lost[1])
    assert await queue.connection.fetchval("select position from queen.queue_groups") is None


async def test_transaction_ids_that_started_over_begin_an_epoch_once(queue):
    await queue.push("orders", "ann", 1)
    assert (await queue.call("check_epoch"))[0][0] == 1
    await queue.connection.execute("update queen.segments set xid = '9000000000000'")
    assert [(await queue.call("check_epoch"))[0][0] for _ in range(2)] == [2, 2]


async def test_a_tick_beyond_the_horizon_begins_an_epoch_when_no_segment_is_left(queue):
    await queue.push("orders", "ann", 1)
    await queue.call("take_tick", queue.clock.now)
    await queue.call("clear_queue", "orders")
    await queue.connection.execute("update queen.ticks set snapshot = '9000000000000:9000000000000:'")
    assert [(await queue.call("check_epoch"))[0][0] for _ in range(2)] == [2, 2]


async def test_what_the_same_transaction_has_pushed_begins_no_epoch(queue, another):
    alice = await another()
    await queue.push("orders", "ann", 1)
    async with queue.connection.transaction(), alice.connection.transaction():
        await queue.push("orders", "ann", 2)
        await alice.push("orders", "bob", 3)
        assert (await queue.call("check_epoch"))[0][0] == 1
        assert (await alice.call("check_epoch"))[0][0] == 1


async def test_numbers_that_a_promotion_leaves_out_are_nobodys(history, queue):
    kept = await history.write(3)
    lost = await history.write(3)
    await history.go_back(kept[0])
    await queue.connection.execute("alter table queen.ticks alter id restart with 33")
    await history.write()
    assert await history.is_lost(lost)
    assert await history.common(lost) == kept[0]


async def test_the_past_of_a_copy_ends_where_the_copy_was_made(history, queue):
    """The copy has gone on to tick 9, and the original, which this database is, to tick 20."""
    await history.write(20)
    [first] = json.loads(await queue.connection.fetchval("select queen.tick_trail(20)::text"))
    trail = json.dumps([[8, "the copy's", 6], first])
    assert await history.common((9, "00000000-0000-0000-0000-000000000000", trail)) == 6


async def test_a_tick_is_lost_also_if_the_only_tick_that_is_left_is_that_of_an_archive(history, queue):
    kept = await history.write()
    lost = await history.write()
    await queue.connection.execute(
        "insert into queen.archives (queue_id, location, tick) select id, 'somewhere', $1 from queen.queues", kept[0]
    )
    await history.go_back(kept[0])
    assert await history.is_lost(lost)
