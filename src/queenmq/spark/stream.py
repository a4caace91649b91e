"""Reading a queue as a stream: from one position in commit order to the next, each exactly once.

An offset is `{"tick": 4711, "mark": "…", "trail": […]}`: everything committed before that tick, however many partitions
there are, and the proof that PostgreSQL has not lost it (positions.py). A micro-batch that ends between two ticks adds
the first transaction it leaves out, `"before": "1.73921"`. `"of"` says whose offset it is, so that a checkpoint is not
used with another queue.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from queenmq.errors import DatabaseUnavailable, InvalidArgument, NotPending
from queenmq.spark.batch import start_before
from queenmq.spark.connection import Connection, connect_within, explanations
from queenmq.spark.groups import SparkGroup
from queenmq.spark.options import Options, is_tick
from queenmq.spark.planning import Wanted, find_queues, only_partitions, plan
from queenmq.spark.positions import BEGINNING, Kept, Position, find, position_at
from queenmq.spark.reading import DataLost, Reading

RECONNECT_SECONDS_MAX = 60.0  # while another server is promoted
IDLE_MOVES_ON = timedelta(days=1)  # ticks are kept for 30 days: an idle stream must not stand at one for longer

TAKE_TICK = "select queen.take_tick()"
INSTALLATION = "select id::text from queen.system_state"
LIMIT = "select * from queen.limit_messages($1, $2, $3, $4, $5, $6)"
AGE = """
select extract(epoch from l.taken_at - f.taken_at)::float8
  from queen.ticks f, queen.ticks l where f.id = $1 and l.id = $2
"""
LOST = """
select q.name, sum(h.messages)::bigint as messages, count(*) as times from queen.retention_history h
  join queen.queues q on q.id = h.queue_id
 where h.queue_id = any ($1) and (h.newest_epoch > $2 or h.newest_epoch = $2
       and not pg_visible_in_snapshot(h.newest_xid, $3))
 group by q.name order by q.name limit 1
