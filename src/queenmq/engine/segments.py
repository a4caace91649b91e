"""Segments in memory: kept while they are likely to be read again, and cut once.

A segment never changes after it was written, so it can be kept as long as there is room. Whoever pushed it puts it
here; five groups reading one stream read the table once; a consumer that takes one message at a time from a
segment of a thousand reads it once.
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

from queenmq.engine.arrays import Texts
from queenmq.engine.crypto import Cipher
from queenmq.engine.database import Database
from queenmq.errors import EncryptionRequired
from queenmq.model.payloads import cut, json_array

_uuids = msgspec.json.Decoder(list[UUID | None])
_nothing = Raw(b"null")
_first_offset = attrgetter("first_offset")

FETCH = "select * from queen.fetch_segments($1, $2, $3, $4, $5)"

Range = tuple[int, int, int]  # partition id, from, to

OVERHEAD_BYTES = 200  # of a segment
MESSAGE_OVERHEAD_BYTES = 100  # of a message in it
AHEAD_BYTES_MAX = 256 << 10  # read behind a range that was not in memory, for who comes back for the next one


class Segment(Struct, gc=False):
    """The messages of one flush to one partition; cut when somebody reads them."""

    partition_id: int
    first_offset: int
    count: int
    created_at: datetime
    array: bytes  # the payloads, as one JSON array
    transaction_ids: Sequence[str | None] | None
    trace_ids: Sequence[UUID | None] | None
    headers: Sequence[Raw | None] | None
    producer: str | None
    cost: int = 0  # what it takes of a cache
    read: bool = False  # since it came, or had its last turn
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
        """A segment as queen.fetch_segments answers it."""
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
    """Segments that were pushed or read lately, up to a number of bytes.

    The oldest goes first, but not before it had a second turn if it was read meanwhile.
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
        """Count on where another cache has ended."""
        self.hits, self.misses = other.hits, other.misses

    def share(self, partitions: int) -> int:
        """How many bytes there would be for each if so many partitions came to those that are here."""
        return self._bytes_max // (len(self._partitions) + partitions)

    def put(self, segments: Iterable[Segment]) -> None:
        """Keep segments, at the cost of others."""
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
                place = bisect_left(own, segment.first_offset, key=_first_offset)
                if own[place].first_offset == segment.first_offset:
                    continue
                own.insert(place, segment)
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
        """The segments that hold all messages of a range, in order; None if one is missing."""
        found: list[Segment] = []
        own = self._partitions.get(partition_id, [])
        place = bisect_right(own, start, key=_first_offset) - 1
        while start < end:
            if not 0 <= place < len(own) or not own[place].first_offset <= start < own[place].end:
                self.misses += 1
                return None
            segment = own[place]
            segment.read = True
            found.append(segment)
            start = segment.end
            place += 1
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
        else:  # mostly the first: they came in the order of the log
            del own[0 if own[0] is segment else bisect_left(own, segment.first_offset, key=_first_offset)]


class SegmentReader:
    """The segments behind ranges of offsets, from memory or from the database."""

    def __init__(self, database: Database, cipher: Cipher, cache: SegmentCache, incarnation: str) -> None:
        self._database = database
        self._cipher = cipher
        self._cache = cache
        self._incarnation = incarnation

    async def read(self, ranges: list[Range]) -> dict[Range, Sequence[Segment] | EncryptionRequired]:
        """The segments behind the ranges; what is not in memory comes in one call."""
        found: dict[Range, Sequence[Segment] | EncryptionRequired] = {}
        missing: list[Range] = []
        for each in ranges:
            segments = self._cache.covering(*each)
            if segments is None:
                missing.append(each)
            else:
                found[each] = segments
        if missing:
            # Not more than can be kept until everybody has come back: half, as what is cut takes room too.
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
