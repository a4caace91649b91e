"""Reading a queue as a table: everything that is committed when the query is planned."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from queenmq.errors import InvalidArgument, PartitionNotFound
from queenmq.spark.connection import Connection, explanations
from queenmq.spark.filters import Filters, largest, smallest
from queenmq.spark.options import Options, is_tick
from queenmq.spark.planning import (
    OFFSET_MAX,
    DeadLettersTask,
    Wanted,
    find_partitions,
    find_queues,
    narrowed,
    offsets_by_queue,
    only_partitions,
    plan,
)
from queenmq.spark.positions import BEGINNING, Position, find, latest, position_at
from queenmq.spark.reading import DataLost, Reading
from queenmq.spark.replicas import wait_until_known

TRACED = """
select partition_id, min("offset") as low, max("offset") + 1 as high from queen.message_traces
 where trace_id = any ($1::text[]::uuid[]) group by partition_id
"""
TICK_BEFORE = "select id from queen.ticks where taken_at < $1 order by id desc limit 1"
TICK_MARGIN = timedelta(minutes=1)  # a tick's time is read a moment before its snapshot is taken


class QueueReader(DataSourceReader):
    """Plans a batch read in the driver, and reads its tasks in the executors."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._reading = Reading(options, schema)
        self._filters = Filters()

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks, of about as many messages each."""
        with explanations(), Connection(self._options.dsn(reading=True)) as connection, connection.transaction():
            wanted = self._wanted(connection)
            if not wanted.queues or wanted.partition_ids == ():
                return [InputPartition(None)]
            tasks: list[InputPartition] = [*plan(connection, wanted, self._options)]
            if self._options.include_dead_letters:
                tasks.append(DeadLettersTask(wanted))
            return tasks or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one task."""
        return self._reading.read(partition)

    def _wanted(self, connection: Connection) -> Wanted:
        options, filters = self._options, self._filters
        queues = find_queues(connection, options.queue)
        if filters.queues is not None:
            queues = {id: name for id, name in queues.items() if name in filters.queues}
        wanted = Wanted(
            queues,
            _position(connection, options, start=True),
            _position(connection, options, start=False),
            bounds=self._bounds(connection, queues),
            since=largest(options.starting_timestamp, filters.since),
            until=smallest(options.ending_timestamp, filters.until),
            low=filters.low or 0,
            high=OFFSET_MAX if filters.high is None else filters.high,
        )
        if options.partitions:
            wanted = only_partitions(connection, wanted, options.partitions)
        if filters.partitions is not None:
            rows = find_partitions(connection, queues, filters.partitions)
            wanted = narrowed(wanted, [row["partition_id"] for row in rows])
        return wanted if filters.trace_ids is None else _traced(connection, wanted, filters.trace_ids)

    def _bounds(self, connection: Connection, queues: dict[int, str]) -> dict[int, tuple[int, int]]:
        """Where offsets were given: the first of a partition, and the one after the last."""
        lows = _offsets(connection, self._options.starting_offsets, "startingOffsets", queues)
        highs = _offsets(connection, self._options.ending_offsets, "endingOffsets", queues)
        if self._options.fail_on_data_loss:
            for row, low in lows.values():
                if low < row["start_offset"]:
                    raise DataLost(
                        f'partition "{row["partition"]}" of queue "{row["queue"]}" begins with offset '
                        f"{row['start_offset']}, and startingOffsets asks for {low}"
                    )
        return {
            id: (lows[id][1] if id in lows else 0, highs[id][1] if id in highs else OFFSET_MAX)
            for id in lows.keys() | highs.keys()
        }


class FilteringReader(QueueReader):
    """A batch read that leaves out in PostgreSQL what Spark does not want.

    Only on request: Spark keeps the conditions of one query for the next one of the same DataFrame.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        """Take over the conditions that PostgreSQL can check."""
        return self._filters.take(filters)


def start_before(connection: Connection, moment: datetime) -> int:
    """A tick before which nothing was written at or after a moment; 0 for the beginning."""
    return connection.value(TICK_BEFORE, moment - TICK_MARGIN) or 0


def _position(connection: Connection, options: Options, *, start: bool) -> Position:
    if start and options.starting_timestamp is not None:
        return position_at(connection, start_before(connection, options.starting_timestamp))
    given = options.starting_offsets if start else options.ending_offsets
    if given == "latest":
        return latest(connection)
    if given == "earliest":
        if not start:
            raise InvalidArgument("endingOffsets is latest or JSON, never earliest")
        return BEGINNING
    if is_tick(given):
        if options.read_url is not None and given["tick"] and "mark" in given:
            wait_until_known(connection, given["tick"], given["mark"])
        return find(connection, given, tolerant=not options.fail_on_data_loss)
    return BEGINNING if start else latest(connection)


def _offsets(connection: Connection, given: Any, option: str, queues: dict[int, str]) -> dict[int, tuple[Any, int]]:
    """The offsets that an option names, by partition id."""
    if isinstance(given, str) or is_tick(given):
        return {}
    by_queue = offsets_by_queue(given, option, queues.values())
    wanted = {(queue, partition): offset for queue, own in by_queue.items() for partition, offset in own.items()}
    rows = find_partitions(connection, queues, {partition for _, partition in wanted})
    found = {(row["queue"], row["partition"]): row for row in rows}
    if missing := wanted.keys() - found.keys():
        queue, partition = min(missing)
        raise PartitionNotFound(f'{option} names the partition "{partition}", which queue "{queue}" does not have')
    return {found[name]["partition_id"]: (found[name], offset) for name, offset in wanted.items()}


def _traced(connection: Connection, wanted: Wanted, trace_ids: Iterable[str]) -> Wanted:
    """The read of the partitions that hold messages of some traces, and there not far around them."""
    rows = connection.rows(TRACED, [each for each in trace_ids if _is_uuid(each)])
    bounds = dict(wanted.bounds)
    for row in rows:
        low, high = bounds.get(row["partition_id"], (0, OFFSET_MAX))
        bounds[row["partition_id"]] = max(low, row["low"]), min(high, row["high"])
    return narrowed(replace(wanted, bounds=bounds), [row["partition_id"] for row in rows])


def _is_uuid(text: str) -> bool:
    digits = text.replace("-", "")
    return len(digits) == 32 and all(each in "0123456789abcdefABCDEF" for each in digits)
