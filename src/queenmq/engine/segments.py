"""Segments in memory: cached while they are likely to be read again.

A segment never changes after it was written, so it can stay in the cache as long as there is room. A push adds its
segments. So five groups that read one queue read the table once, and so does a consumer that takes the messages of a
large segment one at a time.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from operator import attrgetter
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Raw, Struct

from queenmq.engine.crypto import Cipher
from queenmq.engine.postgres.database import Database
from queenmq.engine.postgres.pg_arrays import Texts
from queenmq.errors import EncryptionRequired
from queenmq.model.payloads import cut, json_array

_uuids = msgspec.json.Decoder(list[UUID | None])
_nothing = Raw(b"null")
_first_offset = attrgetter("first_offset")

FETCH = "select * from queen.fetch_segments($1, $2, $3, $4, $5)"

Range = tuple[int, int, int]  # partition id, from, to

OVERHEAD_BYTES = 200  # of a segment
MESSAGE_OVERHEAD_BYTES = 100  # of a message in it
AHEAD_BYTES_MAX = (
    256 << 10
)  # read behind a range that was not cached, because its reader mostly comes back for what follows


class Segment(Struct, gc=False):
    """Messages of one flush for one partition. Its array is cut into payloads at the first read."""

    partition_id: int
    first_offset: int
    count: int
    created_at: datetime
    array: bytes  # the payloads, as one JSON array
    transaction_ids: Sequence[str | None] | None
    trace_ids: Sequence[UUID | None] | None
    headers: Sequence[Raw | None] | None
    producer: str | None
    cost: int = 0  # bytes of the cache
    read: bool = False  # since it was added, or since the cache last passed over it
    _cut: Sequence[Raw] | None = None

    @property
    def end(self) -> int:
        """The offset after its last message."""
        return self.first_offset + self.count

    @property
    def payloads(self) -> Sequence[Raw]:
        """One for each message."""
        if self._cut is None:
            self._cut = cut(self.array)
        return self._cut

    @classmethod
    def of_row(cls, row: Any, cipher: Cipher) -> "Segment":
        """A segment from a row of queen.fetch_segments."""
        array = row["payloads"]
        if row["encrypted"]:
            array = json_array([cipher.decrypt(bytes(payload)) for payload in cut(array)])
        ids, traces, headers = row["transaction_ids"], row["trace_ids"], row["headers"]
        return cls(
            row["partition_id"],
            row["first_offset"],
            row["message_count"],
            row["created_at"],
            array,
            Texts(ids, row["message_count"]) if ids else None,
            _uuids.decode(traces) if traces else None,
            [None if each == _nothing else each for each in cut(headers)] if headers else None,
            row["producer"],
        )


class SegmentCache:
    """Segments that were pushed or read recently, up to a number of bytes.

    The oldest one is evicted first. If it was read since it was added, it gets a second turn.
    """

    def __init__(self, bytes_max: int) -> None:
        self.hits = 0
        self.misses = 0
        self._bytes_max = bytes_max
        self._bytes = 0
        self._lent = 0
        self._turns: deque[Segment] = deque()
        self._partitions: dict[int, list[Segment]] = {}  # by partition id, in the order of the log

    def count_from(self, other: "SegmentCache") -> None:
        """Continue the counters of another cache."""
        self.hits, self.misses = other.hits, other.misses

    def share(self, partitions: int) -> int:
        """Bytes per partition if so many more partitions were cached."""
        return self._bytes_max // (len(self._partitions) + partitions)

    def put(self, segments: Iterable[Segment]) -> None:
        """Add segments; others may be evicted."""
        partitions, bytes_max = self._partitions, self._bytes_max
        for segment in segments:
            segment.cost = _cost(segment)
            if segment.cost > bytes_max:
                continue
            own = partitions.get(segment.partition_id)
            if own is None:
                partitions[segment.partition_id] = [segment]
            elif own[-1].first_offset < segment.first_offset:
                own.append(segment)
            else:
                index = bisect_left(own, segment.first_offset, key=_first_offset)
                if own[index].first_offset == segment.first_offset:
                    continue
                own.insert(index, segment)
            self._turns.append(segment)
            self._bytes += segment.cost
        self._fit()

    @contextmanager
    def making_room(self, size: int) -> Iterator[None]:
        """Keep so many bytes less for a while: somebody else needs the memory."""
        self._lent += size
        self._fit()
        try:
            yield
        finally:
            self._lent -= size

    def _fit(self) -> None:
        while self._bytes + self._lent > self._bytes_max and self._turns:
            self._evict()

    def covering(self, partition_id: int, start: int, end: int) -> list[Segment] | None:
        """The segments with all messages of a range, in order, or None if one is not cached."""
        found: list[Segment] = []
        own = self._partitions.get(partition_id, [])
        index = bisect_right(own, start, key=_first_offset) - 1
        while start < end:
            if not 0 <= index < len(own) or not own[index].first_offset <= start < own[index].end:
                self.misses += 1
                return None
            segment = own[index]
            segment.read = True
            found.append(segment)
            start = segment.end
            index += 1
        self.hits += 1
        return found

    def _evict(self) -> None:
        segment = self._turns.popleft()
        if segment.read:
            segment.read = False
            self._turns.append(segment)
            return
        self._bytes -= segment.cost
        own = self._partitions[segment.partition_id]
        if len(own) == 1:
            del self._partitions[segment.partition_id]
        else:  # mostly the first, because segments are added in the order of the log
            del own[0 if own[0] is segment else bisect_left(own, segment.first_offset, key=_first_offset)]


class SegmentReader:
    """Reads the segments of ranges of offsets, from the cache or from PostgreSQL."""

    def __init__(self, database: Database, cipher: Cipher, cache: SegmentCache, incarnation: str) -> None:
        self._database = database
        self._cipher = cipher
        self._cache = cache
        self._incarnation = incarnation

    async def read(self, ranges: list[Range]) -> dict[Range, Sequence[Segment] | EncryptionRequired]:
        """The segments of the ranges. One call reads all that are not cached."""
        found: dict[Range, Sequence[Segment] | EncryptionRequired] = {}
        missing: list[Range] = []
        for each in ranges:
            segments = self._cache.covering(*each)
            if segments is None:
                missing.append(each)
            else:
                found[each] = segments
        if missing:
            # Half of what the cache can keep until all readers come back, because cut payloads take memory too.
            ahead = min(AHEAD_BYTES_MAX, self._cache.share(len(missing)) // 2)
            rows = await self._database.rows(FETCH, *map(list, zip(*missing, strict=True)), ahead, self._incarnation)
            fetched: dict[int, list[Segment]] = {}
            unreadable: list[tuple[Range, EncryptionRequired]] = []
            for row in rows:
                partition_id, first = row["partition_id"], row["first_offset"]
                try:
                    segment = Segment.of_row(row, self._cipher)
                except EncryptionRequired as error:
                    unreadable.append(((partition_id, first, first + row["message_count"]), error))
                    continue
                fetched.setdefault(partition_id, []).append(segment)
            self._cache.put(segment for segments in fetched.values() for segment in segments)
            for each in missing:
                found[each] = next(
                    (error for unread, error in unreadable if _overlap(each, unread)), fetched.get(each[0], ())
                )
        return found


def _overlap(one: Range, other: Range) -> bool:
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]


def _cost(segment: Segment) -> int:
    cost = len(segment.array) + OVERHEAD_BYTES + MESSAGE_OVERHEAD_BYTES * segment.count
    if segment.headers is not None:
        cost += sum(map(len, filter(None, segment.headers)))
    return cost
