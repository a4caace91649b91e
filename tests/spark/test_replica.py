"""A replica that is behind is waited for: nothing is missing, and nothing is called deleted that is not there yet."""

import asyncio

import asyncpg
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.engine.postgres.embedded import EmbeddedPostgres
from queenmq.engine.postgres.migrate import migrate
from queenmq.model import Outgoing
from queenmq.spark import QueenDataSource, replicas
from tests.fixtures.clusters import FAST, server_dir

ASKED = """
    select count(*) from pg_stat_activity
     where query like '%from queen.ticks where id%' and state = 'idle in transaction' and pid <> pg_backend_pid()
"""


@pytest.fixture
def replica(own_postgres):
    """A hot standby of the test's own server."""
    with server_dir() as directory:
        copied = directory / "data"
        copied.mkdir()
        own_postgres._account.give(copied)
        own_postgres._run("pg_basebackup", "-D", str(copied / "pgdata"), "-d", own_postgres.dsn(), "-R", "-c", "fast")
        for left in (copied / "pgdata").glob(".s.PGSQL.*"):  # the primary's
            left.unlink()
        with EmbeddedPostgres(copied, settings=FAST) as standby:
            yield standby


async def test_a_task_waits_until_the_replica_has_what_was_planned(spark, own_postgres, replica, monkeypatch):
    primary, standby = await asyncpg.connect(own_postgres.dsn()), await asyncpg.connect(replica.dsn())
    await migrate(primary)
    async with Engine(own_postgres.dsn(), Settings.load({}, upkeep="false")) as engine:
        await engine.push([Outgoing("orders", b"1", "ann")])
        places = {"url": own_postgres.dsn(), "readUrl": replica.dsn(), "failOnDataLoss": "false"}
        source = QueenDataSource(CaseInsensitiveDict({"queue": "orders", **places}))
        reader = source.streamReader(StructType.fromDDL("payload string"))

        def planned():
            start = reader.initialOffset()
            return reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))

        def read(tasks):
            return sorted(row["payload"] for task in tasks for batch in reader.read(task) for row in batch.to_pylist())

        assert await asyncio.to_thread(read, await asyncio.to_thread(planned)) == ["1"]
        await standby.execute("select pg_wal_replay_pause()")
        await engine.push([Outgoing("orders", b"2", "ann")])
        tasks = await asyncio.to_thread(planned)
        reading = asyncio.create_task(asyncio.to_thread(read, tasks))
        async with asyncio.timeout(60):
            while not await standby.fetchval(ASKED):
                assert not reading.done()
        await standby.execute("select pg_wal_replay_resume()")
        assert await reading == ["1", "2"]

        await standby.execute("select pg_wal_replay_pause()")
        await engine.push([Outgoing("orders", b"3", "ann")])
        monkeypatch.setattr(replicas, "REPLAY_SECONDS_MAX", 0.0)
        with pytest.raises(replicas.ReplicaBehind, match="has not replayed"):
            await asyncio.to_thread(read, await asyncio.to_thread(planned))
        await asyncio.to_thread(reader.stop)
    await primary.close()
    await standby.close()