"""

Offset = dict[str, Any]
P = ParamSpec("P")
T = TypeVar("T")


def surviving(
    method: Callable[Concatenate["QueueStreamReader", P], T],
) -> Callable[Concatenate["QueueStreamReader", P], T]:
    """Let a step of the driver survive that PostgreSQL is restarted, or another server takes over: it is done again.

    That is safe: no step changes anything that the same step would not change again. A position that the other server
    does not have is an error.
    """

    @wraps(method)
    def step(self: "QueueStreamReader", /, *arguments: P.args, **named: P.kwargs) -> T:
        with explanations():
            try:
                return method(self, *arguments, **named)
            except DatabaseUnavailable:
                if not self.disconnect():
                    raise
            return method(self, *arguments, **named)

    return step


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Finds the next position and plans micro-batches in the driver; tasks are read in the executors."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._reading = Reading(options, schema)
        self._connection: Connection | None = None
        self._group: SparkGroup | None = None  # on this connection
        self._name = ""  # whose offsets ours are
        self._target: Offset | None = None  # of Trigger.AvailableNow
        self._done: Offset = {"tick": 0}  # what Spark has finished

    # -- positions

    @surviving
    def initialOffset(self) -> Offset:  # noqa: N802 (Spark's name)
        """Where a query without a checkpoint begins."""
        connection = self._connected()
        given = self._options.starting_offsets
        if self._options.starting_timestamp is not None:
            position = position_at(connection, start_before(connection, self._options.starting_timestamp))
        elif given == "latest":
            position = self._newest(connection)
        elif given == "earliest":
            position = BEGINNING
        elif is_tick(given):
            position = self._found(connection, given)
        else:
            raise InvalidArgument('a stream starts at earliest, latest or {"tick": 7}, not at single offsets')
        self._queues(connection, position)
        return self._offset(position)

    @surviving
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """How far the next micro-batch goes: to a tick taken now, or as far as the limit allows."""
        connection = self._connected()
        begin = self._position(connection, start)
        queues = self._queues(connection, begin)
        self._finish(queues, start, begin)
        newest = self._newest(connection) if self._target is None else self._found(connection, self._target)
        stays = _is_proven(start, begin)
        if stays and newest.tick <= begin.tick and "before" not in start:
            return start
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        found = connection.row(LIMIT, list(queues), begin.epoch, begin.snapshot, newest.epoch, newest.snapshot, most)
        if stays and not found["messages"] and not self._is_old(connection, begin.tick, newest.tick):
            return start
        cut = {} if found["xid"] is None else {"before": f"{found['epoch']}.{found['xid']}"}
        return self._offset(newest) | cut

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """`maxOffsetsPerTrigger`, in whole transactions."""
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    @surviving
    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """For the query's progress: the newest tick, and how long after the last offset it was taken."""
        connection = self._connected()
        newest = self._newest(connection)
        behind = connection.value(AGE, self._done["tick"], newest.tick)
        return self._offset(newest) | ({} if behind is None else {"behind_seconds": round(behind, 3)})

    @surviving
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read what is there now, and stop."""
        self._target = self._newest(self._connected()).kept

    # -- micro-batches

    @surviving
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The tasks between two offsets: the same ones whenever it is asked."""
        connection = self._connected()
        queues = self._queues(connection, self._position(connection, start))
        with connection.transaction():  # on one server, also behind a pooler
            begin, finish = self._position(connection, start), self._position(connection, end)
            wanted = Wanted(queues, begin, finish, since=self._options.starting_timestamp)
            if self._options.fail_on_data_loss and start["tick"]:
                _check_retention(connection, wanted)
            if self._options.partitions:
                wanted = only_partitions(connection, wanted, self._options.partitions)
            return plan(connection, wanted, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one task."""
        return self._reading.read(partition)

    @surviving
    def commit(self, end: Offset) -> None:
        """Spark needs nothing before `end` again: the group has read it."""
        connection = self._connected()
        position = self._position(connection, end)
        self._finish(self._queues(connection, position), end, position)

    def stop(self) -> None:
        """The query has ended."""
        self.disconnect()
        self._connection = None

    def disconnect(self) -> bool:
        """End the session; False if there has never been one."""
        if self._connection is None:
            return False
        self._connection.close()
        return True

    def _finish(self, queues: dict[int, str], offset: Offset, position: Position) -> None:
        """Everything up to an offset is done: Spark commits it, or asks what comes after it.

        The last batch of a query that ends is never committed, but Spark asks what comes after it.
        """
        if self._group is not None and offset != self._done:
            self._group.advance(queues, position)
        self._done = offset

    def _connected(self) -> Connection:
        """The query's one connection in the driver. If it was lost it is made anew, when a server is there."""
        if self._connection is None or self._connection.closed:
            seconds = 0.0 if self._connection is None else RECONNECT_SECONDS_MAX
            connection = connect_within(seconds, self._options.dsn(reading=False))
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

    def _offset(self, position: Position) -> Offset:
        return position.kept | {"of": self._name}

    def _newest(self, connection: Connection) -> Position:
        """The newest tick; a new one, if something was written since the last."""
        return position_at(connection, connection.value(TAKE_TICK))

    def _position(self, connection: Connection, offset: Offset) -> Position:
        if offset.get("of") != self._name:
            raise NotPending(
                f'the checkpoint of this query is not one of "{self._options.queue}" on this server; '
                "use a new checkpointLocation, or the queue and the database that it belongs to"
            )
        return self._found(connection, offset)

    def _found(self, connection: Connection, kept: Kept) -> Position:
        return find(connection, kept, tolerant=not self._options.fail_on_data_loss)

    def _is_old(self, connection: Connection, tick: int, newest: int) -> bool:
        seconds = connection.value(AGE, tick, newest)
        return seconds is not None and seconds > IDLE_MOVES_ON.total_seconds()


def _is_proven(offset: Offset, position: Position) -> bool:
    """Whether a query may stay at an offset: PostgreSQL has not lost it, and it has a mark (once they had none)."""
    return offset["tick"] == position.tick and ("mark" in offset or not position.tick)


def _check_retention(connection: Connection, wanted: Wanted) -> None:
    row = connection.row(LOST, list(wanted.queues), wanted.start.epoch, wanted.start.snapshot)
    if row is not None:
        raise DataLost(
            f'retention has deleted messages of queue "{row["name"]}" that this query has not read '
            f"({row['messages']} messages went in the {row['times']} rounds that touched them)"
        )
