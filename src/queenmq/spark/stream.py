"""Reading a queue as a stream: from one position in commit order to the next, each exactly once.

An offset is `{"tick": 4711}`: everything committed before that tick, however many partitions there are. A micro-batch
that ends between two ticks adds the first transaction it leaves out, `"before": "1.73921"`. `"of"` says whose offset
it is, so that a checkpoint is not used with another queue.
"""

import hashlib
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from queenmq.errors import InvalidArgument, NotPending
from queenmq.spark.batch import start_before
from queenmq.spark.connection import Connection, explanations
from queenmq.spark.groups import SparkGroup
from queenmq.spark.options import Options
from queenmq.spark.planning import Position, Wanted, find_queues, only_partitions, plan, position_at
from queenmq.spark.reading import DataLost, Reading

IDLE_MOVES_ON = timedelta(days=1)  # ticks are kept for 30 days: an idle stream must not stand at one for longer

TAKE_TICK = "select queen.take_tick()"
INSTALLATION = "select id::text from queen.system_state"
LIMIT = "select * from queen.limit_messages($1, $2, $3, $4, $5, $6)"
AGE = """
select extract(epoch from l.taken_at - f.taken_at)::float8
  from queen.find_tick($1) f, queen.find_tick($2) l where f.taken_at > '-infinity'
"""
LOST = """
select q.name, sum(h.messages)::bigint as messages, count(*) as times from queen.retention_history h
  join queen.queues q on q.id = h.queue_id
 where h.queue_id = any ($1) and (h.newest_epoch > $2 or h.newest_epoch = $2
       and not pg_visible_in_snapshot(h.newest_xid, $3))
 group by q.name order by q.name limit 1
"""

Offset = dict[str, Any]


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Finds the next position and plans micro-batches in the driver; tasks are read in the executors."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._reading = Reading(options, schema)
        self._connection: Connection | None = None
        self._group: SparkGroup | None = None  # on this connection
        self._name = ""  # whose offsets ours are
        self._target: int | None = None  # of Trigger.AvailableNow
        self._done: Offset = {"tick": 0}  # what Spark has finished

    # -- positions

    def initialOffset(self) -> Offset:  # noqa: N802 (Spark's name)
        """Where a query without a checkpoint begins."""
        with explanations():
            connection = self._connected()
            given = self._options.starting_offsets
            if self._options.starting_timestamp is not None:
                tick = start_before(connection, self._options.starting_timestamp)
            elif isinstance(given, dict):
                if set(given) != {"tick"}:
                    raise InvalidArgument('a stream starts at earliest, latest or {"tick": 7}, not at single offsets')
                tick = given["tick"]
            else:
                tick = 0 if given == "earliest" else connection.value(TAKE_TICK)
            self._queues(connection, position_at(connection, tick))
            return self._offset(tick)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """How far the next micro-batch goes: to a tick taken now, or as far as the limit allows."""
        with explanations():
            connection = self._connected()
            begin = self._position(connection, start)
            queues = self._queues(connection, begin)
            self._finish(queues, start, begin)
            newest = self._target or connection.value(TAKE_TICK)
            if newest <= start["tick"] and "before" not in start:
                return start
            end = position_at(connection, newest)
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
            found = connection.row(LIMIT, list(queues), begin.epoch, begin.snapshot, end.epoch, end.snapshot, most)
            if not found["messages"] and not self._is_old(connection, start["tick"], newest):
                return start
            cut = {} if found["xid"] is None else {"before": f"{found['epoch']}.{found['xid']}"}
            return self._offset(newest) | cut

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """`maxOffsetsPerTrigger`, in whole transactions."""
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """For the query's progress: the newest tick, and how long after the last offset it was taken."""
        with explanations():
            connection = self._connected()
            newest = connection.value(TAKE_TICK)
            behind = connection.value(AGE, self._done["tick"], newest)
            return self._offset(newest) | ({} if behind is None else {"behind_seconds": round(behind, 3)})

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read what is there now, and stop."""
        with explanations():
            self._target = self._connected().value(TAKE_TICK)

    # -- micro-batches

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The tasks between two offsets: the same ones whenever it is asked."""
        with explanations():
            connection = self._connected()
            begin = self._position(connection, start)
            wanted = Wanted(
                self._queues(connection, begin),
                begin,
                self._position(connection, end),
                since=self._options.starting_timestamp,
            )
            if self._options.fail_on_data_loss and start["tick"]:
                _check_retention(connection, wanted)
            if self._options.partitions:
                wanted = only_partitions(connection, wanted, self._options.partitions)
            return plan(connection, wanted, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one task."""
        return self._reading.read(partition)

    def commit(self, end: Offset) -> None:
        """Spark needs nothing before `end` again: the group has read it."""
        with explanations():
            connection = self._connected()
            position = self._position(connection, end)
            self._finish(self._queues(connection, position), end, position)

    def stop(self) -> None:
        """The query has ended."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _finish(self, queues: dict[int, str], offset: Offset, position: Position) -> None:
        """Everything up to an offset is done: Spark commits it, or asks what comes after it.

        The last batch of a query that ends is never committed, but Spark asks what comes after it.
        """
        if self._group is not None and offset != self._done:
            self._group.advance(queues, position)
        self._done = offset

    def _connected(self) -> Connection:
        """The query's one connection in the driver; made anew when it was lost."""
        if self._connection is None or self._connection.closed:
            connection = Connection(self._options.dsn(reading=False))
            try:
                installation = connection.value(INSTALLATION)
                self._name = hashlib.sha256(f"{installation}\n{self._options.queue}".encode()).hexdigest()[:12]
            except BaseException:
                connection.close()
                raise
            self._connection = connection
            self._group = SparkGroup(connection, self._options.group) if self._options.group else None
        return self._connection

    def _queues(self, connection: Connection, position: Position) -> dict[int, str]:
        """The queues that there are now; those that the group does not know yet it reads from the position on."""
        queues = find_queues(connection, self._options.queue)
        if self._group is not None:
            self._group.hold(queues, position)
        return queues

    def _offset(self, tick: int) -> Offset:
        return {"tick": tick, "of": self._name}

    def _position(self, connection: Connection, offset: Offset) -> Position:
        if offset.get("of") != self._name:
            raise NotPending(
                f'the checkpoint of this query is not one of "{self._options.queue}" on this server; '
                "use a new checkpointLocation, or the queue and the database that it belongs to"
            )
        return position_at(connection, offset["tick"], offset.get("before"))

    def _is_old(self, connection: Connection, tick: int, newest: int) -> bool:
        seconds = connection.value(AGE, tick, newest)
        return seconds is not None and seconds > IDLE_MOVES_ON.total_seconds()


def _check_retention(connection: Connection, wanted: Wanted) -> None:
    row = connection.row(LOST, list(wanted.queues), wanted.start.epoch, wanted.start.snapshot)
    if row is not None:
        raise DataLost(
            f'retention has deleted messages of queue "{row["name"]}" that this query has not read '
            f"({row['messages']} messages went in the {row['times']} rounds that touched them)"
        )
