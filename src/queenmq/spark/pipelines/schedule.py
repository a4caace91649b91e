"""Several pipelines in one file, run in order, each tried again when it fails."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import sleep
from typing import Any

import msgspec
from msgspec import Struct, field

from queenmq.errors import InvalidArgument, Unavailable
from queenmq.spark.pipelines.job import Listener, quiet, spark_runs
from queenmq.spark.pipelines.jobs import check, perform
from queenmq.spark.pipelines.report import Report
from queenmq.spark.session import session


class Entry(Struct, frozen=True, forbid_unknown_fields=True):
    """One pipeline of the file."""

    name: str
    retries: int = 0
    retry_seconds: float = 10.0
    arguments: dict[str, Any] = field(default_factory=dict)


class Schedule(Struct, frozen=True, forbid_unknown_fields=True):
    """All of them, in order."""

    job: list[Entry]


def load_schedule(path: str) -> Schedule:
    """Read the file; whatever is wrong with any entry is said before the first one runs."""
    try:
        found = msgspec.convert(tomllib.loads(Path(path).read_text(encoding="utf-8")), Schedule)
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise InvalidArgument(f"{path} is no schedule: {error}") from None
    for entry in found.job:
        check(entry.name, entry.arguments)
        if not (0 <= entry.retries <= 100 and 0 <= entry.retry_seconds <= 3600):
            raise InvalidArgument(f"{entry.name}: up to 100 retries, and up to 3600 seconds between them")
    return found


def run_schedule(
    schedule: Schedule, listen: Listener = quiet, *, master: str = "local[*]", **place: Any
) -> Iterator[Report]:
    """Run one after the other, on one Spark; the first that keeps failing ends it."""
    stops = not spark_runs()
    spark = session(master, name="queen pipeline run")
    if stops:
        spark.sparkContext.setLogLevel("ERROR")
    try:
        for entry in schedule.job:
            yield _persistently(entry, listen, {**place, "spark": spark})
    finally:
        if stops:
            spark.stop()


def _persistently(entry: Entry, listen: Listener, place: Mapping[str, Any]) -> Report:
    for left in range(entry.retries, -1, -1):
        try:
            return perform(entry.name, entry.arguments, listen=listen, **place)
        except Unavailable:  # anything else would fail again in the same way
            if not left:
                raise
            sleep(entry.retry_seconds)
    raise AssertionError("the last attempt returns or raises")
