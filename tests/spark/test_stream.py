"""A queue as a stream: every message once, in positions that are one integer."""

import json
from uuid import uuid4

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from queenmq.errors import MessageNotFound, NotInLease, NotPending, PositionLost, QueenError
from tests.spark.streams import Stream


@pytest.fixture
def stream(spark, database):
    opened = []

    def open_one(queue="orders", **options):
        opened.append(Stream(database, queue, options))
        return opened[-1]

    yield open_one
    for each in opened:
        each.reader.stop()


async def test_each_batch_has_what_was_committed_since_the_last(push, stream):
    await push("orders", "ann", 1, 2)
    query = stream()
    found, first = await query.batch(await query.start())
    assert found == [1, 2]
    assert await query.latest(first) == first, "nothing new, nothing to do"
    await push("letters", "ann", "another queue")
    assert await query.latest(first) == first
    await push("orders", "bob", 3)
    found, second = await query.batch(first)
    assert found == [3]
    assert await query.between(first, second) == [3], "the same batch again is the same batch"
    assert len(json.dumps(second)) < 200


async def test_what_commits_late_comes_in_a_later_batch(push, stream, connect):
    await push("orders", "ann", 1)
    query = stream()
    late = await connect()
    transaction = late.transaction()
    await transaction.start()
    await late.execute(
        "select queen.push_segments(array[e.partition_id], array[1], array['[2]'::bytea]) "
        "from queen.ensure_partitions(array['orders'], array['bob']) as e"
    )
    found, first = await query.batch(await query.start())
    assert found == [1]
    await push("orders", "ann", 3)
    found, second = await query.batch(first)
    assert found == [3]
    await transaction.commit()
    assert await query.between(first, second) == [3]
    found, third = await query.batch(second)
    assert found == [2]
    assert await query.latest(third) == third


async def test_a_limit_ends_a_batch_between_transactions(push, stream):
    for number in range(5):
        await push("orders", "ann", *range(number * 10, number * 10 + 4))
    query = stream()
    start, seen, sizes = await query.start(), [], []
    while True:
        found, end = await query.batch(start, ReadMaxRows(9))
        if end == start:
            break
        assert len(json.dumps(end)) < 200
        assert await query.between(start, end) == found
        seen, sizes, start = seen + found, [*sizes, len(found)], end
    assert sizes == [8, 8, 4]
    assert sorted(seen) == sorted(number * 10 + place for number in range(5) for place in range(4))


async def test_a_transaction_larger_than_the_limit_is_one_batch(push, stream):
    await push("orders", "ann", *range(5))
    await push("orders", "ann", 5)
    query = stream()
    found, end = await query.batch(await query.start(), ReadMaxRows(2))
    assert found == [0, 1, 2, 3, 4]
    assert (await query.batch(end, ReadMaxRows(2)))[0] == [5]


async def test_the_limit_is_an_option(stream, push):
    await push("orders", "ann", 1)
    assert stream(maxOffsetsPerTrigger="7").reader.getDefaultReadLimit() == ReadMaxRows(7)
    assert stream().reader.getDefaultReadLimit() == ReadAllAvailable()


@pytest.mark.parametrize(("starting", "expected"), [("earliest", [1, 2, 3]), ("latest", [3]), ("tick", [2, 3])])
async def test_a_stream_starts_where_it_is_told(push, stream, connection, starting, expected):
    await push("orders", "ann", 1)
    tick = await connection.fetchval("select queen.take_tick()")
    await push("orders", "ann", 2)
    query = stream(startingOffsets=json.dumps({"tick": tick}) if starting == "tick" else starting)
    start = await query.start()
    await push("orders", "ann", 3)
    assert (await query.batch(start))[0] == expected


async def test_a_stream_starts_at_a_moment(push, stream, connection):
    await push("orders", "ann", 1)
    await push("orders", "ann", 2)
    moment = await connection.fetchval("select max(created_at) from queen.messages")
    query = stream(startingTimestamp=moment.isoformat())
    assert (await query.batch(await query.start()))[0] == [2]


async def test_available_now_stops_at_what_was_there(push, stream):
    await push("orders", "ann", 1)
    query = stream()
    await query.call("prepareForTriggerAvailableNow")
    await push("orders", "ann", 2)
    found, end = await query.batch(await query.start())
    assert found == [1]
    assert await query.latest(end) == end


async def lag(connection, group):
    return await connection.fetchval("select messages from queen.lag where group_name = $1", group)


async def test_a_commit_moves_the_group_that_lag_and_the_ledger_see(push, stream, connection):
    await push("orders", "ann", 1, 2)
    await push("orders", "bob", 3)
    query = stream(group="lake")
    start = await query.start()
    assert await lag(connection, "lake") == 3
    _, first = await query.batch(start)
    await push("orders", "ann", 4)
    await push("orders", "carl", 5)
    assert await lag(connection, "lake") == 5
    await query.call("commit", first)
    assert await lag(connection, "lake") == 2
    _, second = await query.batch(first)
    await query.call("commit", second)
    await query.call("commit", first)
    assert await lag(connection, "lake") == 0
    assert await connection.fetch("select * from queen.check_consistency()") == []
    row = await connection.fetchrow("select sum(completed) as done from queen.ledger where group_name = 'lake'")
    assert row["done"] == 5


async def test_a_group_that_starts_late_has_nothing_to_catch_up(push, stream, connection):
    await push("orders", "ann", 1, 2)
    query = stream(group="lake", startingOffsets="latest")
    await query.start()
    assert await lag(connection, "lake") == 0
    assert await connection.fetch("select * from queen.check_consistency()") == []


