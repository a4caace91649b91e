"""Logical replication of the schema: a publication neither stops the queue nor misses a change."""

import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest

from queenmq.engine.postgres.embedded import EmbeddedPostgres
from queenmq.engine.postgres.embedded.binaries import wheel_bin_dir
from queenmq.engine.postgres.migrate import migrate
from tests.fixtures.clusters import FAST, debian_bin_dirs, server_dir
from tests.queue_in_sql import Clock, Queue
from tests.waits import until

TABLES = """
select c.relname::text from pg_class c
 where c.relnamespace = 'queen'::regnamespace and c.relkind = 'r' and c.relpersistence = 'p' order by 1
"""
LOGICAL = FAST | {"wal_level": "logical"}


@dataclass(frozen=True)
class Server:
    """A server, and its own pg_dump: the dump of a newer one has settings that an older server does not know."""

    postgres: EmbeddedPostgres
    pg_dump: Path

    def dsn(self, database: str = "postgres") -> str:
        return self.postgres.dsn(database)


@pytest.fixture(params=["pg18", "debian"])
def logical_postgres(request):
    """A server that can replicate changes of rows."""
    bin_dir = None
    if request.param == "debian":
        majors = [major for major in debian_bin_dirs() if major >= 15]  # publications for a schema
        if not majors:
            pytest.skip("Debian's PostgreSQL is not installed")
        bin_dir = debian_bin_dirs()[max(majors)]
    with server_dir() as directory, EmbeddedPostgres(directory / "data", bin_dir=bin_dir, settings=LOGICAL) as postgres:
        yield Server(postgres, (bin_dir or wheel_bin_dir()) / "pg_dump")


def copy_schema(pg_dump, source, target):
    """Create the tables of one database in another, without rows."""
    options = ["--schema-only", "--schema=queen", "--no-owner", "--no-publications"]
    dumped = subprocess.run([pg_dump, *options, source], check=True, capture_output=True, text=True)
    subprocess.run(
        [wheel_bin_dir() / "psql", "--quiet", "--set=ON_ERROR_STOP=1", target],
        input=dumped.stdout, check=True, capture_output=True, text=True,
    )  # fmt: skip


async def contents(connection):
    """The rows of every table, as text."""
    tables = [row[0] for row in await connection.fetch(TABLES)]
    return {
        table: await connection.fetchval(
            f"select coalesce(array_agg(t::text order by t::text), '{{}}') from queen.{table} as t"
        )
        for table in tables
    }


async def until_same(source, target):
    async def same():
        copied = await contents(target)
        return copied if copied == await contents(source) else None

    return await until("the subscriber has the rows of the publisher", same)


async def test_a_subscriber_has_every_insert_update_and_delete(logical_postgres):
    admin = await asyncpg.connect(logical_postgres.dsn())
    for name in ("source", "target"):
        await admin.execute(f"create database {name}")
    source = await asyncpg.connect(logical_postgres.dsn(), database="source")
    target = await asyncpg.connect(logical_postgres.dsn(), database="target")
    try:
        await migrate(source)
        queue = Queue(source, Clock())
        await queue.push_many(("orders", "ann", [1, 2]), ("orders", "bob", [3]))
        copy_schema(logical_postgres.pg_dump, logical_postgres.dsn("source"), logical_postgres.dsn("target"))
        await source.execute("create publication everything for tables in schema queen")
        slot = f"slot_{uuid.uuid4().hex}"
        await source.execute(f"select pg_create_logical_replication_slot('{slot}', 'pgoutput')")
        await target.execute(
            f"create subscription copy connection '{logical_postgres.dsn('source')}' publication everything "
            f"with (create_slot = false, slot_name = '{slot}')"
        )
        await until_same(source, target)
        await use(queue)
        copied = await until_same(source, target)
        assert len(copied["partition_consumers"]) == 4
        await target.execute("alter subscription copy disable")
        await target.execute("alter subscription copy set (slot_name = none)")
        await target.execute("drop subscription copy")
    finally:
        for connection in (source, target, admin):
            await connection.close()


async def use(queue):
    """Every kind of change of the hot tables."""
    [first] = await queue.pop("workers", "orders", "ann")
    [second] = await queue.pop("workers", "orders", "bob")
    await queue.ack(first)
    await queue.fail(second)
    await queue.pop("others", "orders", auto_ack=True)
    await queue.push_in_transaction("orders", "cid", 4)
    await queue.sequence()
    await queue.seek("others", "orders", to="beginning")
    await queue.call("delete_partition", "orders", "bob")
    await queue.call("delete_group", "workers", "orders")
    await queue.pop("auditors", "orders", partitions=9)
    await queue.push("orders", "ann", 5)


async def test_a_table_without_an_identity_would_refuse_every_push(logical_postgres):
    """What the replica identity is for; PostgreSQL refuses updates of published tables that have none."""
    connection = await asyncpg.connect(logical_postgres.dsn())
    try:
        await migrate(connection)
        rows = await connection.fetch(
            "select c.relname::text from pg_class c "
            "where c.relnamespace = 'queen'::regnamespace and c.relkind = 'r' and c.relreplident <> 'f' "
            "and not exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary)"
        )
        assert [row[0] for row in rows] == []
        queue = Queue(connection, Clock())
        await queue.push("orders", "ann", 1)
        await connection.execute("create publication everything for tables in schema queen")
        await queue.push("orders", "ann", 2)
        await connection.execute("alter table queen.partition_lookup replica identity default")
        with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError):
            await queue.push("orders", "ann", 3)
    finally:
        await connection.close()
