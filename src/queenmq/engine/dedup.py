"""Recent transaction ids, so that duplicates are recognised without asking the database.

The log is the index: a partition's ids are in its segments. This is a copy of the dedup window in memory, and it is
allowed to know too little, never to be wrong. For every partition it knows all ids of the window below `known`;
what others wrote above that, the push call finds and tells. The newest ids are kept as they are, with their
offsets; older ones as sorted 64-bit hashes, eight bytes an id. A hash that matches is only a suspicion: the log is
then asked (queen.find_ids).
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.int64]

FRESH_IDS_MAX = 1_024  # per partition, before they are packed into hashes
PARTITION_COST = 64  # what an entry costs beside its ids, counted in ids


class Original:
    """Where the first message with an id is."""

    __slots__ = ("created_at", "offset")

    def __init__(self, offset: int, created_at: datetime) -> None:
        self.offset = offset
        self.created_at = created_at


class RecentIds:
    """The ids of one partition inside the dedup window, complete below `known`."""

    def __init__(self, known: int) -> None:
        self.known = known
        self.size = 0
        self._islands: dict[int, int] = {}  # our own segments above `known`: first offset -> end
        self._fresh: dict[str, Original] = {}
        self._packed: deque[tuple[datetime, Hashes]] = deque()  # newest moment in it, sorted hashes

    def original(self, id: str) -> Original | None:
        """The first message with this id, if it is among the newest."""
        return self._fresh.get(id)

    def suspects(self, ids: Iterable[str]) -> list[str]:
        """Those ids whose hash is among the packed ones: most likely duplicates, to be looked up."""
        if not self._packed:
            return []
        asked = list(ids)
        hashes = _hashes(asked)
        hit = np.zeros(len(asked), dtype=bool)
        for _, packed in self._packed:
            places = np.searchsorted(packed, hashes)
            places[places == len(packed)] = 0
            hit |= packed[places] == hashes
        return [asked[place] for place in np.flatnonzero(hit)]

    def add(
        self,
        first_offset: int,
        count: int,
        ids: Sequence[str | None],
        created_at: datetime,
        window: timedelta,
    ) -> None:
        """A segment that was written: by us, or missed and told by a push."""
        if first_offset >= self.known:
            self._islands[first_offset] = first_offset + count
            while (end := self._islands.pop(self.known, None)) is not None:
                self.known = end
        fresh = self._fresh
        before = len(fresh)
        for place, id in enumerate(ids):
            if id is not None and id not in fresh:
                fresh[id] = Original(first_offset + place, created_at)
        self.size += len(fresh) - before
        if len(fresh) > FRESH_IDS_MAX:
            self._pack(created_at, window)
        self._forget(created_at - window)

    def catch_up(self, known: int) -> None:
        """Everything below this offset has been told."""
        self.known = max(self.known, known)
        for first in [first for first in self._islands if first < self.known]:
            self.known = max(self.known, self._islands.pop(first))

    def _pack(self, newest: datetime, window: timedelta) -> None:
        """Fresh ids become a run of hashes; a run no larger and not much older is merged into it.

        Sizes double from run to run, so there are few; an eighth of the window bounds how long a run outlives it.
        """
        run = np.sort(_hashes(list(self._fresh)))
        self._fresh = {}
        while self._packed and len(self._packed[-1][1]) <= len(run) and self._packed[-1][0] > newest - window / 8:
            run = np.sort(np.concatenate((self._packed.pop()[1], run)))
        self._packed.append((newest, run))

    def _forget(self, before: datetime) -> None:
        """Drop the runs that have left the window; fresh ids stay until they are packed."""
        while self._packed and self._packed[0][0] < before:
            self.size -= len(self._packed.popleft()[1])


class DedupWindow:
    """The recent ids of all partitions this process writes, least recently written ones forgotten first."""

    def __init__(self, ids_max: int) -> None:
        self._ids_max = ids_max
        self._size = 0
        self._partitions: OrderedDict[int, RecentIds] = OrderedDict()

    def get(self, partition_id: int) -> RecentIds | None:
        """What is known of a partition; None when nothing is."""
        known = self._partitions.get(partition_id)
        if known is not None:
            self._partitions.move_to_end(partition_id)
        return known

    def start(self, partition_id: int, known: int) -> RecentIds:
        """Begin to know a partition whose ids below `known` are about to be added."""
        self.drop(partition_id)
        entry = self._partitions[partition_id] = RecentIds(known)
        self._size += PARTITION_COST
        return entry

    def add(
        self,
        partition_id: int,
        first_offset: int,
        count: int,
        ids: Sequence[str | None],
        created_at: datetime,
        window: timedelta,
    ) -> None:
        """A segment was written to a partition; nothing happens for one that is not known."""
        entry = self._partitions.get(partition_id)
        if entry is None:
            return
        before = entry.size
        entry.add(first_offset, count, ids, created_at, window)
        self._size += entry.size - before
        while self._size > self._ids_max and len(self._partitions) > 1:
            self.drop(next(iter(self._partitions)))

    def drop(self, partition_id: int) -> None:
        """Forget a partition."""
        entry = self._partitions.pop(partition_id, None)
        if entry is not None:
            self._size -= entry.size + PARTITION_COST


def _hashes(ids: Sequence[str]) -> Hashes:
    return np.fromiter(map(hash, ids), dtype=np.int64, count=len(ids))