async def test_a_queue_that_joins_a_namespace_is_read_from_there_on(push, stream, connection):
    await push("orders", "ann", 1)
    await push("letters", "ann", "before")
    await connection.execute("update queen.queues set namespace = 'shop' where name = 'orders'")
    query = stream("namespace:shop", group="lake")
    _, end = await query.batch(await query.start())
    await query.call("commit", end)
    await connection.execute("update queen.queues set namespace = 'shop'")
    await push("letters", "bob", "after")
    found, end = await query.batch(end)
    assert found == ["after"]
    await query.call("commit", end)
    lags = await connection.fetch("select queue, messages from queen.lag order by queue")
    assert [tuple(row) for row in lags] == [("letters", 0), ("orders", 0)]
    done = "select sum(completed) from queen.ledger where queue = 'letters'"
    assert await connection.fetchval(done) == 1, "what was there before is not this query's"


async def test_retention_waits_for_the_group(push, stream, connection):
    await push("orders", "ann", 1)
    await connection.execute("update queen.queues set completed_retention_seconds = 1")
    query = stream(group="lake")
    _, end = await query.batch(await query.start())
    later = "select messages from queen.retain((select id from queen.queues), null, 1000, now() + interval '1 minute')"
    assert await connection.fetchval(later) == 0
    await query.call("commit", end)
    assert await connection.fetchval(later) == 1


async def test_what_retention_took_unread_is_data_loss(push, stream, connection):
    await push("orders", "ann", 1)
    query, tolerant = stream(), stream(failOnDataLoss="false")
    start = await query.latest(await query.start())
    await tolerant.start()
    await push("orders", "ann", 2)
    await push("orders", "ann", 3)
    await connection.execute("update queen.queues set retention_seconds = 60")
    await connection.execute(
        "update queen.segments set created_at = created_at - interval '1 day' where first_offset < 2"
    )
    await connection.fetch("select * from queen.retain((select id from queen.queues))")
    with pytest.raises(MessageNotFound, match='queue "orders" that this query has not read'):
        await query.batch(start)
    assert (await tolerant.batch(start))[0] == [3]


async def test_an_offset_of_an_earlier_version_is_accepted_and_gets_its_mark(push, stream):
    await push("orders", "ann", 1)
    query = stream()
    _, end = await query.batch(await query.start())
    old = {name: end[name] for name in ("tick", "of")}
    assert await query.latest(old) == end, "although there is nothing new"
    assert await query.between(old, end) == []
    assert await query.latest(end) == end


async def test_an_offset_with_another_mark_is_refused(push, stream):
    await push("orders", "ann", 1)
    query = stream()
    _, end = await query.batch(await query.start())
    for other in ({"mark": str(uuid4())}, {"mark": str(uuid4()), "trail": []}, {"tick": end["tick"] + 1}):
        with pytest.raises(PositionLost, match="PostgreSQL has lost"):
            await query.latest(end | other)
    with pytest.raises(PositionLost, match="PostgreSQL has lost"):
        await stream(startingOffsets=json.dumps({"tick": end["tick"], "mark": str(uuid4())})).start()
    known = {name: end[name] for name in ("tick", "mark", "trail")}
    assert await stream(startingOffsets=json.dumps(known)).start() == end


async def test_a_checkpoint_of_another_queue_is_refused(push, stream):
    await push("orders", "ann", 1)
    await push("letters", "ann", 1)
    offset = await stream().start()
    with pytest.raises(NotPending, match='not one of "letters"'):
        await stream("letters").latest(offset)


async def test_two_queries_of_one_group_are_refused(push, stream, monkeypatch):
    await push("orders", "ann", 1)
    first = stream(group="lake")
    await first.start()
    with monkeypatch.context() as impatient:
        impatient.setattr("queenmq.spark.connection.LOCK_SECONDS_MAX", 0.0)
        with pytest.raises(NotInLease, match='as the group "lake"'):
            await stream(group="lake").start()
    await first.call("stop")
    assert (await stream(group="lake").start())["tick"] == 0


async def test_an_idle_stream_moves_on_before_its_tick_is_forgotten(push, stream, connection):
    await push("orders", "ann", 1)
    query = stream()
    _, start = await query.batch(await query.start())
    await connection.execute("update queen.ticks set taken_at = taken_at - interval '2 days'")
    await push("letters", "ann", 1)
    end = await query.latest(start)
    assert end["tick"] > start["tick"]
    assert await query.between(start, end) == []


async def test_progress_tells_how_far_behind_a_query_is(push, stream, connection):
    await push("orders", "ann", 1)
    query = stream()
    _, start = await query.batch(await query.start())
    await query.latest(start)
    await connection.execute("update queen.ticks set taken_at = taken_at - interval '10 seconds'")
    await push("orders", "ann", 2)
    newest = await query.call("reportLatestOffset")
    assert newest["tick"] > start["tick"]
    assert newest["behind_seconds"] >= 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": '{"ann": 3}'}, "not at single offsets"),
        ({"endingOffsets": "latest"}, 'a stream has no option "endingOffsets"'),
        ({"includeDeadLetters": "true"}, 'a stream has no option "includeDeadLetters"'),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger is a number"),
        ({"queue": "nowhere"}, 'there is no queue "nowhere"'),
        ({"group": "x" * 300, "queue": "orders"}, "group name"),
    ],
)
async def test_bad_input_of_a_stream_is_refused(push, stream, options, message):
    await push("orders", "ann", 1)
    with pytest.raises(QueenError, match=message):
        await stream(**options).start()
