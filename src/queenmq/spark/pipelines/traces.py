"""traces: how messages of a trace travel through the queues, how long each step takes, and where they stop."""

from collections.abc import Sequence
from datetime import datetime

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from queenmq.spark.pipelines.history import chosen
from queenmq.spark.pipelines.job import Job, kept
from queenmq.spark.pipelines.plots import bars
from queenmq.spark.pipelines.report import Report, Table
from queenmq.spark.pipelines.stats import QUEUES, stored

SHOWN = 20
FOLLOWED = ("queue", "trace_id", "created_at")  # no payloads: they are large, and perhaps secret
PERCENTILES = [0.5, 0.95, 0.99]
ARROW = " → "


def traces(
    job: Job,
    *,
    queues: Sequence[str] = (),
    archive: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Report:
    """Join the messages of each trace across queues; all of them, or some."""
    names = list(queues) or [row["name"] for row in job.connection.rows(QUEUES)]
    for name in names:
        job.queue_id(name)
    if not names or job.dry_run:
        return Report("traces", 0, {"queues": names})
    rows = (
        chosen(stored(job, names, archive, FOLLOWED), since=since, until=until)
        .where("trace_id is not null")
        .select("trace_id", "queue", (sf.unix_micros("created_at") / 1000).alias("at"))
    )
    with kept(rows):
        steps, paths, ends = _steps(rows), _paths(rows), _ends(rows)
    total = sum(row[1] for row in ends.rows)
    job.tell("traces", total, total)
    pictures = {}
    if steps.rows:
        latency = {name: [row[place] for row in steps.rows] for name, place in (("p50", 3), ("p95", 4))}
        labels = [f"{before}{ARROW}{after}" for before, after, *_ in steps.rows]
        pictures["Time of each step"] = bars(labels, latency, "milliseconds")
    if ends.rows:
        pictures["Where traces stop"] = bars(
            [row[0] for row in ends.rows], {"traces": [row[1] for row in ends.rows]}, ""
        )
    tables = {"steps": steps, "paths": paths, "where traces stop": ends}
    return Report("traces", total, {"queues": names, "traces": total}, tables, pictures)


def _steps(rows: DataFrame) -> Table:
    """Each step from queue to queue: how often, and its percentiles in milliseconds; slowest first."""
    order = Window.partitionBy("trace_id").orderBy("at", "queue")
    found = (
        rows.select(
            sf.lag("queue").over(order).alias("before"), sf.col("queue").alias("after"),
            (sf.col("at") - sf.lag("at").over(order)).alias("took"),
        )
        .where("before is not null")
        .groupBy("before", "after")
        .agg(sf.count("*").alias("times"), sf.percentile_approx("took", PERCENTILES).alias("ms"))
        .collect()
    )  # fmt: skip
    lines = sorted(((row.before, row.after, row.times, *row.ms) for row in found), key=lambda line: -line[4])
    return Table.of(("from", "to", "times", "p50_ms", "p95_ms", "p99_ms"), lines[:SHOWN])


def _paths(rows: DataFrame) -> Table:
    """The ways that traces take, most frequent first, and how long they take from end to end."""
    found = (
        rows.groupBy("trace_id")
        .agg(
            sf.array_sort(sf.collect_list(sf.struct("at", "queue"))).alias("steps"),
            (sf.max("at") - sf.min("at")).alias("took"),
        )
        .groupBy(sf.concat_ws(ARROW, sf.col("steps.queue")).alias("path"))
        .agg(sf.count("*").alias("traces"), sf.percentile_approx("took", PERCENTILES).alias("ms"))
        .orderBy(sf.desc("traces"), "path")
        .limit(SHOWN)
        .collect()
    )
    return Table.of(
        ("path", "traces", "p50_ms", "p95_ms", "p99_ms"), ((row.path, row.traces, *row.ms) for row in found)
    )


def _ends(rows: DataFrame) -> Table:
    """The queue of each trace's last message, and how many traces end there."""
    found = (
        rows.groupBy("trace_id")
        .agg(sf.max(sf.struct("at", "queue")).alias("last"))
        .groupBy(sf.col("last.queue").alias("queue"))
        .count()
        .orderBy(sf.desc("count"), "queue")
        .collect()
    )
    return Table.of(("queue", "traces"), (tuple(row) for row in found))
