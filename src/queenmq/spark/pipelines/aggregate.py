"""aggregate: windows over a queue's messages, pushed to another queue, exactly once.

A message is late when it was pushed later than the watermark after its event: late ones are dropped, or go to a queue
of their own. So are those whose event lies further ahead than clocks differ: one of them would end all windows before
it. That depends on the message alone, so a run that is repeated decides the same.

A backfill is for history, which was pushed long after it happened: of messages that were pushed before the backfill's
first run began, only the event time counts. The checkpoint remembers that moment, so all its runs decide the same.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from queenmq.errors import InvalidArgument
from queenmq.spark.pipelines.aggregation import DROP, Aggregation, load_aggregation
from queenmq.spark.pipelines.job import Job
from queenmq.spark.pipelines.report import Report
from queenmq.spark.pipelines.store import Store, address

POLL_SECONDS = 1
TIME = "queen_event_time"
LATE = "queen_late"
BACKFILL = "backfill.json"  # in the checkpoint of a backfill: before which moment messages are history
NOW = """select to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""

Options = dict[str, str]


@dataclass
class Counts:
    """What the micro-batches of a run did, by their numbers: a batch that is told twice counts once."""

    read: dict[int, int] = field(default_factory=dict)
    late: dict[int, int] = field(default_factory=dict)
    pushed: dict[int, int] = field(default_factory=dict)

    def add(self, query: StreamingQuery) -> None:
        """What a query tells of its last batches."""
        for batch in query.recentProgress:
            self.read[batch["batchId"]] = batch["numInputRows"]
            for name, row in batch["observedMetrics"].items():
                getattr(self, name)[batch["batchId"]] = row[0]


def aggregate(
    job: Job, *, file: str, checkpoint: str, follow: bool = False, backfill: bool = False, accept_loss: bool = False
) -> Report:
    """Aggregate what is there, and end; with `follow`, go on until interrupted.

    With `backfill`, what was pushed before the checkpoint's first run is never late, however old its events are. With
    `accept_loss`, go on although PostgreSQL has lost messages that were read, or windows that were pushed.
    """
    loss = {"failOnDataLoss": str(not accept_loss).lower()}
    asked = load_aggregation(file)
    job.queue_id(asked.source)
    history = _history_until(job, asked, checkpoint, backfill=backfill)
    try:
        queries = [(asked.target, windows(asked, _stream(job, asked, asked.reader, loss, history)))]
        if asked.late != DROP:
            late = _late(_stream(job, asked, f"{asked.reader}:late", loss, history))
            queries.append((asked.late, late))
    except (AnalysisException, ParseException) as error:
        raise InvalidArgument(f"{file} does not fit Spark: {str(error).splitlines()[0]}") from None
    facts: dict[str, Any] = {"from": asked.source, "to": asked.target, "dry_run": job.dry_run}
    if job.dry_run:
        return Report("aggregate", 0, facts)
    started: list[StreamingQuery] = []
    try:
        for number, (queue, rows) in enumerate(queries):
            started.append(_start(job, rows, queue, f"{address(checkpoint)}/{number}", loss, follow=follow))
        counts = _watched(job, started, asked)
    finally:
        for query in started:
            query.stop()
    found = {name: sum(batches.values()) for name, batches in vars(counts).items()}
    facts |= {"read": found["read"], "windows pushed": found["pushed"], "late": found["late"]}
    facts["still open"] = job.spark.read.format("statestore").load(f"{address(checkpoint)}/0").count()
    if not found["pushed"]:
        facts["warning"] = _why_nothing(asked, facts)
    return Report("aggregate", found["read"], facts)


def windows(asked: Aggregation, rows: DataFrame) -> DataFrame:
    """The aggregates as messages: a column `payload`, and one for the partition where it is asked for."""
    window = (
        sf.session_window(TIME, asked.window.gap)
        if asked.window.gap is not None
        else sf.window(TIME, asked.window.size or "", asked.window.slide)
    )
    # Spark counts from the latest event, which may be ahead: what is not late by our rule is not by Spark's.
    seen = rows.observe("late", sf.count_if(LATE))
    timely = seen.where(f"not {LATE}").withWatermark(TIME, f"{asked.watermark} {asked.ahead}")
    values = [sf.expr(text).alias(name) for name, text in asked.values.items()]
    found = timely.groupBy(window.alias("window"), *asked.by).agg(*values)
    columns = [sf.col("window.start").alias("window_start"), sf.col("window.end").alias("window_end")]
    payload = sf.to_json(sf.struct(*columns, *asked.by, *asked.values)).alias("payload")
    partition = [] if asked.partition_by is None else [sf.col(asked.partition_by).cast("string").alias("partition")]
    return found.select(payload, *partition).observe("pushed", sf.count(sf.lit(1)))


