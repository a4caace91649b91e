"""Spark: reading and writing a queue, against Spark's JDBC source on one row per message, side by side."""

import io
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
from pyspark.sql import DataFrame, SparkSession

from bench.harness import Bench, Line, median, payloads
from bench.spark.archive import archiving
from bench.spark.jdbc import Jdbc, find_jar
from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.engine.postgres.embedded import PORT, SUPERUSER, EmbeddedPostgres
from queenmq.model import Outgoing
from queenmq.spark import session

PARTITIONS = 1_000
# How many messages are pushed at once: about so many thousandths of it are in a segment.
BUSY = 100_000  # what the lines are judged by
SAMPLES = 100_003  # prime: a partition gets all of them, and an archive has no repetition to live on
SPARSE = 5_000  # close to the worst case for a reader of segments
ADDRESS = f"127.77.{os.getpid() % 250}.1"  # nobody else's


async def run(bench: Bench) -> None:
    """On a server of its own that also listens on TCP: JDBC knows no other way, so both sides go that way."""
    messages = 50_000 if bench.quick else 2_000_000
    jar = find_jar()
    if jar is None:
        bench.notes.append("Spark against JDBC was not measured: there is no JDBC driver of PostgreSQL here.")
    with tempfile.TemporaryDirectory(prefix="queen-bench-") as directory:
        os.chmod(directory, 0o755)  # noqa: PTH101, S103 (PostgreSQL runs as another account)
        with EmbeddedPostgres(Path(directory) / "data", settings={"listen_addresses": ADDRESS}) as postgres:
            own = Own(postgres, seconds=bench.seconds, quick=bench.quick, lines=bench.lines, notes=bench.notes)
            spark = session("local[2]", name="bench", config={"spark.jars": str(jar)} if jar else {})
            spark.sparkContext.setLogLevel("OFF")
            try:
                await _cases(own, spark, messages, with_jdbc=jar is not None)
            finally:
                spark.stop()


class Own(Bench):
    """A bench whose databases are reached by TCP."""

    async def database(self) -> str:
        name = urlsplit(await super().database()).path
        return f"postgresql://{SUPERUSER}@{ADDRESS}:{PORT}{name}"


async def _cases(bench: Bench, spark: SparkSession, messages: int, *, with_jdbc: bool) -> None:
    dsn = await bench.database()
    await _fill(dsn, messages, PARTITIONS, BUSY)
    jdbc = Jdbc(spark, dsn, messages) if with_jdbc else None
    if jdbc is not None:
        await jdbc.copy_rows()
    await _reads(bench, spark, dsn, messages, jdbc)
    await archiving(bench, spark, dsn, lambda: noop(queue(spark, dsn)))
    _catch_up(bench, spark, dsn, messages)
    await _writes(bench, spark, dsn, messages, jdbc)
    await bench.drop(dsn)
    await _small_batches(bench, spark)
    dsn = await bench.database()
    await _fill(dsn, messages, PARTITIONS, SPARSE)
    if jdbc is not None:
        jdbc = Jdbc(spark, dsn, messages)
        await jdbc.copy_rows()
    await _reads(bench, spark, dsn, messages, jdbc, judged=False)


async def _fill(dsn: str, messages: int, partitions: int, push: int) -> None:
    samples = payloads(SAMPLES)
    async with Engine(dsn, Settings(upkeep=False)) as engine:
        for start in range(0, messages, push):
            await engine.push(
                [
                    Outgoing("orders", b'{"id": %d, %b' % (n, samples[n % SAMPLES][1:]), f"p{n % partitions}")
                    for n in range(start, min(start + push, messages))
                ]
            )
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("vacuum analyze")  # as upkeep does on any server that has been up for a while
    finally:
        await connection.close()


def queue(spark: SparkSession, dsn: str, **options: str) -> DataFrame:
    return spark.read.format("queen").options(url=dsn, queue="orders", **options).load()


def timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def aggregated(frame: DataFrame) -> None:
    fields = frame.selectExpr("from_json(payload, 'customer string, total double') as o")
    noop(fields.groupBy("o.customer").sum("o.total"))


async def _reads(
    bench: Bench, spark: SparkSession, dsn: str, messages: int, jdbc: "Jdbc | None", *, judged: bool = True
) -> None:
    """All columns on both sides."""
    rounds = 1 if bench.quick else 3
    ours, cpu = [], []
    theirs, their_cpu = [], []
    copies, parses = [], []
    for frame in [queue(spark, dsn), *([jdbc.read()] if jdbc else [])]:  # the JVM is slow at first
        noop(frame)
    for _ in range(rounds):
        before = _cpu_seconds(bench)
        ours.append(timed(lambda: noop(queue(spark, dsn))))
        cpu.append(_cpu_seconds(bench) - before)
        if jdbc is not None:
            before = _cpu_seconds(bench)
            theirs.append(timed(lambda: noop(jdbc.read())))
            their_cpu.append(_cpu_seconds(bench) - before)
            their_parse = timed(lambda: aggregated(jdbc.read("payload")))
            parses.append(their_parse / timed(lambda: aggregated(queue(spark, dsn, columns="payload"))))
        copies.append(await _copy(dsn))
    rate = messages / median(ours)
    kind = "" if judged else ", small segments"

    def report(case: str, asked: str, reached: str, detail: str = "", *, good: bool) -> None:
        bench.report(Line(f"Spark: {case}{kind}", asked, reached, good if judged else None, detail))

    if jdbc is not None:
        ratio = median(theirs) / median(ours)
        report("full read, against JDBC", "2x", f"{ratio:.2f}x", f"{rate:,.0f} messages/s", good=ratio >= 2)
        share = median(cpu) / median(their_cpu)
        report("CPU of PostgreSQL, against JDBC", "0.2x", f"{share:.2f}x", good=share <= 0.2)
        parse = median(parses)
        report("JSON parse and groupBy, against JDBC", "1.15x", f"{parse:.2f}x", good=parse >= 1.15)
    share = median(copies) / median(ours)
    report("full read, against COPY of the segments", "60 %", f"{share:.0%}", good=share >= 0.6)
    count = timed(lambda: queue(spark, dsn, columns="offset").count())
    found = f"{messages / count:,.0f} messages/s"
    bench.report(Line(f"Spark: count(*) of one column{kind}", "", found, None, "payloads stay in PostgreSQL"))


