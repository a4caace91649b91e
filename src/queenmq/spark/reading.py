"""What a task does: read its range of segments, and hand them to Spark as Arrow."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from queenmq.config import Settings
from queenmq.engine.crypto import Cipher
from queenmq.errors import MessageNotFound
from queenmq.spark.columns import DEAD_LETTER_COLUMNS, ERROR_COLUMN
from queenmq.spark.connection import Connection, explanations
from queenmq.spark.options import Options
from queenmq.spark.planning import DeadLettersTask, SegmentsTask, Slice, Wanted
from queenmq.spark.replicas import wait_until_known, wait_until_replayed
from queenmq.spark.workers import working

if TYPE_CHECKING:
    from queenmq.spark.arrow import Assembler

FETCH_BYTES = 8 << 20  # about so much at a time: Spark wants large batches, and processors small ones
FETCH_ROWS_MAX = 4_000  # at most so many segments

# A task reads a range of the index. Left alone, PostgreSQL would rather read the whole table, in every task.
PLANS = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "jit": "off",
    "plan_cache_mode": "force_custom_plan",  # a session lives on, and its next range may be of another size
}

PLACE = ("s.partition_id", "s.first_offset", "s.message_count")
NEEDS = {
    "queue": ("s.queue_id",),
    "partition": ("p.name as partition",),
    "partition_id": (),
    "offset": (),
    "message_id": ("s.created_at",),
    "transaction_id": ("s.created_at", "s.transaction_ids"),
    "trace_id": ("s.trace_ids",),
    "created_at": ("s.created_at",),
    "producer": ("s.producer",),
    "headers": ("s.headers",),
    "payload": ("s.payloads", "s.encrypted"),
    ERROR_COLUMN: ("s.payloads", "s.encrypted"),
    "group": ('null::text as "group"',),
    "error": ("null::text as error",),
    "retry_count": ("null::int as retry_count",),
    "failed_at": ("null::timestamptz as failed_at",),
}
DEAD_LETTERS = """
select d.partition_id, d."offset" as first_offset, 1 as message_count, d.queue_id, p.name as partition, d.created_at,
       json_build_array(d.transaction_id)::text as transaction_ids, json_build_array(d.trace_id)::text as trace_ids,
       d.producer, case when d.headers is not null then '[' || d.headers || ']' end as headers,
       '['::bytea || d.payload || ']'::bytea as payloads, d.encrypted, d.group_name as "group", d.error, d.retry_count,
       d.failed_at
  from queen.dead_letters d left join queen.partitions p on p.id = d.partition_id
 where d.queue_id = any ($1) and ($2::bigint[] is null or d.partition_id = any ($2))
   and ($3::timestamptz is null or d.created_at >= $3) and ($4::timestamptz is null or d.created_at < $4)
 order by d.id
