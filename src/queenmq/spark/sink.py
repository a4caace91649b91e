"""Writing a DataFrame or a stream into a queue: visible all at once when Spark commits, and only once.

Tasks stage segments; the driver gives them their places in one transaction, which also notes the batch. A batch that
Spark writes again, because it never heard that it had succeeded, is recognised and dropped.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, StringType, StructType

from queenmq.config import Settings
from queenmq.engine.crypto import Cipher
from queenmq.engine.partitions import check_name
from queenmq.errors import EncryptionRequired, InvalidArgument, InvalidPayload, PositionLost
from queenmq.spark.connection import Connection, explanations
from queenmq.spark.nearest import nearest
from queenmq.spark.options import Options
from queenmq.spark.workers import working

ENCRYPTED = "select encryption_enabled from queen.queues where name = $1"
COMMIT = "select queen.commit_write($1, $2, $3, $4, $5, $6, p_fail_on_gap => $7)"
DISCARD = "select queen.discard_staged($1, $2)"
WAKE = "select pg_notify('queen_wake', json_build_object($1::text, 1)::text)"


@dataclass
class Staged(WriterCommitMessage):
    """What a task has staged, for the driver to commit."""

    task: int
    write_id: str
    stage_id: int
    segments: int


class BatchesLost(PositionLost):
    """PostgreSQL has lost batches that Spark counts as written."""

    hint = (
        "Write again what these batches held, if their source still has it. Then set failOnDataLoss to false to go on "
        "with the next batch, or start the query with a new checkpointLocation."
    )


class Writing:
    """What batch and streaming writes have in common."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        _check_schema(options, schema)
        check_name(options.queue, "queue")

    def stage(self, rows: Iterator[pa.RecordBatch], write_id: str, epoch: int, task: int) -> Staged:
        """Stage the rows of a task; a task that fails leaves nothing."""
        from queenmq.spark.staging import Stage  # noqa: PLC0415 (only tasks need it, and it takes a while to import)

        settings = Settings.load()
        with explanations(), working(self._options.dsn(reading=False), settings, {}) as connection:
            prefix = f"spark:{write_id}:{epoch}:{task}"
            cipher = self._cipher(connection, settings)
            stage = Stage(connection, write_id, prefix, cipher, settings.payload_bytes_max)
            try:
                for batch in rows:
                    stage.add(*(self._column(batch, name) for name in self._columns()))
                stage.flush()
            except BaseException:
                if not connection.closed:
                    stage.discard()
                raise
            return Staged(task, write_id, stage.id, stage.segments)

    def commit(self, messages: list[WriterCommitMessage | None], epoch: int) -> None:
        """Make what was staged visible, in one transaction."""
        staged = sorted((each for each in messages if isinstance(each, Staged)), key=lambda each: each.task)
        if not staged:
            return
        ids = [each.stage_id for each in staged]
        segments = sum(each.segments for each in staged)
        options = self._options
        own_ids, strict = options.transaction_id_column is not None, options.fail_on_data_loss
        with explanations(), Connection(options.dsn(reading=False)) as connection:
            try:
                connection.value(COMMIT, staged[0].write_id, epoch, options.queue, ids, segments, own_ids, strict)
            except PositionLost as error:
                raise BatchesLost(error.message) from None
            connection.await_standbys()  # Spark does not write a batch again that it counts as written
            connection.value(WAKE, self._options.queue)  # apart: a notification in a push makes others wait

    def abort(self, messages: list[WriterCommitMessage | None], write_id: str | None = None) -> None:
        """Throw away what the tasks have staged; what one stages that is still at it goes with a later commit."""
        ids = [each.stage_id for each in messages if isinstance(each, Staged)]
        with explanations(), Connection(self._options.dsn(reading=False)) as connection:
            connection.value(DISCARD, ids, write_id)

    def _columns(self) -> tuple[str | None, ...]:
        options = self._options
        return "payload", options.partition_column, options.transaction_id_column, options.trace_id_column

    def _column(self, batch: pa.RecordBatch, name: str | None) -> Any:
        return None if name is None else batch.column(batch.schema.names.index(name))

    def _cipher(self, connection: Connection, settings: Settings) -> Cipher | None:
        if not connection.value(ENCRYPTED, self._options.queue):
            return None
        cipher = Cipher(settings.key_ring())
        if not cipher.can_encrypt:
            raise EncryptionRequired(f'queue "{self._options.queue}" is encrypted and this executor has no key')
        return cipher


class QueueWriter(DataSourceArrowWriter):
    """One `df.write…save()`: one batch."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._writing = Writing(options, schema)
        self._write_id = options.write_id or f"save:{uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of a task."""
        return self._writing.stage(iterator, self._write_id, 0, _task().partitionId())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the rows of all tasks visible."""
        self._writing.commit(messages, 0)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leave nothing."""
        self._writing.abort(messages, self._write_id)


class QueueStreamWriter(DataSourceStreamArrowWriter):
    """The micro-batches of a query; each is written once, whatever is repeated."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._writing = Writing(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of a task."""
        task = _task()
        query, epoch = (task.getLocalProperty(name) for name in ("sql.streaming.queryId", "streaming.sql.batchId"))
        if query is None or epoch is None:
            raise InvalidArgument("this version of Spark does not tell tasks which query they belong to")
        return self._writing.stage(iterator, query, int(epoch), task.partitionId())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Make the micro-batch visible."""
        self._writing.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Leave nothing."""
        self._writing.abort(messages)


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None
    return task


def _check_schema(options: Options, schema: StructType) -> None:
    """Refuse a DataFrame that cannot be written before anything runs."""
    for column in (options.partition_column, options.transaction_id_column, options.trace_id_column):
        if column is not None and column not in schema.names:
            raise InvalidArgument(f'the DataFrame has no column "{column}"{nearest(column, schema.names)}')
    if "payload" not in schema.names:
        raise InvalidPayload('the DataFrame has no column "payload"; make one with to_json(struct(…)) AS payload')
    if not isinstance(schema["payload"].dataType, StringType | BinaryType):
        kind = schema["payload"].dataType.simpleString()
        raise InvalidPayload(f"the column payload is {kind}; write JSON text: to_json(payload) AS payload")
