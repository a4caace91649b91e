"""All pipelines by name, and the one way to run them: checked, recorded, with progress."""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from queenmq.errors import InvalidArgument, Refused
from queenmq.spark.nearest import nearest
from queenmq.spark.pipelines.aggregate import aggregate
from queenmq.spark.pipelines.archive import archive, stop_archive
from queenmq.spark.pipelines.history import history
from queenmq.spark.pipelines.job import Job, Listener, quiet
from queenmq.spark.pipelines.replay import replay
from queenmq.spark.pipelines.report import Report
from queenmq.spark.pipelines.schema import schema
from queenmq.spark.pipelines.stats import stats
from queenmq.spark.pipelines.traces import traces
from queenmq.spark.pipelines.triage import triage

OURS = re.compile(r"(?:^\s*|: )queenmq\.[\w.]+: (.+)$", re.MULTILINE)  # as Spark shows an error of a worker

JOBS: dict[str, Callable[..., Report]] = {
    "archive": archive,
    "stop-archive": stop_archive,
    "history": history,
    "replay": replay,
    "stats": stats,
    "traces": traces,
    "aggregate": aggregate,
    "dlq-triage": triage,
    "schema": schema,
}


def perform(
    name: str,
    arguments: Mapping[str, Any],
    *,
    dsn: str | None = None,
    master: str = "local[*]",
    spark: SparkSession | None = None,
    dry_run: bool = False,
    listen: Listener = quiet,
) -> Report:
    """Run one pipeline; it is recorded in queen.pipeline_runs."""
    check(name, arguments)
    with Job(name, arguments, dsn=dsn, master=master, spark=spark, dry_run=dry_run, listen=listen) as job:
        try:
            report = JOBS[name](job, **arguments)
        except PySparkException as error:
            raise PipelineFailed(_told(error)) from error
        job.rows = report.rows
        return report


class PipelineFailed(Refused):
    """Spark could not do it."""

    hint = "Look at Spark's own messages above, or run the pipeline from Python to see the whole trace."


def _told(error: PySparkException) -> str:
    """What one of our errors said in a worker, or the first thing that Spark says."""
    text = str(error)
    ours = OURS.findall(text)
    return ours[-1] if ours else text.strip().splitlines()[0]


def check(name: str, arguments: Mapping[str, Any]) -> None:
    """Refuse a pipeline or an argument that does not exist, and arguments that are missing."""
    if name not in JOBS:
        raise InvalidArgument(f'there is no pipeline "{name}"{nearest(name, JOBS)}; pipelines: {", ".join(JOBS)}')
    known = {each.name: each for each in inspect.signature(JOBS[name]).parameters.values() if each.name != "job"}
    for argument in arguments:
        if argument not in known:
            raise InvalidArgument(f'{name} has no argument "{argument}"{nearest(argument, known)}')
    for argument, described in known.items():
        if described.default is inspect.Parameter.empty and argument not in arguments:
            raise InvalidArgument(f'{name} needs the argument "{argument}"')