"""


class DataLost(MessageNotFound):
    """Messages that were to be read have been deleted."""

    hint = (
        "Keep messages for longer (retention_seconds), read with a group so that retention waits for it, "
        "or set failOnDataLoss to false to go on with what is left."
    )


class Reading:
    """Reads tasks of one schema; what Spark sends to its workers."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def read(self, task: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a task."""
        if not isinstance(task, SegmentsTask | DeadLettersTask):  # there is nothing
            return
        settings = Settings.load()
        assembler = self.assembler(task.wanted, Cipher(settings.key_ring()))
        with explanations(), working(self._options.dsn(reading=True), settings, PLANS) as connection:
            if isinstance(task, DeadLettersTask):
                arguments = (list(task.wanted.queues), task.wanted.partition_ids, task.wanted.since, task.wanted.until)
                for rows in connection.stream(DEAD_LETTERS, *arguments, rows=FETCH_ROWS_MAX):
                    yield assembler.batch(rows)
            else:
                with connection.transaction():  # on one server, also behind a pooler
                    check_history(connection, task.wanted)
                    yield from self._segments(connection, task, assembler)

    def assembler(self, wanted: Wanted, cipher: Cipher) -> "Assembler":
        """What makes record batches of the segments of a read."""
        from queenmq.spark.arrow import Assembler  # noqa: PLC0415 (the process of a stream's driver does without)

        options = self._options
        failfast, tolerant = options.mode == "failfast", options.undecryptable == "null"
        return Assembler(self._schema, wanted.queues, cipher, failfast=failfast, tolerant=tolerant)

    def _segments(self, connection: Connection, task: SegmentsTask, assembler: "Assembler") -> Iterator[pa.RecordBatch]:
        found = 0
        fetch = FETCH_ROWS_MAX
        if not {"payload", ERROR_COLUMN}.isdisjoint(self._schema.names):
            fetch = max(1, min(fetch, FETCH_BYTES // max(task.segment_bytes, 1)))
        for each in task.slices:
            query, arguments = statement(self._schema.names, task.wanted, each)
            for rows in connection.stream(query, *arguments, rows=fetch):
                found += len(rows)
                yield assembler.batch(rows)
        if self._options.fail_on_data_loss and task.wanted.whole and found < task.segments:
            queues = ", ".join(task.wanted.queues.values())
            raise DataLost(f"{task.segments - found} segments of {queues} were deleted while they were being read")


def check_history(connection: Connection, wanted: Wanted) -> None:
    """Make sure that this server has what the read was planned for, in the same history."""
    if wanted.end.tick:
        wait_until_known(connection, wanted.end.tick, wanted.end.mark)
    if wanted.written is not None:
        wait_until_replayed(connection, wanted.written)


def needed(columns: Sequence[str]) -> dict[str, None]:
    """What has to be selected for some columns."""
    return dict.fromkeys((*PLACE, *(need for column in columns for need in NEEDS[column])))


def statement(columns: Sequence[str], wanted: Wanted, part: Slice) -> tuple[str, list[Any]]:
    """The query of one slice, and its arguments: no more columns than are asked for."""
    arguments: list[Any] = []

    def given(value: object) -> str:
        arguments.append(value)
        return f"${len(arguments)}"

    selected = needed(columns)
    tables = ["queen.segments s"]
    conditions = [f"s.queue_id = {given(part.queue_id)}", f"s.epoch = {given(part.epoch)}::smallint"]
    conditions += _bounded(">", ">=", given, part.first)
    if part.next is not None:
        conditions += _bounded("<", "<", given, part.next)
    if part.late:
        conditions.append(f"s.xid = any (array(select pg_snapshot_xip({given(wanted.start.snapshot)}::pg_snapshot)))")
    if part.epoch == wanted.end.epoch:
        end = given(wanted.end.snapshot)
        conditions.append(f"s.xid < pg_snapshot_xmax({end}::pg_snapshot)")
        conditions.append(f"pg_visible_in_snapshot(s.xid, {end}::pg_snapshot)")
    if wanted.partition_ids is not None:
        conditions.append(f"s.partition_id = any ({given(list(wanted.partition_ids))}::bigint[])")
    if wanted.share is not None:
        divisor, remainder = map(given, wanted.share)
        conditions.append(f"s.partition_id % {divisor}::bigint = {remainder}::bigint")
    if wanted.since is not None:
        conditions.append(f"s.created_at >= {given(wanted.since)}")
    if wanted.until is not None:
        conditions.append(f"s.created_at < {given(wanted.until)}")
    if not wanted.whole:
        ids = given(list(wanted.bounds))
        lows = given([low for low, _ in wanted.bounds.values()])
        highs = given([high for _, high in wanted.bounds.values()])
        tables.append(
            f"left join unnest({ids}::bigint[], {lows}::bigint[], {highs}::bigint[]) as b (id, low, high) "
            "on b.id = s.partition_id"
        )
        low = f"greatest({given(wanted.low)}::bigint, b.low)"
        high = f"least({given(wanted.high)}::bigint, b.high)"
        selected |= dict.fromkeys((f"{low} as low", f"{high} as high"))
        conditions += [f"s.first_offset < {high}", f"s.first_offset + s.message_count > {low}"]
    if "partition" in columns:
        tables.append("join queen.partitions p on p.id = s.partition_id")
    query = f"select {', '.join(selected)} from {' '.join(tables)} where {' and '.join(conditions)}"  # noqa: S608 (ours)
    return query, arguments


def _bounded(beyond: str, within: str, given: Any, place: tuple[str, int, int]) -> list[str]:
    """One end of a range in commit order; where it is the beginning of a transaction the index needs no help."""
    xid, partition_id, offset = place
    if (partition_id, offset) == (0, 0):
        return [f"s.xid {within} {given(xid)}::xid8"]
    here = f"(s.partition_id, s.first_offset) {within} ({given(partition_id)}::bigint, {given(offset)}::bigint)"
    return [f"s.xid {beyond}= {given(xid)}::xid8", f"(s.xid {beyond} {given(xid)}::xid8 or {here})"]


assert NEEDS.keys() >= DEAD_LETTER_COLUMNS.keys()
