"""stats: how much, how fast, how even, how large, and what became of it."""

from collections.abc import Sequence
from datetime import datetime
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from queenmq.spark.pipelines.history import chosen, messages
from queenmq.spark.pipelines.job import Job, kept
from queenmq.spark.pipelines.plots import bars, over_time
from queenmq.spark.pipelines.report import Report, Table

POINTS_MAX = 300  # of a line
PARTITIONS_SHOWN = 10
BUCKETS = (1, 10, 60, 600, 3_600, 86_400)  # seconds

MEASURED = ("queue", "partition", "created_at", "payload")
QUEUES = r"select name from queen.queues where name not like '\_\_system%' order by name"
OUTCOMES = """
select l.queue, l.group_name, sum(l.completed)::bigint, sum(l.dead_lettered)::bigint, sum(l.expired)::bigint,
       sum(l.pending)::bigint, sum(l.leased)::bigint, max(g.messages)::bigint, max(g.seconds)::float8,
       (100 * sum(l.dead_lettered) / nullif(sum(l.completed + l.dead_lettered), 0))::float8,
       (select count(*) from queen.partition_consumers c join queen.queue_groups q on q.id = c.group_id
         cross join jsonb_each_text(c.retries) as r
         where q.name = l.group_name and r.value <> '0'
           and q.queue_id = (select id from queen.queues where name = l.queue))::bigint
  from queen.ledger l join queen.lag g on g.queue = l.queue and g.group_name = l.group_name
 where l.queue = any ($1) group by l.queue, l.group_name order by l.queue, l.group_name
"""
OUTCOME_COLUMNS = (
    "queue", "group", "completed", "dead_lettered", "expired", "pending", "leased", "lag_messages", "lag_seconds",
    "dead_letter_percent", "retrying",
)  # fmt: skip


def stats(
    job: Job,
    *,
    queues: Sequence[str] = (),
    archive: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Report:
    """Look at some queues, or all, over a time; with `archive`, also at what is only there."""
    names = list(queues) or [row["name"] for row in job.connection.rows(QUEUES)]
    for name in names:
        job.queue_id(name)
    outcomes = Table.of(OUTCOME_COLUMNS, (tuple(row) for row in job.connection.rows(OUTCOMES, names)))
    if not names or job.dry_run:
        return Report("stats", 0, {"queues": names}, {"outcomes": outcomes})
    rows = chosen(stored(job, names, archive, MEASURED), since=since, until=until).select(
        "queue", "partition", sf.length("payload").alias("size"), (sf.unix_micros("created_at") / 1e6).alias("at")
    )
    with kept(rows):
        sizes = _sizes(rows)
        total = sum(row[1] for row in sizes.rows)
        job.tell("stats", total, total)
        skew, line, bucket = _skew(rows, sizes), *_over_time(rows)
    pictures = {}
    if total:
        pictures[f"Messages per {bucket} s"] = over_time(line, "messages")
        hottest = [f"{queue} / {partition}" for queue, partition, *_ in skew.rows]
        pictures["Hottest partitions"] = bars(hottest, {"messages": [row[2] for row in skew.rows]}, "messages")
        percentiles = {name: [row[place] for row in sizes.rows] for name, place in (("p50", 4), ("p95", 5))}
        pictures["Payload sizes"] = bars([row[0] for row in sizes.rows], percentiles, "characters")
    tables = {"throughput and sizes": sizes, "hottest partitions": skew, "outcomes": outcomes}
    return Report("stats", total, {"queues": names, "messages": total}, tables, pictures)


def stored(job: Job, names: list[str], archive: str | None, columns: Sequence[str]) -> DataFrame:
    """The messages of some queues, with those of the archive if there is one."""
    if archive is None:
        return job.read(",".join(names), columns=",".join(columns))
    return reduce(DataFrame.unionByName, [messages(job, name, archive, columns) for name in names])


def _sizes(rows: DataFrame) -> Table:
    seconds = sf.greatest(sf.max("at") - sf.min("at"), sf.lit(1.0))
    found = rows.groupBy("queue").agg(
        sf.count("*"), sf.countDistinct("partition"), sf.count("*") / seconds,
        sf.percentile_approx("size", 0.5), sf.percentile_approx("size", 0.95), sf.max("size"), sf.sum("size"),
    )  # fmt: skip
    columns = ("queue", "messages", "partitions", "per_second", "size_p50", "size_p95", "size_max", "characters")
    return Table.of(columns, sorted(tuple(row) for row in found.collect()))


def _skew(rows: DataFrame, sizes: Table) -> Table:
    """The partitions with most messages, and how many times their fair share they have."""
    totals = {row[0]: (row[1], row[2]) for row in sizes.rows}
    found = rows.groupBy("queue", "partition").count().orderBy(sf.desc("count"), "queue", "partition")
    hottest = [tuple(row) for row in found.limit(PARTITIONS_SHOWN).collect()]
    shares = [
        (*row, 100 * row[2] / totals[row[0]][0], row[2] * totals[row[0]][1] / totals[row[0]][0]) for row in hottest
    ]
    return Table.of(("queue", "partition", "messages", "share_percent", "times_fair_share"), shares)


def _over_time(rows: DataFrame) -> tuple[dict[str, list[tuple[float, float]]], int]:
    ends: Any = rows.agg(sf.min("at"), sf.max("at")).first()
    span = 0.0 if ends is None or ends[0] is None else ends[1] - ends[0]
    bucket = next((each for each in BUCKETS if span / each <= POINTS_MAX), BUCKETS[-1])
    found = rows.groupBy("queue", (sf.floor(sf.col("at") / bucket) * bucket).alias("start")).count()
    line: dict[str, list[tuple[float, float]]] = {}
    for queue, start, count in sorted(tuple(row) for row in found.collect()):
        line.setdefault(queue, []).append((start, count))
    return line, bucket
