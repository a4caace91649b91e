"""Writing into a queue: all rows or none, once, in order."""

import asyncio
import json
from uuid import uuid4

import asyncpg
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from queenmq.config import Settings
from queenmq.engine.postgres.migrate import migrate
from queenmq.errors import InvalidArgument, InvalidPayload, MessageNotFound, QueenError, QueueFull
from queenmq.model import PopRequest
from queenmq.spark.options import STREAM_WRITE, Options
from queenmq.spark.sink import BatchesLost, Writing
from queenmq.spark.workers import leave

OPTIONS = {"queue": "totals", "partitionColumn": "customer"}
SCHEMA = "customer string, id string, trace string, payload string"


class Sink:
    """The tasks and the driver of a write, one step at a time."""

    def __init__(self, dsn, schema=SCHEMA, **options):
        given = Options.of({"url": dsn, **OPTIONS, **options}, STREAM_WRITE, "a write")
        self.writing = Writing(given, StructType.fromDDL(schema))

    async def stage(self, *rows, task=0, epoch=0, write_id="w"):
        batch = pa.RecordBatch.from_pylist([{"customer": "ann", "id": None, "trace": None, **row} for row in rows])
        return await asyncio.to_thread(self.writing.stage, iter([batch]), write_id, epoch, task)

    async def commit(self, *messages, epoch=0):
        await asyncio.to_thread(self.writing.commit, list(messages), epoch)

    async def abort(self, *messages):
        await asyncio.to_thread(self.writing.abort, list(messages))


@pytest.fixture
def sink(spark, database):
    return lambda **options: Sink(database, **options)


async def stored(connection, queue="totals"):
    rows = await connection.fetch(
        'select partition, "offset", payload::text from queen.messages where queue = $1 order by 1, 2', queue
    )
    return [(row["partition"], row["offset"], json.loads(row["payload"])) for row in rows]


async def staged_segments(connection):
    """How many there are: what is known of them, and they themselves."""
    known, real = await connection.fetchrow(
        "select (select count(*) from queen.staged_segments), (select count(*) from queen.segments where queue_id = 0)"
    )
    assert known == real
    return known


def row(value, customer="ann", **more):
    return {"customer": customer, "payload": json.dumps(value), **more}


async def test_rows_appear_all_at_once_in_the_order_of_their_tasks(sink, connection):
    write = sink()
    second = await write.stage(row(3), row(4, "bob"), task=1)
    first = await write.stage(row(1), row(2), task=0)
    assert await stored(connection) == []
    await write.commit(second, None, first)
    assert await stored(connection) == [("ann", 0, 1), ("ann", 1, 2), ("ann", 2, 3), ("bob", 0, 4)]
    assert await staged_segments(connection) == 0
    ids = await connection.fetch("select transaction_id from queen.messages where partition = 'bob'")
    assert [each["transaction_id"] for each in ids] == ["spark:w:0:1:1"]
    assert await connection.fetch("select * from queen.check_consistency()") == []


async def test_an_epoch_that_is_written_again_is_there_already(sink, connection):
    write = sink()
    await write.commit(await write.stage(row("first"), epoch=0), epoch=0)
    for attempt in range(3):
        await write.commit(await write.stage(row(attempt), epoch=1), epoch=1)
    await write.commit(await write.stage(row("older"), epoch=0), epoch=0)
    await write.commit(await write.stage(row("next"), epoch=2), epoch=2)
    assert [value for _, _, value in await stored(connection)] == ["first", 0, "next"]
    assert await staged_segments(connection) == 0


async def test_batches_that_postgresql_has_lost_are_named(sink, connection):
    write, tolerant = sink(), sink(failOnDataLoss="false")
    for epoch in range(3):
        await write.commit(await write.stage(row(epoch), epoch=epoch), epoch=epoch)
    staged = await write.stage(row(5), epoch=5)
    with pytest.raises(BatchesLost, match=r'lost batch 3 to 4 of the query "w": batch 5 .* the last one here is 2'):
        await write.commit(staged, epoch=5)
    await tolerant.commit(staged, epoch=5)
    await write.commit(await write.stage(row(6), epoch=6), epoch=6)
    assert [value for _, _, value in await stored(connection)] == [0, 1, 2, 5, 6]
    with pytest.raises(BatchesLost, match=r"lost batch 0 to 6 .* the last one here is none"):
        await write.commit(await write.stage(row(7), epoch=7, write_id="of another database"), epoch=7)
    assert await connection.fetchval("select count(*) from queen.writes") == 1


async def test_what_another_writer_has_staged_under_the_same_number_is_not_written(sink, connection):
    """As after a promotion, where numbers are given out a second time."""
    write = sink()
    lost = await write.stage(row("lost"))
    await connection.execute("update queen.staged_segments set write_id = 'another'")
    with pytest.raises(MessageNotFound, match="is gone"):
        await write.commit(lost)
    assert await stored(connection) == []


