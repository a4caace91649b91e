"""Recent transaction ids, so that duplicates are recognised without asking the database.

The log is the index: a partition's ids are in its segments. This is a copy of the dedup window in memory, and it is
allowed to know too little, never to be wrong. For every partition it knows all ids of the window below `known`;
what others wrote above that, the push call finds and tells. The newest ids are kept as they are, with their
offsets; older ones as sorted 64-bit hashes, eight bytes an id. A hash that matches is only a suspicion: the log is
then asked (queen.find_ids).
"""

from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Sequence
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from queenmq.engine.drafts import Original

Hashes = NDArray[np.int64]

FRESH_IDS_MAX = 32_768  # per partition, before they are packed into hashes; earlier when memory is short
FRESH_ID_BYTES = 150  # of an id that is kept as it is, roughly
PACKED_ID_BYTES = 8
PARTITION_BYTES = 1_000  # of what is kept of a partition beside its ids, roughly


class RecentIds:
    """The ids of one partition inside the dedup window, complete below `known`."""

    def __init__(self, known: int) -> None:
        self.known = known
        self._packed_ids = 0
        self._islands: dict[int, int] = {}  # our own segments above `known`: first offset -> end
        self._fresh: dict[str, int] = {}  # id -> offset
        self._segments: list[tuple[int, datetime]] = []  # first offset and time of the fresh ones, ascending
        self._packed: deque[tuple[datetime, Hashes]] = deque()  # newest moment in it, sorted hashes

    @property
    def bytes(self) -> int:
        """About how much memory this takes."""
        return PARTITION_BYTES + FRESH_ID_BYTES * len(self._fresh) + PACKED_ID_BYTES * self._packed_ids

    def is_new(self, ids: set[str]) -> bool:
        """Whether none of the ids is among the newest; `suspects` tells about the others."""
        return self._fresh.keys().isdisjoint(ids)

    def original(self, id: str, since: datetime) -> Original | None:
        """The first message with this id, if it is among the newest and inside the window."""
        offset = self._fresh.get(id)
        if offset is None:
            return None
        created_at = self._created_at(offset)
        return Original(offset, created_at) if created_at >= since else None

    def suspects(self, ids: Sequence[str], since: datetime) -> list[str]:
        """Those ids about which the log is to be asked: most likely duplicates.

        Their hash is among the packed ones, or they seem to have left the window, by a clock that is not the log's.
        """
        old: list[str] = []
        if self._segments and self._segments[0][1] < since:
            old = [id for id in ids if (at := self._fresh.get(id)) is not None and self._created_at(at) < since]
        if not self._packed:
            return old
        hashes = _hashes(ids)
        order = np.argsort(hashes)
        hashes = hashes[order]
        hit = np.zeros(len(ids), dtype=bool)
        for _, packed in self._packed:
            places = np.searchsorted(packed, hashes)
            places[places == len(packed)] = 0
            hit |= packed[places] == hashes
        return old + [ids[place] for place in order[hit]] if hit.any() else old

    def _created_at(self, offset: int) -> datetime:
        return self._segments[max(0, bisect_right(self._segments, offset, key=lambda s: s[0]) - 1)][1]

    def add(
        self, first_offset: int, count: int, ids: Sequence[str | None] | None, created_at: datetime, window: timedelta
    ) -> None:
        """A segment that was written: by us, or missed and told by a push."""
        if first_offset == self.known and not self._islands:
            self.known += count
        elif first_offset >= self.known:
            self._islands[first_offset] = first_offset + count
            while (end := self._islands.pop(self.known, None)) is not None:
                self.known = end
        if ids is None:
            return
        self._fresh.update(zip(ids, range(first_offset, first_offset + count), strict=True))  # type: ignore[arg-type]
        self._fresh.pop(None, None)  # type: ignore[call-overload]
        self._segments.append((first_offset, created_at))
        if len(self._segments) > 1 and self._segments[-2][0] > first_offset:
            self._segments.sort()
        if len(self._fresh) > FRESH_IDS_MAX:
            self.pack(window)
        self._forget(created_at - window)

    def catch_up(self, known: int) -> None:
        """Everything below this offset has been told."""
        self.known = max(self.known, known)
        if not self._islands:
            return
        for first in sorted(first for first in self._islands if first <= self.known):
            self.known = max(self.known, self._islands.pop(first))

    def pack(self, window: timedelta) -> None:
        """Fresh ids become a run of hashes; a run no larger and not much older is merged into it.

        Sizes double from run to run, so there are few; an eighth of the window bounds how long a run outlives it.
        """
        if not self._fresh:
            return
        newest = self._segments[-1][1]
        run = np.sort(_hashes(list(self._fresh)))
        self._packed_ids += len(run)
        self._fresh = {}
        self._segments = []
        while self._packed and len(self._packed[-1][1]) <= len(run) and self._packed[-1][0] > newest - window / 8:
            run = np.sort(np.concatenate((self._packed.pop()[1], run)), kind="stable")
        self._packed.append((newest, run))

    def _forget(self, before: datetime) -> None:
        """Drop the runs that have left the window; fresh ids stay until they are packed."""
        while self._packed and self._packed[0][0] < before:
            self._packed_ids -= len(self._packed.popleft()[1])


class DedupWindow:
    """The recent ids of all partitions this process writes, least recently written ones forgotten first."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._partitions: OrderedDict[int, RecentIds] = OrderedDict()

    def get(self, partition_id: int) -> RecentIds | None:
        """What is known of a partition; None when nothing is."""
        return self._partitions.get(partition_id)

    def start(self, partition_id: int, known: int) -> RecentIds:
        """Begin to know a partition whose ids below `known` are about to be added."""
        self.drop(partition_id)
        entry = self._partitions[partition_id] = RecentIds(known)
        self._bytes += entry.bytes
        return entry

    def add(
        self,
        partition_id: int,
        first_offset: int,
        count: int,
        ids: Sequence[str | None] | None,
        created_at: datetime,
        window: timedelta,
    ) -> None:
        """A segment was written to a partition; nothing happens for one that is not known."""
        entry = self._partitions.get(partition_id)
        if entry is None:
            return
        self._partitions.move_to_end(partition_id)
        before = entry.bytes
        entry.add(first_offset, count, ids, created_at, window)
        self._bytes += entry.bytes - before
        if self._bytes > self._bytes_max:
            self._shrink(window)

    def drop(self, partition_id: int) -> None:
        """Forget a partition."""
        entry = self._partitions.pop(partition_id, None)
        if entry is not None:
            self._bytes -= entry.bytes

    def _shrink(self, window: timedelta) -> None:
        """Pack all ids; if that is not enough, forget partitions that were not written lately."""
        for entry in self._partitions.values():
            before = entry.bytes
            entry.pack(window)
            self._bytes += entry.bytes - before
        while self._bytes > self._bytes_max * 3 // 4 and len(self._partitions) > 1:
            self.drop(next(iter(self._partitions)))


def _hashes(ids: Sequence[str]) -> Hashes:
    return np.fromiter(map(hash, ids), dtype=np.int64, count=len(ids))
