"""One run of a pipeline: where it works, what it tells meanwhile, and the row that remembers it."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from time import monotonic
from types import TracebackType
from typing import Any, Self

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from queenmq.config import Settings, masked
from queenmq.engine.postgres.embedded.local import session_dsn
from queenmq.errors import EncryptionRequired, QueueNotFound
from queenmq.spark.connection import Connection
from queenmq.spark.session import session

KEPT_DAYS = 90
RUNNING_LOCK = 0x517EE7  # held with a run's id for as long as its process lives

BEGIN = """
with forgotten as (delete from queen.pipeline_runs where started_at < clock_timestamp() - make_interval(days => $3))
insert into queen.pipeline_runs (name, arguments) values ($1, $2::json) returning id
"""
END = """
update queen.pipeline_runs set finished_at = clock_timestamp(), state = $2, rows = $3, error = $4 where id = $1
"""
RUNS = """
select id, name, arguments::text, to_char(started_at at time zone 'utc', 'YYYY-MM-DD HH24:MI:SS"Z"') as started_at,
       extract(epoch from coalesce(finished_at, clock_timestamp()) - started_at)::float8 as seconds,
       case when state = 'running' and not exists (
                select from pg_locks l
                 where l.locktype = 'advisory' and l.classid = $2::int::oid and l.objid = r.id::oid
                   and l.database = (select oid from pg_database where datname = current_database()))
            then 'lost' else state end as state,
       rows, error
  from queen.pipeline_runs r order by id desc limit $1
"""


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    step: str
    rows: int
    total: int | None
    seconds: float = field(repr=False)

    @property
    def rate(self) -> float:
        """Rows a second."""
        return self.rows / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """When it will be done at this rate; None when nobody can know."""
        return None if self.total is None or not self.rate else max(self.total - self.rows, 0) / self.rate


Listener = Callable[[Progress], None]


def quiet(_: Progress) -> None:
    """Listen to nothing."""


class Job:
    """A place to work in: `with Job("archive", {...}) as job: ...` is recorded in queen.pipeline_runs.

    Without a DSN it uses that of QUEEN_DSN, or the private PostgreSQL of a server on this machine. Spark starts
    when it is first needed, so that what is wrong with the request is said at once; a session that is given, or runs
    already, is used and stays. A dry run changes nothing, and is not recorded.
    """

    def __init__(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        dsn: str | None = None,
        master: str = "local[*]",
        spark: SparkSession | None = None,
        dry_run: bool = False,
        listen: Listener = quiet,
    ) -> None:
        self.name, self.dsn, self.dry_run = name, dsn or session_dsn(Settings.load()), dry_run
        self.rows = 0
        self._arguments = dict(arguments or {})
        self._master, self._given, self._listen = master, spark, listen
        self._begun = monotonic()
        self._id: int | None = None
        self._stops = False

    @cached_property
    def connection(self) -> Connection:
        """The run's own session with PostgreSQL."""
        return Connection(self.dsn)

    @cached_property
    def spark(self) -> SparkSession:
        """Spark, started when it is first asked for."""
        if self._given is not None:
            return self._given
        self._stops = not spark_runs()
        started = session(self._master, name=f"queen pipeline {self.name}")
        if self._stops:
            started.sparkContext.setLogLevel("ERROR")
        return started

    def read(self, queue: str, **options: Any) -> DataFrame:
        """A queue, or several with commas between, as a table."""
        return self.spark.read.format("queen").options(url=self.dsn, queue=queue, **options).load()

    def queue_id(self, queue: str) -> int:
        """A queue that must exist."""
        found: int | None = self.connection.value("select id from queen.queues where name = $1", queue)
        if found is None:
            raise QueueNotFound(f'there is no queue "{queue}"')
        return found

    def is_encrypted(self, queue: str) -> bool:
        """Whether what is pushed there is encrypted; a queue that does not exist is made without."""
        return bool(self.connection.value("select encryption_enabled from queen.queues where name = $1", queue))

    def refuse_plaintext(self, queue: str, copy: str) -> None:
        """Nobody writes down in the clear what was to be secret without having said so."""
        if self.is_encrypted(queue):
            raise EncryptionRequired(f'queue "{queue}" is encrypted and {copy} would not be: allow it with plaintext')

    def tell(self, step: str, rows: int, total: int | None = None) -> None:
        """Say how far it is."""
        self.rows = rows
        self._listen(Progress(step, rows, total, monotonic() - self._begun))

    def __enter__(self) -> Self:
        if not self.dry_run:
            arguments = json.dumps(self._arguments, default=str)
            self._id = self.connection.value(BEGIN, self.name, arguments, KEPT_DAYS)
            self.connection.value("select pg_advisory_lock($1, $2)", RUNNING_LOCK, self._id)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._id is not None and not self.connection.closed:
                state = "done" if error is None else "failed"
                said = error and (str(error) or type(error).__name__).replace(self.dsn, masked(self.dsn))
                self.connection.value(END, self._id, state, self.rows, said)
        finally:
            self.close()

    def close(self) -> None:
        """Disconnect; and stop Spark, if this run has started it."""
        if "connection" in self.__dict__:
            self.connection.close()
        if self._stops:
            self.spark.stop()


def spark_runs() -> bool:
    """Whether this process has a Spark already, made by whichever thread: it is not ours to stop."""
    return SparkContext._active_spark_context is not None  # noqa: SLF001 (in public, Spark tells only that thread)


@contextmanager
def kept(rows: DataFrame) -> Iterator[DataFrame]:
    """Rows that are read once, however often they are looked at inside."""
    try:
        yield rows.persist()
    finally:
        rows.unpersist()


def recorded_runs(dsn: str, limit: int = 20) -> list[dict[str, Any]]:
    """The last runs, newest first; `lost` is one whose process is gone without a word."""
    with Connection(dsn) as connection:
        return [dict(row) for row in connection.rows(RUNS, limit, RUNNING_LOCK)]
