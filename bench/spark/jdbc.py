"""The other side: Spark's own JDBC source and sink on a table with one row per message."""

import os
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import asyncpg
from pyspark.sql import DataFrame, SparkSession

PLACES = (Path("/usr/share/java"), Path.home() / ".m2" / "repository" / "org" / "postgresql")
# The same columns as the source has, with the types that JDBC is quickest with.
COPY = """
create table public.rows as
select row_number() over () as n, queue, partition, partition_id, "offset", id::text as message_id,
       transaction_id, trace_id::text as trace_id, created_at, producer,
       headers::text as headers, payload::text as payload
  from queen.messages where queue = 'orders'
"""
WRITTEN = "create table public.written (partition text, payload text, id text unique)"


def find_jar() -> Path | None:
    """PostgreSQL's JDBC driver: BENCH_JDBC_JAR, Debian's libpostgresql-jdbc-java, or one that Maven has fetched."""
    if given := os.environ.get("BENCH_JDBC_JAR"):
        return Path(given)
    found = [jar for place in PLACES if place.is_dir() for jar in place.rglob("postgresql-4*.jar")]
    return max(found, default=None)


class Jdbc:
    """A row-per-message copy of the queue, read and written as well as JDBC can."""

    def __init__(self, spark: SparkSession, dsn: str, messages: int) -> None:
        self._spark = spark
        self._dsn = dsn
        self._messages = messages
        parts = urlsplit(dsn)
        query = dict(parse_qsl(parts.query))
        host, port = query.get("host") or parts.hostname, query.get("port") or parts.port or 5432
        self._options = {
            "url": f"jdbc:postgresql://{host}:{port}{parts.path}?reWriteBatchedInserts=true",
            "driver": "org.postgresql.Driver",
            "user": parts.username or "",
            "password": parts.password or "",
        }

    async def copy_rows(self) -> None:
        connection = await asyncpg.connect(self._dsn)
        try:
            await connection.execute(COPY)
            await connection.execute("create index on public.rows (n)")
            await connection.execute(WRITTEN)
            await connection.execute("analyze public.rows")
        finally:
            await connection.close()

    async def empty(self) -> None:
        """Make what is written to as if nothing had been."""
        connection = await asyncpg.connect(self._dsn)
        try:
            await connection.execute("truncate public.written")
        finally:
            await connection.close()

    def read(self, *columns: str) -> DataFrame:
        rows = (
            self._spark.read.format("jdbc").options(**self._options, dbtable="public.rows", fetchsize="10000")
            .options(partitionColumn="n", lowerBound="1", upperBound=str(self._messages), numPartitions="16").load()
        )  # fmt: skip
        return rows.select(*columns) if columns else rows.drop("n")

    def write(self, rows: DataFrame) -> None:
        keyed = rows.selectExpr("partition", "payload", "uuid() as id")
        keyed.write.format("jdbc").options(**self._options, dbtable="public.written", batchsize="10000").mode(
            "append"
        ).save()
