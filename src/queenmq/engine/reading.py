"""Reads by offset: what is stored in partitions, without a lease and without a group, and which of them changed."""

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Raw, Struct

from queenmq.config import Settings
from queenmq.engine.memory import History, Memory
from queenmq.engine.postgres.database import Database
from queenmq.engine.segments import Range, Segment
from queenmq.errors import EncryptionRequired, PositionLost, QueueNotFound
from queenmq.model import Headers, message_id, milliseconds, read_headers

RANGES = "select * from queen.read_ranges($1, $2, $3, $4, $5, $6, $7, $8)"
SAFE_TIME = "select queen.safe_time()"
CHANGED = "select * from queen.changed_partitions($1, $2, $3, $4)"

OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"
UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"


class OffsetRead(Struct, frozen=True):
    """What to read: a partition from an offset on, so many bytes of payload; one message comes in any case.

    `previous`: when the message before the offset was written, if the reader knows it. If that is another message
    now, PostgreSQL has lost what was read, and the answer is an error.
    """

    queue: str
    partition: str
    offset: int
    bytes_max: int
    previous: datetime | None = None


class Record(Struct, frozen=True, gc=False):
    """A stored message."""

    offset: int
    transaction_id: str
    payload: Raw
    created_at: datetime
    given_headers: Raw | None = None

    @property
    def headers(self) -> Headers:
        """The producer's headers; empty where there are none."""
        return read_headers(self.given_headers)

    @property
    def bytes(self) -> int:
        """What it counts in an answer of bounded size."""
        return len(self.payload) + (len(self.given_headers) if self.given_headers is not None else 0)


class Records(Struct, frozen=True, kw_only=True):
    """The answer to one read; `error` is a code that says why there are none."""

    records: Sequence[Record] = ()
    start_offset: int = 0
    next_offset: int = 0
    error: str | None = None


class ChangesAsked(Struct, frozen=True, kw_only=True):
    """Which partitions of a queue are asked for: written at or after `since`, from `cursor` on."""

    queue: str
    since: datetime | None = None
    cursor: str | None = None
    limit: int = 1000


class ChangedPartition(Struct, frozen=True, kw_only=True):
    """A partition's ends, and when it was last written."""

    partition: str
    partition_id: int
    start_offset: int
    next_offset: int
    last_message_at: datetime
    cursor: str


class Changes(Struct, frozen=True):
    """What was written; before `safe_time`, nothing more will turn out to have been written."""

    safe_time: datetime
    partitions: Sequence[Sequence[ChangedPartition] | None]  # one list per question; None: there is no such queue


class Reader:
    """Reads partitions by offset."""

    def __init__(self, database: Database, settings: Settings, history: History) -> None:
        self._database = database
        self._bytes_max = settings.pop_bytes_max
        self._history = history

    async def read(self, reads: Sequence[OffsetRead], bytes_max: int) -> list[Records]:
        """Messages of each read in order, `bytes_max` together; what is wrong with one harms no other.

        A read gets one message in any case if there is one. But if the answer would have more than `pop_bytes_max`
        bytes then, the read gets nothing, and the caller repeats it.
        """
        return await self._history.run(lambda memory: self._read(memory, reads, min(bytes_max, self._bytes_max)))

    async def _read(self, memory: Memory, reads: Sequence[OffsetRead], bytes_max: int) -> list[Records]:
        rows = await self._database.rows(
            RANGES,
            [read.queue for read in reads],
            [read.partition for read in reads],
            [read.offset for read in reads],
            [read.bytes_max for read in reads],
            bytes_max,
            memory.incarnation,
            self._bytes_max,
            [read.previous for read in reads],
        )
        ranges = [_range(read, row) for read, row in zip(reads, rows, strict=True)]
        segments = await memory.stored.read([each for each in ranges if each[1] < each[2]])
        answers = []
        room: float = math.inf  # bytes that may still be answered: the first message may be of any size
        for read, row, each in zip(reads, rows, ranges, strict=True):
            answer = _answer(read, row, segments.get(each, ()), min(read.bytes_max, bytes_max), room)
            if answer.records:
                used = sum(record.bytes for record in answer.records)
                bytes_max -= used
                room = min(room, self._bytes_max) - used
            answers.append(answer)
        return answers

    async def changes(self, asked: Sequence[ChangesAsked]) -> Changes:
        """Partitions that were written since a moment; the safe time is taken first, so it holds for all of them."""
        safe_time = await self._database.value(SAFE_TIME)
        return Changes(safe_time, [await self._changes(each) for each in asked])

    async def _changes(self, asked: ChangesAsked) -> Sequence[ChangedPartition] | None:
        try:
            rows = await self._database.rows(CHANGED, asked.queue, asked.since, asked.cursor, asked.limit)
        except QueueNotFound:
            return None
        return [ChangedPartition(**dict(row)) for row in rows]


def _range(read: OffsetRead, row: Any) -> Range:
    """What to load; nothing where nothing can be read."""
    return (row["partition_id"] or 0, read.offset, row["to_offset"])


def _answer(
    read: OffsetRead, row: Any, segments: Sequence[Segment] | EncryptionRequired, bytes_max: int, room: float
) -> Records:
    start, end, to = row["start_offset"], row["next_offset"], row["to_offset"]
    if row["partition_id"] is None:
        return Records(error=UNKNOWN)
    if row["lost"]:
        return Records(start_offset=start, next_offset=end, error=PositionLost.code)
    if isinstance(segments, EncryptionRequired):
        return Records(start_offset=start, next_offset=end, error=segments.code)
    stored = (each.first_offset for each in segments if read.offset < each.end and each.first_offset < to)
    first = next(stored, to)
    if first > read.offset:  # some were deleted since we asked where they are
        start = first
    if not start <= read.offset <= end:
        return Records(start_offset=start, next_offset=end, error=OUT_OF_RANGE)
    return Records(records=_records(read, to, segments, bytes_max, room), start_offset=start, next_offset=end)


def _records(read: OffsetRead, to: int, segments: Sequence[Segment], bytes_max: int, room: float) -> list[Record]:
    """As many as have `bytes_max` bytes; the first one if there is room for it."""
    records: list[Record] = []
    for segment in segments:
        ids, headers = segment.transaction_ids, segment.headers
        for offset in range(max(read.offset, segment.first_offset), min(to, segment.end)):
            place = offset - segment.first_offset
            name = ids[place] if ids else None
            if name is None:
                name = str(message_id(milliseconds(segment.created_at), segment.partition_id, offset))
            record = Record(
                offset,
                name,
                segment.payloads[place],
                segment.created_at,
                headers[place] if headers is not None else None,
            )
            bytes_max -= record.bytes
            if (records and bytes_max < 0) or record.bytes > room:
                return records
            room -= record.bytes
            records.append(record)
    return records