async def _copy(dsn: str) -> float:
    """Seconds of one process that copies all segments in binary."""
    connection = await asyncpg.connect(dsn)
    try:
        start = time.perf_counter()
        await connection.copy_from_table("segments", schema_name="queen", output=io.BytesIO(), format="binary")
        return time.perf_counter() - start
    finally:
        await connection.close()


def _cpu_seconds(bench: Bench) -> float:
    """Of the server and all of its processes, ended or not: workers keep their sessions."""
    pid = (bench.server.pgdata / "postmaster.pid").read_text().split()[0]
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    ticks = sum(sum(_ticks(process)[: 4 if process == pid else 2]) for process in [pid, *children])
    return ticks / os.sysconf("SC_CLK_TCK")


def _ticks(pid: str) -> list[int]:
    """What a process has used: itself, and those of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except FileNotFoundError:  # it has just ended, and counts as its parent's
        return []
    return list(map(int, fields[11:15]))


def _catch_up(bench: Bench, spark: SparkSession, dsn: str, messages: int) -> None:
    most = "500000" if not bench.quick else "20000"

    def stream() -> None:
        with tempfile.TemporaryDirectory() as checkpoint:
            live = spark.readStream.format("queen").options(url=dsn, queue="orders", maxOffsetsPerTrigger=most).load()
            sink = live.writeStream.format("noop").option("checkpointLocation", checkpoint)
            sink.trigger(availableNow=True).start().awaitTermination()

    shares = [timed(lambda: noop(queue(spark, dsn))) / timed(stream) for _ in range(1 if bench.quick else 4)]
    share = median(shares[1:] or shares)  # the JVM is slow at first
    bench.report(
        Line(f"Spark: catch-up of {messages:,} by stream, against batch", "70 %", f"{share:.0%}", share >= 0.7)
    )


async def _small_batches(bench: Bench, spark: SparkSession) -> None:
    """A micro-batch of one message, with few and with many partitions."""
    taken = {}
    many = 5_000 if bench.quick else 100_000
    for partitions in (PARTITIONS, many):
        dsn = await bench.database()
        await _fill(dsn, partitions, partitions, SPARSE)
        with tempfile.TemporaryDirectory() as checkpoint:
            options = {"url": dsn, "queue": "orders", "group": "bench", "startingOffsets": "latest"}
            live = spark.readStream.format("queen").options(**options).load()
            query = live.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
            query.processAllAvailable()
            for _ in range(3 if bench.quick else 15):
                await _fill_one(dsn)
                query.processAllAvailable()
            steps = [each for each in query.recentProgress if each["numInputRows"]]
            taken[partitions] = median([each["durationMs"]["triggerExecution"] for each in steps])
            size = len(json.dumps(steps[-1]["sources"][0]["endOffset"]))
            query.stop()
        await bench.drop(dsn)
    ratio = taken[many] / taken[PARTITIONS]
    detail = f"{taken[PARTITIONS]:.0f} ms; offset of {size} bytes"
    bench.report(
        Line(
            f"Spark: a small micro-batch, {many:,} partitions against 1,000",
            "1.3x",
            f"{ratio:.2f}x",
            ratio <= 1.3,
            detail,
        )
    )


async def _fill_one(dsn: str) -> None:
    async with Engine(dsn, Settings(upkeep=False)) as engine:
        await engine.push([Outgoing("orders", b"1", "p1")])


async def _writes(bench: Bench, spark: SparkSession, dsn: str, messages: int, jdbc: "Jdbc | None") -> None:
    """Half of the messages: the other side takes long."""
    rows = spark.range(messages // 2, numPartitions=2).selectExpr(
        f"'p' || id % {PARTITIONS} as partition", "to_json(struct(id, repeat('x', 180) as note)) as payload"
    )
    sink = rows.write.format("queen").options(url=dsn, queue="written", partitionColumn="partition").mode("append")
    ours, theirs = [], []
    for _ in range(1 if bench.quick else 4):
        ours.append(timed(sink.save))
        if jdbc is not None:
            await jdbc.empty()
            theirs.append(timed(lambda: jdbc.write(rows)))
    ours, theirs = ours[1:] or ours, theirs[1:] or theirs  # the JVM is slow at first
    rate = f"{messages / 2 / median(ours):,.0f} messages/s"
    if jdbc is None:
        bench.report(Line("Spark: write", "", rate, None))
        return
    ratio = median(theirs) / median(ours)
    bench.report(Line("Spark: write exactly once, against JDBC", "2x", f"{ratio:.2f}x", ratio >= 2, rate))