async def test_a_failed_attempt_leaves_nothing(sink, connection):
    write = sink()
    lost = await write.stage(row("lost"), task=0)
    won = await write.stage(row("won"), task=0)
    await write.commit(won)
    assert [value for _, _, value in await stored(connection)] == ["won"]
    assert await staged_segments(connection) == 0
    await write.abort(await write.stage(row("aborted")), None)
    assert await staged_segments(connection) == 0
    assert lost.stage_id != won.stage_id


async def test_what_was_staged_long_ago_is_cleared_away(sink, connection):
    write = sink()
    await write.stage(row("forgotten"), write_id="dead")
    await connection.execute("update queen.staged_segments set staged_at = staged_at - interval '2 days'")
    await write.stage(row("in progress"), write_id="alive")
    await write.commit(await write.stage(row(1)))
    left = await connection.fetch("select write_id from queen.staged_segments")
    assert [each["write_id"] for each in left] == ["alive"]
    assert await staged_segments(connection) == 1


async def test_names_that_nobody_can_repeat_are_forgotten_after_a_day(sink, connection):
    write = sink()
    for name in (f"save:{uuid4()}", "save:june", "query"):
        await write.commit(await write.stage(row(name), write_id=name))
    await connection.execute("update queen.writes set written_at = written_at - interval '2 days'")
    young = f"save:{uuid4()}"
    await write.commit(await write.stage(row("young"), write_id=young))
    await write.commit(await write.stage(row("another"), write_id="another"))
    left = await connection.fetch("select id from queen.writes")
    assert {each["id"] for each in left} == {"save:june", "query", young, "another"}


async def test_what_postgres_has_lost_is_not_half_written(sink, connection):
    write = sink()
    staged = await write.stage(row(1))
    other = await write.stage(row(2), task=1)
    await connection.execute("delete from queen.staged_segments where stage_id = $1", staged.stage_id)
    with pytest.raises(MessageNotFound, match="is gone"):
        await write.commit(staged, other)
    assert await stored(connection) == []


async def test_the_users_own_ids_are_stored_once(sink, connection, push):
    await push("totals", "ann", "first", transaction_id="a")
    write = sink(transactionIdColumn="id")
    one = await write.stage(row(1, id="a"), row(2, id="b"), row(3, id="b"), row(4, "bob", id="b"), task=0)
    two = await write.stage(row(5, id="c"), row(6, id="b"), task=1)
    await write.commit(one, two)
    assert await stored(connection) == [("ann", 0, "first"), ("ann", 1, 2), ("ann", 2, 5), ("bob", 0, 4)]
    again = await write.stage(row(2, id="b"), write_id="another")
    await write.commit(again)
    assert len(await stored(connection)) == 4
    assert await connection.fetch("select * from queen.check_consistency()") == []


async def test_traces_follow(sink, connection):
    trace = uuid4()
    write = sink(traceIdColumn="trace")
    await write.commit(await write.stage(row(1, trace=str(trace)), row(2)))
    rows = await connection.fetch('select trace_id from queen.messages order by "offset"')
    assert [each["trace_id"] for each in rows] == [trace, None]
    assert await connection.fetchval("select count(*) from queen.message_traces") == 1


async def test_consumers_get_what_was_written(sink, engine):
    write = sink()
    popped = asyncio.create_task(engine.pop(PopRequest(queue="totals"), wait_seconds=30))
    await write.commit(await write.stage(row(7)))
    assert [bytes(message.payload) for message in (await popped).messages] == [b"7"]


async def test_an_encrypted_queue_gets_encrypted_rows(sink, engine, connection, read, monkeypatch):
    await engine.admin.configure_queue("totals", encryption_enabled=True)
    with pytest.raises(QueenError, match="no key"):
        await sink().stage(row(1))
    monkeypatch.setenv("QUEEN_ENCRYPTION_KEYS", "k:" + "A" * 43 + "=")
    write = sink()
    await write.commit(await write.stage(row({"pin": 1})))
    assert await connection.fetchval("select bool_and(encrypted) from queen.segments")
    assert [each["payload"] for each in await read("totals")] == ['{"pin": 1}']


async def test_a_full_queue_takes_all_or_nothing(sink, engine, connection):
    await engine.admin.configure_queue("totals", max_queue_size=2)
    write = sink()
    with pytest.raises(QueueFull):
        await write.commit(await write.stage(row(1), row(2), row(3)))
    assert await stored(connection) == []


async def test_many_rows_become_segments_of_bounded_size(sink, connection):
    write = sink()
    await write.commit(await write.stage(*(row(number) for number in range(2500))))
    counts = await connection.fetch("select message_count from queen.segments order by first_offset")
    assert [each["message_count"] for each in counts] == [1000, 1000, 500]
    assert [value for _, _, value in await stored(connection)] == list(range(2500))