def _stream(job: Job, asked: Aggregation, group: str, loss: Options, history: str | None) -> DataFrame:
    """The messages with the fields of their payload, their event time, and whether they are late."""
    options = {"url": job.dsn, "queue": asked.source, "group": group, "columns": "partition,created_at,payload"} | loss
    rows = job.spark.readStream.format("queen").options(**options).load()
    fields = sf.from_json("payload", asked.payload)
    read = rows.select(
        "partition", "created_at", sf.col("payload").alias("queen_payload"), fields.alias("queen_fields")
    )
    wide = read.select("partition", "created_at", "queen_payload", "queen_fields.*")
    timed = wide.withColumn(TIME, sf.col(asked.event_time or "created_at").cast("timestamp"))
    return timed.withColumn(LATE, _is_late(asked, history))


def _is_late(asked: Aggregation, history: str | None) -> Column:
    """Without a time, or with one that cannot be yet, a message belongs to no window, and is late too."""
    is_old = sf.col(TIME) < sf.col("created_at") - sf.expr(f"interval {asked.watermark}")
    if history is not None:
        is_old &= sf.col("created_at") >= sf.lit(history).cast("timestamp")
    is_ahead = sf.col(TIME) > sf.col("created_at") + sf.expr(f"interval {asked.ahead}")
    return sf.col(TIME).isNull() | is_old | is_ahead


def _history_until(job: Job, asked: Aggregation, checkpoint: str, *, backfill: bool) -> str | None:
    """The moment before which messages are history, if the checkpoint is one of a backfill.

    The first micro-batch has all messages that were pushed until then, and Spark finds none of those late.
    """
    store = Store(checkpoint)
    kept = store.read(BACKFILL)
    if kept is not None:
        return str(json.loads(kept)["pushed_before"])
    if not backfill:
        return None
    if asked.event_time is None:
        raise InvalidArgument("a backfill needs event_time: without it, the time of a message is when it was pushed")
    if store.names("0"):
        raise InvalidArgument(f"{checkpoint} has begun without --backfill: give the backfill another checkpoint")
    moment: str = job.connection.value(NOW)
    if not job.dry_run:
        with store.create(BACKFILL) as file:
            file.write(json.dumps({"pushed_before": moment}).encode())
    return moment


def _late(rows: DataFrame) -> DataFrame:
    return rows.where(LATE).select(sf.col("queen_payload").alias("payload"), "partition")


def _start(job: Job, rows: DataFrame, queue: str, checkpoint: str, loss: Options, *, follow: bool) -> StreamingQuery:
    options = {"url": job.dsn, "queue": queue, "checkpointLocation": checkpoint} | loss
    writer = rows.writeStream.format("queen").options(**options)
    if "partition" in rows.columns:
        writer = writer.option("partitionColumn", "partition")
    return (writer if follow else writer.trigger(availableNow=True)).start()


def _watched(job: Job, queries: Sequence[StreamingQuery], asked: Aggregation) -> Counts:
    """Wait for all queries to end, or for one to fail, and count what the first of them does."""
    counts = Counts()
    ended = [False]
    while not all(ended):
        ended = [bool(query.awaitTermination(POLL_SECONDS)) for query in queries]  # raises when it has failed
        counts.add(queries[0])
        job.tell(f"aggregate {asked.source}", sum(counts.read.values()))
    return counts


def _why_nothing(asked: Aggregation, facts: dict[str, Any]) -> str:
    """What an operator should know about a run that pushed no window."""
    if not facts["read"]:
        return f'no window was pushed: there was nothing new in "{asked.source}"'
    if facts["late"] < facts["read"]:
        return (
            f"no window was pushed, because none is final: a window is final when a message {asked.watermark} and "
            f"{asked.ahead} after its end has been read"
        )
    return (
        f"no window was pushed, because all messages were late: they were pushed more than {asked.watermark} after or "
        f"{asked.ahead} before the time in their field {asked.event_time}, or have none. If they are history, start "
        "again with --backfill and another --checkpoint"
    )
