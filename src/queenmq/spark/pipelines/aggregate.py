"""aggregate: windows over a queue's messages, pushed to another queue, exactly once.

A message is late when it was pushed later than the watermark after its event: late ones are dropped, or go to a queue
of their own. So are those whose event lies further ahead than clocks differ: one of them would end all windows before
it. That depends on the message alone, so a run that is repeated decides the same.
"""

from collections.abc import Sequence
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from queenmq.errors import InvalidArgument
from queenmq.spark.pipelines.aggregation import DROP, Aggregation, load_aggregation
from queenmq.spark.pipelines.job import Job
from queenmq.spark.pipelines.report import Report, Table
from queenmq.spark.pipelines.store import address

POLL_SECONDS = 1
TIME = "queen_event_time"

Options = dict[str, str]


def aggregate(job: Job, *, file: str, checkpoint: str, follow: bool = False, accept_loss: bool = False) -> Report:
    """Aggregate what is there, and end; with `follow`, go on until interrupted.

    With `accept_loss`, go on although PostgreSQL has lost messages that were read, or windows that were pushed.
    """
    loss = {"failOnDataLoss": str(not accept_loss).lower()}
    asked = load_aggregation(file)
    job.queue_id(asked.source)
    try:
        queries = [(asked.target, windows(asked, _stream(job, asked, asked.reader, loss)))]
        if asked.late != DROP:
            queries.append((asked.late, _late(asked, _stream(job, asked, f"{asked.reader}:late", loss))))
    except (AnalysisException, ParseException) as error:
        raise InvalidArgument(f"{file} does not fit Spark: {str(error).splitlines()[0]}") from None
    facts: dict[str, Any] = {"from": asked.source, "to": asked.target, "dry_run": job.dry_run}
    if job.dry_run:
        return Report("aggregate", 0, facts)
    started: list[StreamingQuery] = []
    try:
        for number, (queue, rows) in enumerate(queries):
            started.append(_start(job, rows, queue, f"{address(checkpoint)}/{number}", loss, follow=follow))
        read = _watched(job, started, asked)
    finally:
        for query in started:
            query.stop()
    lines = zip((queue for queue, _ in queries), read, strict=True)
    return Report("aggregate", read[0], facts, {"queries": Table.of(("queue", "messages read"), lines)})


def windows(asked: Aggregation, rows: DataFrame) -> DataFrame:
    """The aggregates as messages: a column `payload`, and one for the partition where it is asked for."""
    window = (
        sf.session_window(TIME, asked.window.gap)
        if asked.window.gap is not None
        else sf.window(TIME, asked.window.size or "", asked.window.slide)
    )
    # Spark counts from the latest event, which may be ahead: what is not late by our rule is not by Spark's.
    timely = rows.where(~_is_late(asked)).withWatermark(TIME, f"{asked.watermark} {asked.ahead}")
    values = [sf.expr(text).alias(name) for name, text in asked.values.items()]
    found = timely.groupBy(window.alias("window"), *asked.by).agg(*values)
    columns = [sf.col("window.start").alias("window_start"), sf.col("window.end").alias("window_end")]
    payload = sf.to_json(sf.struct(*columns, *asked.by, *asked.values)).alias("payload")
    partition = [] if asked.partition_by is None else [sf.col(asked.partition_by).cast("string").alias("partition")]
    return found.select(payload, *partition)


def _stream(job: Job, asked: Aggregation, group: str, loss: Options) -> DataFrame:
    """The messages with the fields of their payload and their event time."""
    options = {"url": job.dsn, "queue": asked.source, "group": group, "columns": "partition,created_at,payload"} | loss
    rows = job.spark.readStream.format("queen").options(**options).load()
    fields = sf.from_json("payload", asked.payload)
    read = rows.select(
        "partition", "created_at", sf.col("payload").alias("queen_payload"), fields.alias("queen_fields")
    )
    wide = read.select("partition", "created_at", "queen_payload", "queen_fields.*")
    return wide.withColumn(TIME, sf.col(asked.event_time or "created_at").cast("timestamp"))


def _is_late(asked: Aggregation) -> Column:
    """Without a time, or with one that cannot be yet, a message belongs to no window, and is late too."""
    earliest = sf.col("created_at") - sf.expr(f"interval {asked.watermark}")
    latest = sf.col("created_at") + sf.expr(f"interval {asked.ahead}")
    return sf.col(TIME).isNull() | ~sf.col(TIME).between(earliest, latest)


def _late(asked: Aggregation, rows: DataFrame) -> DataFrame:
    return rows.where(_is_late(asked)).select(sf.col("queen_payload").alias("payload"), "partition")


def _start(job: Job, rows: DataFrame, queue: str, checkpoint: str, loss: Options, *, follow: bool) -> StreamingQuery:
    options = {"url": job.dsn, "queue": queue, "checkpointLocation": checkpoint} | loss
    writer = rows.writeStream.format("queen").options(**options)
    if "partition" in rows.columns:
        writer = writer.option("partitionColumn", "partition")
    return (writer if follow else writer.trigger(availableNow=True)).start()


def _watched(job: Job, queries: Sequence[StreamingQuery], asked: Aggregation) -> list[int]:
    """Wait for all queries to end, or for one to fail, and tell how much each has read."""
    read: list[dict[int, int]] = [{} for _ in queries]
    ended = [False]
    while not all(ended):
        ended = [bool(query.awaitTermination(POLL_SECONDS)) for query in queries]  # raises when it has failed
        for query, batches in zip(queries, read, strict=True):
            batches |= {each["batchId"]: each["numInputRows"] for each in query.recentProgress}
        job.tell(f"aggregate {asked.source}", sum(read[0].values()))
    return [sum(batches.values()) for batches in read]