@pytest.mark.parametrize(
    ("bad", "options", "message"),
    [
        ({"payload": None}, {}, "row 1 of this task has no payload"),
        ({"payload": "{1"}, {}, "row 1 of this task is not JSON"),
        ({"payload": "1,2"}, {}, "row 1 of this task is not JSON"),
        ({"payload": '"' + "x" * Settings().payload_bytes_max + '"'}, {}, "more than"),
        ({"payload": "1" * 5000}, {}, "message 1 has a number of more than 330 digits"),
        ({"payload": "[" * 300 + "]" * 300}, {}, "message 1 nests more than 200 arrays and objects"),
        ({"customer": None}, {}, "a row has no partition"),
        ({"customer": "x" * 300}, {}, "partition name"),
        ({"id": ""}, {"transactionIdColumn": "id"}, "transaction id in row"),
        ({"trace": "none"}, {"traceIdColumn": "trace"}, "not a UUID"),
    ],
)
async def test_a_bad_row_stops_the_write_and_leaves_nothing(sink, connection, bad, options, message):
    with pytest.raises(QueenError, match=message):
        await sink(**options).stage(row(1, id="a"), {**row(2, id="b"), **bad})
    assert await staged_segments(connection) == 0


@pytest.mark.parametrize(
    ("schema", "options", "kind", "message"),
    [
        ("customer string, value string", {}, InvalidPayload, 'no column "payload"'),
        ("customer string, payload struct<a: int>", {}, InvalidPayload, "the column payload is struct<a:int>"),
        ("custome string, payload string", {}, InvalidArgument, 'did you mean "custome"'),
        ("customer string, payload string", {"queue": "x" * 300}, QueenError, "queue name"),
        ("customer string, payload string", {"partitonColumn": "a"}, InvalidArgument, 'did you mean "partitionColumn"'),
    ],
)
def test_a_table_that_cannot_be_written_is_refused_before_it_runs(sink, schema, options, kind, message):
    with pytest.raises(kind, match=message):
        sink(schema=schema, **options)


async def test_a_dataframe_is_written_with_spark(spark, database, connection):
    frame = spark.range(20, numPartitions=2).selectExpr(
        "'c' || id % 3 as customer", "to_json(struct(id)) as payload"
    )  # fmt: skip
    for _ in range(2):
        frame.write.format("queen").options(url=database, **OPTIONS, writeId="once").mode("append").save()
    found = await stored(connection)
    assert sorted(value["id"] for _, _, value in found) == list(range(20))
    with pytest.raises(PySparkException, match="never overwritten"):
        frame.write.format("queen").options(url=database, **OPTIONS).mode("overwrite").save()


async def test_a_task_that_fails_fails_the_write_with_its_reason(spark, database, connection):
    frame = spark.range(4, numPartitions=1).selectExpr("if(id = 3, null, '1') as payload")
    with pytest.raises(PySparkException, match="has no payload"):
        frame.write.format("queen").options(url=database, queue="totals").mode("append").save()
    assert await stored(connection) == []
    assert await staged_segments(connection) == 0


async def test_from_queue_to_queue_with_spark(spark, database, connection, push, tmp_path):
    for number in range(3):
        await push("orders", f"p{number}", *range(number * 10, number * 10 + 4))
    source = {"url": database, "queue": "orders", "group": "copy", "maxOffsetsPerTrigger": "5"}

    def run():
        query = (
            spark.readStream.format("queen").options(**source).load()
            .writeStream.format("queen").options(url=database, queue="totals", partitionColumn="partition")
            .option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()
        return query

    query = run()
    assert len(query.recentProgress) >= 3
    assert query.lastProgress.sources[0].endOffset is not None
    await push("orders", "p0", 99)
    run()
    found = await stored(connection)
    assert [(partition, value) for partition, _, value in found] == [
        *(("p0", value) for value in (0, 1, 2, 3, 99)),
        *((f"p{number}", number * 10 + place) for number in (1, 2) for place in range(4)),
    ]


async def test_a_batch_is_written_when_the_synchronous_standby_has_it(spark, replication):
    primary = replication.primary
    await primary.execute("create database queen")
    connection = await asyncpg.connect(primary.dsn("queen"))
    await migrate(connection)
    await connection.close()
    standby = await replication.standby(synchronous=True)
    sink = Sink(primary.dsn("queen"))
    staged = await sink.stage({"payload": "1"})
    await asyncio.to_thread(leave)
    waits = "select count(*) from pg_stat_activity where wait_event = 'SyncRep' and query like '%{}%'"
    with standby.stopped():
        commit = asyncio.create_task(sink.commit(staged))
        await primary.until(waits.format("commit_write"), 1)
        await primary.execute("select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'")
        await primary.until(waits.format("pg_logical_emit_message"), 1)
        assert not commit.done()
    async with asyncio.timeout(60):
        await commit
    await primary.stop("kill")
    await standby.promote()
    assert await standby.value("select count(*) from queen.messages", "queen") == 1
