"""Steps that PostgreSQL has lost stay in the archive until somebody says so, and no offset is there twice."""

import asyncio
import json
from collections import Counter
from pathlib import Path

import asyncpg
import pyarrow.parquet as pq
import pytest

from queenmq.errors import PositionLost
from queenmq.spark.pipelines.archive import archive
from queenmq.spark.pipelines.history import history, messages
from queenmq.spark.pipelines.job import Job
from queenmq.spark.pipelines.lost import StepsLost
from queenmq.spark.pipelines.manifest import Manifest
from queenmq.spark.pipelines.store import Store
from tests.spark.histories import LOSSES, Going, push


class Archive:
    """The archive of a queue whose database loses a part of its history."""

    def __init__(self, spark, dsn, place):
        self._spark, self._dsn, self.place = spark, dsn, place

    async def run(self, function=archive, **options):
        if function is archive:
            options = {"queues": ["orders"], "location": self.place} | options
        return await asyncio.to_thread(self._in_job, lambda job: function(job, **options))

    async def history(self):
        """All messages: partition, offset and value."""
        rows = await asyncio.to_thread(self._in_job, lambda job: messages(job, "orders", self.place).collect())
        places = Counter((row.partition, row.offset) for row in rows)
        assert set(places.values()) <= {1}, "no offset twice"
        return sorted((row.offset, json.loads(row.payload)) for row in rows)

    def _in_job(self, work):
        with Job("test", dsn=self._dsn, spark=self._spark) as job:
            return work(job)

    def contents(self):
        files = (path for path in Path(self.place).rglob("*") if path.is_file())
        return {str(path.relative_to(self.place)): path.read_bytes() for path in files}

    def values(self, pattern):
        """What is in the Parquet files that a pattern finds."""
        found = [pq.ParquetFile(path).read() for path in Path(self.place).glob(pattern)]
        return sorted(json.loads(value) for table in found for value in table.column("payload").to_pylist())

    def steps(self):
        return [(step.from_tick, step.to_tick) for step in Manifest(Store(self.place), "orders").required()]


async def stored(dsn):
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch('select "offset", payload::text as payload from queen.messages')
        return sorted((row["offset"], json.loads(row["payload"])) for row in rows)
    finally:
        await connection.close()


@pytest.fixture
def place(tmp_path):
    return str(tmp_path / "archive")


@pytest.mark.parametrize("kind", LOSSES)
async def test_lost_steps_are_named_and_set_aside_only_on_request(spark, replication, place, kind):
    going = await Going(replication, kind).prepare()
    kept = Archive(spark, going.dsn, place)
    await push(going.dsn, 100, 101)
    await kept.run()
    await push(going.dsn, 102)
    await going.keep()
    for value in (200, 201):  # a step each
        await push(going.dsn, value)
        await kept.run()
    [first, second, third] = kept.steps()
    await going.lose()
    await push(going.dsn, *range(300, 310))
    before = kept.contents()

    sentence = rf"2 steps .* {second[0]:012}-{second[1]:012}, {third[0]:012}-{third[1]:012} \(ticks .* 3 messages\)"
    with pytest.raises(StepsLost, match=sentence):
        await kept.run()
    with pytest.raises(StepsLost, match=sentence):
        await kept.run(history, queue="orders", archive=place)
    assert kept.contents() == before

    report = await kept.run(accept_loss=True)
    assert [row["step"][:12] for row in report.tables["lost and set aside"].records()] == [
        f"{second[0]:012}",
        f"{third[0]:012}",
    ]
    assert report.rows == 11
    assert kept.steps()[0] == first
    assert await kept.history() == await stored(going.dsn)
    assert kept.values("queue=orders/**/*.parquet") == [100, 101, 102, *range(300, 310)]
    assert kept.values("_lost/*/queue=orders/**/*.parquet") == [102, 200, 201]
    assert sum(name.startswith("_queen/orders/lost/") for name in kept.contents()) == 2

    await push(going.dsn, 400)
    assert (await kept.run()).rows == 1
    assert await kept.history() == await stored(going.dsn)


async def test_an_archive_goes_on_when_nothing_was_lost(spark, replication, place):
    going = await Going(replication, "synchronous").prepare()
    kept = Archive(spark, going.dsn, place)
    await push(going.dsn, 100, 101)
    await kept.run()
    await going.lose()
    await push(going.dsn, 102)
    assert (await kept.run()).rows == 1
    assert await kept.history() == await stored(going.dsn)


async def lose(connection, tick):
    """What a database does that goes back to an earlier state, as far as ticks are concerned."""
    await connection.execute("delete from queen.ticks where id > $1", tick)
    await connection.execute("delete from queen.tick_incarnations where first_tick > $1", tick)
    await connection.execute(f"alter table queen.ticks alter id restart with {tick + 1}")
    await connection.execute("truncate queen.incarnations")


async def test_setting_aside_goes_on_after_an_interruption(spark, push, perform, place, connection, monkeypatch):
    ends = []
    for value in range(3):
        await push("orders", "ann", value)
        await perform(archive, queues=["orders"], location=place)
        ends.append(await connection.fetchval("select tick from queen.archives"))
    await connection.execute("update queen.archives set tick = $1", ends[0])
    await lose(connection, ends[0])
    await push("orders", "ann", 3)
    moves = []

    def interrupted(store, path, to, move=Store.move):
        moves.append(path)
        move(store, path, to)
        raise OSError("the disk is gone")

    monkeypatch.setattr(Store, "move", interrupted)
    for _ in range(2):
        with pytest.raises(OSError, match="gone"):
            await perform(archive, queues=["orders"], location=place, accept_loss=True)
    monkeypatch.undo()
    assert len(set(moves)) == 1, "it is tried again, the last step first"
    await perform(archive, queues=["orders"], location=place, accept_loss=True)
    kept = Archive(None, "", place)
    assert kept.values("_lost/**/*.parquet") == [1, 2]
    assert kept.values("queue=orders/**/*.parquet") == [0, 1, 2, 3], "in this database the messages are still there"


async def test_an_interrupted_step_that_was_lost_leaves_no_files(spark, push, perform, place, connection):
    await push("orders", "ann", 0)
    await perform(archive, queues=["orders"], location=place)
    end = await connection.fetchval("select tick from queen.archives")
    await push("orders", "ann", 1)
    await perform(archive, queues=["orders"], location=place)
    store = Store(place)
    [manifest] = (name for name in store.names("_queen/orders") if name.startswith(f"{end:012}"))
    store.move(f"_queen/orders/{manifest}", "_queen/orders/next.json")  # as it is while the step is being written
    await connection.execute("update queen.archives set tick = $1", end)
    await lose(connection, end)
    for value in (2, 3):
        await push("orders", "ann", value)
        await connection.fetchval("select queen.take_tick()")
    await perform(archive, queues=["orders"], location=place)
    assert Archive(None, "", place).values("queue=orders/**/*.parquet") == [0, 1, 2, 3]


async def test_retention_is_not_told_of_a_tick_that_was_lost(spark, push, perform, place, connection, monkeypatch):
    await push("orders", "ann", 0)
    await perform(archive, queues=["orders"], location=place)
    end = await connection.fetchval("select tick from queen.archives")
    await push("orders", "ann", 1)
    told = []

    def commit(manifest, step, commit=Manifest.commit):
        commit(manifest, step)
        told.append(asyncio.run_coroutine_threadsafe(lose(connection, end), loop).result(30))

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(Manifest, "commit", commit)
    with pytest.raises(PositionLost):
        await perform(archive, queues=["orders"], location=place)
    assert told
    assert await connection.fetchval("select tick from queen.archives") == end
