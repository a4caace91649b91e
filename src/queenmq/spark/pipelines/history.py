"""history: everything that was ever pushed, from the archive and from the queue, as one table.

The archive ends with a tick; the live part begins with the same one. So nothing is missing at the seam and nothing is
there twice, whoever pushes or archives meanwhile; and retention deletes nothing beyond it. If PostgreSQL has lost a
part of what is archived, it gives out those offsets a second time: there is no history until that part is set aside.
"""

import json
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import datetime
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from queenmq.errors import InvalidArgument
from queenmq.spark.columns import COLUMNS
from queenmq.spark.pipelines.archive import STORED
from queenmq.spark.pipelines.job import Job, kept
from queenmq.spark.pipelines.lost import lost_steps, refusal
from queenmq.spark.pipelines.manifest import ArchiveUnusable, Manifest
from queenmq.spark.pipelines.report import Report, Table
from queenmq.spark.pipelines.store import Store, address

FORMATS = ("parquet", "json")
DAY = "cast(date_from_unix_date(cast(unix_micros(created_at) div 86400000000 as int)) as string)"


def messages(job: Job, queue: str, archive: str | None = None, columns: Sequence[str] = tuple(COLUMNS)) -> DataFrame:
    """All messages of a queue: those of the archive, if there is one, and those after it."""
    queue_id = job.queue_id(queue)
    asked = ",".join(columns)
    if archive is None:
        return job.read(queue, columns=asked)
    store = Store(archive)
    steps = Manifest(store, queue).required()
    installation = str(job.connection.value("select id from queen.system_state"))
    if (steps[0].installation, steps[0].queue_id) != (installation, queue_id):
        raise ArchiveUnusable(f"the archive in {store.location} is one of another database or of an older queue")
    if lost := lost_steps(job.connection, steps):
        raise refusal(store, lost)
    live = job.read(queue, columns=asked, startingOffsets=json.dumps(steps[-1].end))
    files = [store.address(file.path) for step in steps for file in step.files]
    if not files:  # all that was archived had been deleted before it was read
        return live
    archived = job.spark.read.parquet(*files).select(sf.lit(queue).alias("queue"), *STORED)
    return archived.select(*columns).unionByName(live)


def chosen(
    rows: DataFrame,
    where: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    trace: str | None = None,
) -> DataFrame:
    """The messages that match: an expression of Spark's SQL, a range of time, a trace."""
    if since is not None:
        rows = rows.where(sf.col("created_at") >= sf.lit(since))
    if until is not None:
        rows = rows.where(sf.col("created_at") < sf.lit(until))
    if trace is not None:
        rows = rows.where(sf.col("trace_id") == trace.lower())
    if where is not None:
        try:
            rows = rows.where(where)
        except (AnalysisException, ParseException) as error:
            raise InvalidArgument(f'"{where}" is no condition on {", ".join(COLUMNS)}: {_first_line(error)}') from None
    return rows


def history(  # noqa: PLR0913 (each is an option)
    job: Job,
    *,
    queue: str,
    archive: str | None = None,
    where: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    trace: str | None = None,
    to: str | None = None,
    format: str = "parquet",
    plaintext: bool = False,
) -> Report:
    """Count a queue's messages by day, archived and live together; with `to`, also write them there."""
    if format not in FORMATS:
        raise InvalidArgument(f"the format is {' or '.join(FORMATS)}, not {format!r}")
    if to is not None and not plaintext:
        job.refuse_plaintext(queue, "what is written")
    rows = chosen(messages(job, queue, archive), where, since, until, trace)
    with kept(rows) if to is not None else nullcontext():
        days = rows.groupBy(sf.expr(DAY)).agg(
            sf.count("*"), sf.countDistinct("partition_id"), sf.sum(sf.length("payload"))
        )
        by_day = sorted(tuple(day) for day in days.collect())
        total = sum(day[1] for day in by_day)
        job.tell("history", total, total)
        facts: dict[str, Any] = {"queue": queue, "archive": archive, "messages": total}
        if to is not None and not job.dry_run:
            _export(rows, address(to), format)
            facts["written to"] = address(to)
    return Report("history", total, facts, {"days": Table.of(("day", "messages", "partitions", "characters"), by_day)})


def _export(rows: DataFrame, to: str, format: str) -> None:
    try:
        rows.write.mode("errorifexists").format(format).save(to)
    except AnalysisException as error:
        raise InvalidArgument(f"{to} cannot be written: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
