"""archive: a queue to Parquet, step by step; retention deletes nothing that is not there.

The files and bytes of a step depend on its two ticks alone. A step's manifest is written last, and retention is told
after that: whenever a run is interrupted, the next one writes the same step again and goes on. If PostgreSQL has lost
steps that are in the archive, a run changes nothing and names them (lost.py).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import ceil

from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from queenmq.errors import Busy, InvalidArgument
from queenmq.spark.columns import COLUMNS
from queenmq.spark.options import Options
from queenmq.spark.pipelines.files import Files
from queenmq.spark.pipelines.job import Job
from queenmq.spark.pipelines.lost import lost_steps, refusal, set_aside
from queenmq.spark.pipelines.manifest import ArchiveUnusable, File, Manifest, Range, Step
from queenmq.spark.pipelines.report import Report, Table
from queenmq.spark.pipelines.store import Store
from queenmq.spark.planning import Wanted, plan
from queenmq.spark.positions import BEGINNING, Position, find, position_at
from queenmq.spark.reading import Reading

ARCHIVE_LOCK = 0x517EE8  # held with a queue's id while it is being archived
STORED = [name for name in COLUMNS if name != "queue"]  # the queue is in the path
STORED_TABLE = ", ".join(f"`{name}` {COLUMNS[name]}" for name in STORED)
WRITTEN = "path string, rows bigint, bytes bigint"

TOLD = "select location, tick from queen.archives where queue_id = $1"
TELL = """
insert into queen.archives as a (queue_id, location, tick, mark)
select $1, $2, t.id, t.mark from queen.find_tick($3, $4) as t
on conflict (queue_id) do update
   set tick = greatest(a.tick, excluded.tick),
       mark = case when excluded.tick < a.tick then a.mark else excluded.mark end,
       location = excluded.location, archived_at = clock_timestamp()
"""
KNOWN = "select id from queen.ticks where id = $1 and mark = coalesce($2, mark)"
MESSAGES = """
select coalesce(sum(s.messages), 0)::bigint
  from queen.position_at($2) as f, queen.position_at($3) as t,
       queen.slice_segments(array[$1::int], f.epoch, f.snapshot, t.epoch, t.snapshot, 1) as s
"""
# The last tick before the transaction that is too much; or, when that is the first, the tick that has it.
STEP_END = """
with stop as (
    select l.epoch, l.xid from queen.position_at($2) as f, queen.position_at($3) as t,
           queen.limit_messages(array[$1::int], f.epoch, f.snapshot, t.epoch, t.snapshot, $4) as l)
select coalesce(
    case when s.xid is null then $3 end,
    (select max(k.id) from queen.ticks k
      where k.id > $2 and k.id <= $3 and (k.epoch, pg_snapshot_xmax(k.snapshot)) <= (s.epoch, s.xid)),
    (select min(k.id) from queen.ticks k
      where k.id > $2 and k.id <= $3
        and (k.epoch > s.epoch or (k.epoch = s.epoch and pg_visible_in_snapshot(s.xid, k.snapshot)))))
  from stop s
