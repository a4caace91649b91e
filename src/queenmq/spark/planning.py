"""Which segments a read is about, and how its tasks share them.

A position is a snapshot of the transaction horizon; between two of them lies an exact set of segments, whoever
commits meanwhile. The set is cut into ranges of the index in commit order, so no task reads what another reads and
each can be repeated.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

from pyspark.sql.datasource import InputPartition

from queenmq.errors import InvalidArgument, PartitionNotFound, QueueNotFound
from queenmq.spark.connection import Connection
from queenmq.spark.options import Options
from queenmq.spark.positions import Position
from queenmq.spark.replicas import written

TASKS_MAX = 64  # unless minPartitions asks for more
TASK_MESSAGES = 250_000  # most of them in one: Spark takes as long for a task as for reading some ten thousand
OFFSET_MAX = 1 << 40

QUEUES = """
select id, name from queen.queues
 where case $1 when 'namespace' then namespace = any ($2) when 'task' then task = any ($2) else name = any ($2) end
 order by id
"""
PARTITIONS = """
select q.name as queue, p.name as partition, l.partition_id, l.start_offset
  from queen.partitions p
  join queen.queues q on q.id = p.queue_id
  join queen.partition_lookup l on l.partition_id = p.id
 where p.queue_id = any ($1) and p.name = any ($2)
"""
SLICES = "select * from queen.slice_segments($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"


@dataclass(frozen=True)
class Wanted:
    """The segments of a read: between two positions, of some queues, perhaps only of some partitions or moments."""

    queues: dict[int, str]
    start: Position
    end: Position
    partition_ids: tuple[int, ...] | None = None  # None: all of them
    bounds: dict[int, tuple[int, int]] = field(default_factory=dict)  # partition id -> first offset, and after the last
    since: datetime | None = None
    until: datetime | None = None
    low: int = 0  # offsets in every partition
    high: int = OFFSET_MAX
    written: str | None = None  # a replica is read when it has replayed so much
    share: tuple[int, int] | None = None  # divisor and remainder: only partitions whose ids leave it

    @property
    def whole(self) -> bool:
        """Whether every segment that was planned has to be found, whatever its offsets."""
        return not self.bounds and self.low == 0 and self.high == OFFSET_MAX


@dataclass(frozen=True)
class Slice:
    """A range of segments in commit order, of one queue and epoch."""

    queue_id: int
    epoch: int
    late: bool
    first: tuple[str, int, int]  # transaction, partition, offset
    next: tuple[str, int, int] | None  # where the next slice begins


class SegmentsTask(InputPartition):
    """What one task reads."""

    def __init__(self, wanted: Wanted, slices: Sequence[Slice], segments: int, segment_bytes: int) -> None:
        super().__init__(None)
        self.wanted = wanted
        self.slices = slices
        self.segments = segments
        self.segment_bytes = segment_bytes  # on average


class DeadLettersTask(InputPartition):
    """The dead letters of the queues: one task reads them all."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(None)
        self.wanted = wanted


def find_queues(connection: Connection, spec: str) -> dict[int, str]:
    """The queues that an option names: one, a list, namespace:… or task:…."""
    kind, colon, rest = spec.partition(":")
    if colon and kind in ("namespace", "task"):
        rows = connection.rows(QUEUES, kind, [rest.strip()])
        if not rows:
            raise QueueNotFound(f'there is no queue with the {kind} "{rest.strip()}"')
    else:
        names = [name.strip() for name in spec.split(",") if name.strip()]
        rows = connection.rows(QUEUES, "name", names)
        if missing := set(names) - {row["name"] for row in rows}:
            raise QueueNotFound(f'there is no queue "{min(missing)}"')
    return {row["id"]: row["name"] for row in rows}


def find_partitions(connection: Connection, queues: Iterable[int], names: Iterable[str]) -> list[Any]:
    """The partitions of these names in any of the queues."""
    return connection.rows(PARTITIONS, list(queues), list(names))


def only_partitions(connection: Connection, wanted: Wanted, names: Sequence[str]) -> Wanted:
    """The read of these partitions alone; one that is in none of the queues is an error."""
    rows = find_partitions(connection, wanted.queues, names)
    if missing := set(names) - {row["partition"] for row in rows}:
        raise PartitionNotFound(f'there is no partition "{min(missing)}" in {", ".join(wanted.queues.values())}')
    return narrowed(wanted, [row["partition_id"] for row in rows])


def narrowed(wanted: Wanted, partition_ids: Iterable[int]) -> Wanted:
    """The read without other partitions than these."""
    ids = set(partition_ids)
    if wanted.partition_ids is not None:
        ids &= set(wanted.partition_ids)
    return replace(wanted, partition_ids=tuple(sorted(ids)))


def plan(connection: Connection, wanted: Wanted, options: Options) -> list[SegmentsTask]:
    """The tasks of a read, of about as many messages each."""
    if wanted.partition_ids == ():
        return []
    if options.read_url is not None:
        wanted = replace(wanted, written=written(connection))
    tasks_max, messages = (options.min_partitions, 1) if options.min_partitions else (TASKS_MAX, TASK_MESSAGES)
    rows = connection.rows(
        SLICES, list(wanted.queues), wanted.start.epoch, wanted.start.snapshot, wanted.end.epoch, wanted.end.snapshot,
        tasks_max, messages, wanted.partition_ids, wanted.since, wanted.until,
    )  # fmt: skip
    return [_task(wanted, list(own)) for _, own in groupby(rows, itemgetter("slice"))]


def _task(wanted: Wanted, rows: list[Any]) -> SegmentsTask:
    segments = sum(row["segments"] for row in rows)
    return SegmentsTask(wanted, [_slice(row) for row in rows], segments, sum(row["bytes"] for row in rows) // segments)


def _slice(row: Any) -> Slice:
    following = (row["next_xid"], row["next_partition_id"], row["next_offset"])
    return Slice(
        row["queue_id"],
        row["epoch"],
        row["late"],
        (row["first_xid"], row["first_partition_id"], row["first_offset"]),
        None if row["next_xid"] is None else following,
    )


def offsets_by_queue(given: dict[str, Any], option: str, queues: Iterable[str]) -> dict[str, dict[str, int]]:
    """{"partition": 12} or {"queue": {"partition": 12}} as the latter."""
    names = list(queues)
    if all(isinstance(value, int) for value in given.values()):
        if len(names) != 1:
            raise InvalidArgument(f'{option} of several queues is written {{"queue": {{"partition": 12}}}}')
        return {names[0]: given}
    if unknown := set(given) - set(names):
        raise InvalidArgument(f'{option} names the queue "{min(unknown)}", which is not read')
    return given
