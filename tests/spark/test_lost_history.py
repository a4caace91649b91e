"""A position that PostgreSQL has lost is noticed: a reader goes on exactly, or fails with a sentence."""

import asyncio

import asyncpg
import pytest
from pyspark.errors import StreamingQueryException

from queenmq.engine.postgres.migrate import migrate
from queenmq.errors import NotPending, PositionLost
from queenmq.spark.replicas import OtherHistory
from tests.spark.histories import LOSSES, Going, push
from tests.spark.streams import Stream

PLACE = "select committed from queen.partition_consumers"
COPIES = "select string_agg(payload::text, ' ' order by \"offset\") from queen.messages where queue = 'copies'"


async def asked(dsn, query):
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


@pytest.fixture
def copying(spark, tmp_path):
    """Start the query that copies one queue into another, always with the same checkpoint."""
    started = []

    def start(dsn, **loss):
        options = {"url": dsn, **loss}
        live = spark.readStream.format("queen").options(queue="orders", columns="payload", group="copy", **options)
        writer = live.load().writeStream.format("queen").options(queue="copies", **options)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        started.append(writer.trigger(processingTime="50 milliseconds").start())
        return started[-1]

    yield start
    for query in started:
        query.stop()


async def caught_up(query):
    await asyncio.wait_for(asyncio.to_thread(query.processAllAvailable), 120)


@pytest.fixture
def stream(spark):
    """Readers of streams, which are stopped at the end."""
    opened = []

    def open_one(dsn, **options):
        opened.append(Stream(dsn, "orders", options))
        return opened[-1]

    yield open_one
    for each in opened:
        each.reader.stop()


@pytest.mark.parametrize("kind", LOSSES)
async def test_a_stream_whose_position_was_lost_fails_and_can_go_on_from_the_last_common_tick(
    stream, replication, kind
):
    history = await Going(replication, kind).prepare()
    await push(history.dsn, *range(100, 114))
    await history.keep()
    await push(history.dsn, *range(200, 203))
    query = stream(history.dsn, group="lake")
    found, kept = await query.batch(await query.start())
    assert found == [*range(100, 114), *range(200, 203)]
    await push(history.dsn, *range(203, 233))
    found, lost = await query.batch(kept)
    assert found == [*range(203, 233)]

    await history.lose()
    await push(history.dsn, *range(300, 399))
    for method, offsets in [("latest", [lost]), ("between", [kept, lost]), ("commit", [lost])]:
        with pytest.raises(
            PositionLost, match=rf"lost tick {offsets[0]['tick']}: .* agree up to tick 14 of 20.*not read"
        ):
            await getattr(query, method)(*offsets)
    assert await asked(history.dsn, PLACE) in (None, 0), "the group has not moved"

    tolerant = stream(history.dsn, group="lake", failOnDataLoss="false")
    assert await tolerant.between(kept, lost) == [], "nothing that both states have lies between"
    found, end = await tolerant.batch(lost)
    assert found == [*range(300, 399)]
    assert await tolerant.between(lost, end) == found, "the same batch again is the same batch"
    assert await tolerant.latest(end) == end
    await tolerant.commit(end)
    assert await asked(history.dsn, PLACE) == 113


async def test_a_stream_goes_on_exactly_when_nothing_was_lost(stream, replication):
    history = await Going(replication, "synchronous").prepare()
    await push(history.dsn, *range(100, 105))
    query = stream(history.dsn, group="lake")
    found, start = await query.batch(await query.start())
    await push(history.dsn, *range(105, 110))
    end = await query.latest(start)
    await history.lose()
    await push(history.dsn, *range(110, 115))
    query = stream(history.dsn, group="lake")
    assert await query.between(start, end) == [105, 106, 107, 108, 109]
    found, last = await query.batch(end)
    assert found == [110, 111, 112, 113, 114]
    await query.commit(last)
    assert await asked(history.dsn, PLACE) == 15


@pytest.mark.parametrize("kind", LOSSES)
async def test_a_running_query_fails_with_the_sentence_when_its_position_was_lost(copying, replication, kind):
    history = await Going(replication, kind).prepare()
    await push(history.dsn, 100, 101)
    query = copying(history.dsn)
    await caught_up(query)
    await history.keep()
    for value in (200, 201):
        await push(history.dsn, value)
        await caught_up(query)
    assert await asked(history.dsn, COPIES) == "100 101 200 201"
    await history.lose()
    with pytest.raises(StreamingQueryException, match=r"PostgreSQL has lost tick \d+: .* agree up to tick \d of "):
        await asyncio.to_thread(query.awaitTermination, 120)
    await push(history.dsn, 300, 301)
    await caught_up(copying(history.dsn, failOnDataLoss="false"))
    assert await asked(history.dsn, COPIES) == "100 101 300 301"


async def test_a_running_query_goes_on_exactly_on_the_synchronous_standby(copying, replication):
    history = await Going(replication, "synchronous").prepare()
    await push(history.dsn, 100, 101)
    query = copying(history.dsn)
    await caught_up(query)
    await history.lose()
    await push(history.dsn, 102, 103)
    await caught_up(query)
    assert await asked(history.dsn, COPIES) == "100 101 102 103"
    assert query.isActive


async def test_a_server_with_another_history_is_not_read_from(stream, replication):
    standby = await replication.standby()
    old, new = replication.primary.dsn(), standby.dsn()
    await push(old, 100)
    await replication.caught_up(standby)
    await replication.detach(standby)
    await standby.promote()  # and the old primary lives on
    await push(old, *range(200, 250))
    await push(new, *range(300, 350))
    query = stream(new, readUrl=old)
    start = await query.start()
    with pytest.raises(OtherHistory, match="its history is another one"):
        await query.batch(start)
    found, _ = await stream(new, readUrl=new).batch(start)
    assert found == [100, *range(300, 350)]


async def test_a_database_that_was_made_again_is_another_one(stream, database, connection):
    await push(database, 100, 101)
    query = stream(database)
    _, end = await query.batch(await query.start())
    await connection.execute("drop schema queen cascade")
    await migrate(connection)
    await push(database, *range(200, 210))
    with pytest.raises(PositionLost, match="No earlier tick of this position is known here"):
        await query.latest(end)  # on the session that it has
    for loss in ("true", "false"):
        with pytest.raises(NotPending, match='not one of "orders" on this server'):
            await stream(database, failOnDataLoss=loss).latest(end)