"""


def archive(
    job: Job,
    *,
    queues: Sequence[str],
    location: str,
    schema: str | None = None,
    messages_per_step: int = 2_000_000,
    messages_per_file: int = 500_000,
    plaintext: bool = False,
    accept_loss: bool = False,
) -> Report:
    """Write all that was pushed since the last run to Parquet, then let retention know.

    With `schema`, DDL of the payload's fields, the files get a column `data` with these beside the JSON text. With
    `accept_loss`, steps that PostgreSQL has lost are set aside first; without it they are an error.
    """
    if min(messages_per_step, messages_per_file) < 1:
        raise InvalidArgument("a step and a file have at least one message")
    if not queues:
        raise InvalidArgument("which queues are to be archived?")
    store = Store(location)
    tables, lost = [], []
    total = 0
    for queue in queues:
        each = QueueArchive(job, queue, store, schema, messages_per_file, plaintext=plaintext, accept_loss=accept_loss)
        steps = each.run(messages_per_step, total)
        lost += [(queue, step.name, step.rows, f"_lost/{step.short_mark}") for step in each.lost]
        rows, size = sum(step.rows for step in steps), sum(file.bytes for step in steps for file in step.files)
        total += rows
        tables.append((queue, rows, len(steps), sum(len(step.files) for step in steps), size, each.tick))
    columns = ("queue", "messages", "steps", "files", "bytes", "up to tick")
    facts = {"location": store.location, "dry_run": job.dry_run}
    reported = {"archived": Table.of(columns, tables)}
    if lost:
        reported["lost and set aside"] = Table.of(("queue", "step", "messages", "kept below"), lost)
    return Report("archive", total, facts, reported)


def stop_archive(job: Job, *, queues: Sequence[str]) -> Report:
    """Let retention delete again what is not in the archive; the archive stays as it is."""
    ids = [job.queue_id(queue) for queue in queues]
    if not job.dry_run:
        job.connection.rows("delete from queen.archives where queue_id = any ($1)", ids)
    return Report("archive", 0, {"stopped": list(queues), "dry_run": job.dry_run})


class QueueArchive:
    """The archive of one queue, and how far it is."""

    def __init__(
        self, job: Job, queue: str, store: Store, schema: str | None, messages_per_file: int, *, plaintext: bool,
        accept_loss: bool = False,
    ) -> None:  # fmt: skip
        self._job, self._queue, self._store = job, queue, store
        self._schema, self._messages_per_file = schema, messages_per_file
        self._id = job.queue_id(queue)
        self._manifest = Manifest(store, queue)
        if not plaintext:
            job.refuse_plaintext(queue, "its archive")
        self._installation = str(job.connection.value("select id from queen.system_state"))
        self._accept_loss = accept_loss
        self.lost: Sequence[Step] = ()  # steps that are set aside by this run
        self._end = self._last()

    @property
    def tick(self) -> int:
        """How far the archive is."""
        return self._end.tick

    def run(self, messages_per_step: int, before: int) -> list[Step]:
        """Write every step up to now."""
        connection = self._job.connection
        if self._job.dry_run:
            latest = connection.value("select coalesce(max(id), 0) from queen.ticks")
            rows = connection.value(MESSAGES, self._id, self.tick, latest)
            return [Step.of(self._range(self._end, position_at(connection, latest)), rows, ())] if rows else []
        steps: list[Step] = []
        with self._alone():
            self._end = self._last()  # another run may have ended meanwhile
            set_aside(self._store, self._manifest, self.lost)
            self._tell()  # from here on retention waits
            latest = connection.value("select queen.take_tick()")
            done, total = before, before + connection.value(MESSAGES, self._id, self.tick, latest)
            while done < total and self.tick < latest:  # less than was counted, when some were deleted meanwhile
                end = self._intended_end() or connection.value(STEP_END, self._id, self.tick, latest, messages_per_step)
                steps.append(self._write(position_at(connection, end)))
                done += steps[-1].rows
                self._job.tell(f"archive {self._queue}", done, total)
        return steps

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One run of a queue at a time."""
        connection = self._job.connection
        if not connection.lock(ARCHIVE_LOCK, self._id):
            raise Busy(f'queue "{self._queue}" is being archived by another run')
        try:
            yield
        finally:
            connection.unlock(ARCHIVE_LOCK, self._id)

    def _intended_end(self) -> int | None:
        """Where a step ends that was begun here and interrupted; None if its tick is no longer known, or was lost."""
        intended = self._manifest.intention()
        if intended is None or intended.from_tick < self.tick:
            return None
        end: int | None = None
        if intended.from_tick == self.tick:
            end = self._job.connection.value(KNOWN, intended.to_tick, intended.to_mark)
        if end is None:
            self._manifest.abandon(intended)
        return end

    def _write(self, end: Position) -> Step:
        connection = self._job.connection
        rows = connection.value(MESSAGES, self._id, self.tick, end.tick)
        described = self._range(self._end, end)
        self._manifest.intend(described)
        files = self._files(end, described.name, max(1, ceil(rows / self._messages_per_file)))
        if sum(file.rows for file in files) != rows:
            raise ArchiveUnusable(f"{rows} messages were to be archived, {sum(file.rows for file in files)} were")
        step = Step.of(described, rows, files)
        self._manifest.commit(step)
        self._end = end
        self._tell()
        return step

    def _tell(self) -> None:
        """Let retention know what is in the archive, and wait for the rest."""
        self._job.connection.rows(TELL, self._id, self._store.location, self.tick, self._end.mark)

    def _files(self, end: Position, step: str, count: int) -> list[File]:
        spark = self._job.spark
        files = self._planned(end, step, count)
        if files is None:
            return []
        numbers = spark.range(0, count, 1, count)
        if self._schema is None:
            written = numbers.mapInArrow(files.write, WRITTEN)
        else:
            rows = numbers.mapInArrow(files.read, f"{STORED_TABLE}, day string, file bigint")
            rows = rows.withColumn("data", sf.from_json("payload", self._schema))
            # As text: Spark looks at all rows of a batch again for each that has no map (docs/decisions.md).
            rows = rows.withColumn("headers", sf.to_json("headers"))
            written = rows.mapInArrow(files.write_rows, WRITTEN)
        return sorted((File(row.path, row.rows, row.bytes) for row in written.collect()), key=lambda file: file.path)

    def _planned(self, end: Position, step: str, count: int) -> Files | None:
        """What the tasks of a step have to do; None for nothing."""
        connection, options = self._job.connection, Options(queue=self._queue, url=self._job.dsn, min_partitions=1)
        with connection.transaction():  # on one server, also behind a pooler
            start, finish = (find(connection, each.kept, tolerant=False) for each in (self._end, end))
            tasks = plan(connection, Wanted({self._id: self._queue}, start, finish), options)
        if not tasks:
            return None
        [task] = tasks
        columns = StructType.fromDDL(STORED_TABLE)
        assert isinstance(columns, StructType)
        return Files(options, Reading(options, columns), STORED, task, count, self._store.location, step)

    def _last(self) -> Position:
        """Where the archive ends; refused when it cannot be this queue's, or if the database has lost a part of it."""
        steps = self._manifest.steps()
        mine = self._range(BEGINNING, BEGINNING)
        found = [each for each in (*steps[-1:], self._manifest.intention()) if each is not None]
        for each in found:
            if not each.same_queue(mine):
                raise ArchiveUnusable(
                    f'the archive in {self._store.location} is one of the queue "{each.queue}" (id {each.queue_id}) of '
                    f"the database {each.installation}, not of this one"
                )
        self.lost = lost_steps(self._job.connection, steps)
        if self.lost and not self._accept_loss:
            raise refusal(self._store, self.lost)
        steps = steps[: len(steps) - len(self.lost)]
        end = steps[-1].to_tick if steps else 0
        told = self._job.connection.row(TOLD, self._id)
        if told is not None and told["tick"] > end:
            raise ArchiveUnusable(
                f'queue "{self._queue}" is archived up to tick {told["tick"]} in {told["location"]}, and what is in '
                f"{self._store.location} ends with tick {end}"
            )
        return position_at(self._job.connection, end)

    def _range(self, begin: Position, end: Position) -> Range:
        """From one tick to another, of this queue."""
        return Range(
            installation=self._installation, queue=self._queue, queue_id=self._id, from_tick=begin.tick,
            to_tick=end.tick, from_mark=begin.mark, to_mark=end.mark, to_trail=end.trail,
        )  # fmt: skip
