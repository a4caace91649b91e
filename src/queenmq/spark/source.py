"""`format("queen")`: queues as tables and streams."""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from queenmq.errors import InvalidArgument
from queenmq.spark import columns
from queenmq.spark.batch import FilteringReader, QueueReader
from queenmq.spark.connection import explanations
from queenmq.spark.options import BATCH, STREAM, STREAM_WRITE, WRITE, Options
from queenmq.spark.sink import QueueStreamWriter, QueueWriter
from queenmq.spark.stream import QueueStreamReader


class QueenDataSource(DataSource):
    """Queues of Queen in Spark: batch and stream, read and write.

    Reading, batch and stream:

    url               PostgreSQL; QUEEN_DSN by default. Never in plans, logs or Spark's pages
    readUrl           a replica to read messages from
    queue             one, several (`a, b`), `namespace:shop` or `task:mail`
    partitions        only these: `ann,bob` or a JSON list
    columns           only these: `offset,payload`; `.schema(…)` with some of the columns does the same
    payloadFormat     `json` (default), `binary`, `variant`, or the DDL of the payload's fields
    mode              a payload that does not fit: `permissive` (null, and `payload_error` says why) or `failfast`
    startingOffsets   `earliest` (default), `latest`, `{"tick": 7}`; in a batch also offsets by partition
    startingTimestamp RFC 3339, or milliseconds since 1970
    minPartitions     so many tasks; by default one per 250,000 messages, up to 64
    failOnDataLoss    `true` (default): what was deleted before it could be read is an error

    Batch alone: endingOffsets, endingTimestamp, includeDeadLetters, undecryptable (`error` or `null`), and pushFilters
    (docs/spark.md says when).
    Stream alone: group (its lag shows, and retention waits for it) and maxOffsetsPerTrigger.

    Writing, batch and stream: url, queue, partitionColumn, transactionIdColumn, traceIdColumn; batch alone: writeId,
    under which a write happens once; stream alone: failOnDataLoss, `false` to go on although PostgreSQL has lost
    batches. The column payload holds JSON text.

    >>> orders = spark.read.format("queen").option("queue", "orders").load()
    >>> orders.select("partition", "offset", "payload").show()
    +---------+------+-----------+
    |partition|offset|    payload|
    +---------+------+-----------+
    |      ann|     0|{"total":7}|
    +---------+------+-----------+
    """

    @classmethod
    def name(cls) -> str:
        """What follows `format`."""
        return "queen"

    def schema(self) -> str:
        """The columns of a read as DDL."""
        with explanations():
            options = Options.of(self.options, BATCH | STREAM, "a read")
            return columns.table(
                options.payload_format,
                options.columns,
                dead_letters=options.include_dead_letters,
                undecryptable=options.undecryptable == "null",
            )

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read."""
        with explanations():
            options = Options.of(self.options, BATCH, "a batch read")
            columns.check(schema.names, columns.ALL)
            return (FilteringReader if options.push_filters else QueueReader)(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        """A stream."""
        with explanations():
            options = Options.of(self.options, STREAM, "a stream")
            columns.check(schema.names, columns.ALL)
            return QueueStreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 (Spark's signature)
        """A batch write."""
        with explanations():
            _only_append(overwrite=overwrite)
            return QueueWriter(Options.of(self.options, WRITE, "a batch write"), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802
        """The sink of a query."""
        with explanations():
            _only_append(overwrite=overwrite)
            return QueueStreamWriter(Options.of(self.options, STREAM_WRITE, "a streaming write"), schema)


def _only_append(*, overwrite: bool) -> None:
    if overwrite:
        raise InvalidArgument("a queue is appended to, never overwritten: use mode append")
