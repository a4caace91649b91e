"""The archive: all messages to Parquet on the local disk, with their manifest."""

import asyncio
import tempfile
import time
from collections.abc import Callable

import asyncpg
from pyspark.sql import SparkSession

from bench.harness import Bench, Line, median
from queenmq.spark.pipelines.archive import archive, stop_archive
from queenmq.spark.pipelines.job import Job


async def archiving(bench: Bench, spark: SparkSession, dsn: str, read: Callable[[], None]) -> None:
    """How fast it is, against a full read in turn, and how much room the files take."""
    shares, rates = [], []
    for _ in range(1 if bench.quick else 4):
        start = time.perf_counter()
        read()
        reading = time.perf_counter() - start
        rows, seconds, size = await asyncio.to_thread(_archived, spark, dsn)  # a job has an event loop of its own
        shares.append(reading / seconds)
        rates.append(rows / seconds)
    connection = await asyncpg.connect(dsn)
    try:
        stored = await connection.fetchval("select pg_total_relation_size('queen.segments')")
    finally:
        await connection.close()
    share, room = median(shares[1:] or shares), size / stored  # workers are slow at first
    found = f"{median(rates[1:] or rates):,.0f} messages/s"
    bench.report(Line("Spark: archive, against the full read", "70 %", f"{share:.0%}", share >= 0.7, found))
    bench.report(Line("Spark: bytes of the archive, against PostgreSQL", "40 %", f"{room:.0%}", room <= 0.4))


def _archived(spark: SparkSession, dsn: str) -> tuple[int, float, int]:
    """Messages, seconds, and bytes of the files."""
    with tempfile.TemporaryDirectory(prefix="queen-bench-") as directory, Job("archive", dsn=dsn, spark=spark) as job:
        start = time.perf_counter()
        report = archive(job, queues=["orders"], location=directory)
        seconds = time.perf_counter() - start
        stop_archive(job, queues=["orders"])  # the next archive begins from nothing
    [table] = report.tables["archived"].records()
    return report.rows, seconds, table["bytes"]
