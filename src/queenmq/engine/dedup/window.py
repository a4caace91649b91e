"""The dedup window: the recent transaction ids of all partitions that this engine writes.

The log itself is the index: the ids of a partition are in its segments. The window is a copy of its recent part, so
that almost no push asks PostgreSQL. It may know too little, but what it knows is right. For each partition it knows all
ids of the window below the offset `known`. A push call tells the engine about ids that others wrote above it.

A question goes through these parts, and most end at the first one:

    all ids of a flush ──► filter ──► new                    one look for a whole flush, at most one error in 2,000
                             │ perhaps known
                             ├──► fresh ids, as text ──► original found
                             ├──► packed keys in memory ─┐
                             └──► spilled keys in files ─┴─► an offset to look at in the log (queen.find_ids)

Fresh ids of a partition are packed into keys when they are many, or when memory is short. If packed keys do not fit
into memory, they are spilled to temporary files. If that is not enough, the window forgets the partitions that were
written longest ago, and reads their ids from the log when they are needed again.
"""

import logging
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from itertools import chain
from operator import attrgetter
from time import monotonic
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from queenmq.engine.dedup.id_filter import IdFilter, Keys
from queenmq.engine.dedup.id_spill import IdSpill
from queenmq.engine.dedup.partition_ids import PACKED_ID_BYTES, PartitionIds, WrittenIds, give_keys

log = logging.getLogger(__name__)

LATELY = 100  # additions: a partition that was written so recently is mostly needed again
WARNING_SECONDS = 60.0  # between two warnings
DO_NOT_FIT = (
    "the transaction ids of the dedup window do not fit into memory and are read again and again, which is slow: "
    "raise QUEEN_DEDUP_BYTES_MAX, or shorten dedup_window_seconds of busy queues"
)


class DedupWindow:
    """The recent ids of partitions, in limited memory."""

    def __init__(self, bytes_max: int) -> None:
        self.lessons = 0  # how often this engine has learned ids that others wrote
        self.spill = IdSpill(bytes_max)
        self._bytes_max = bytes_max
        self._room = bytes_max  # for what is not spilled
        self._bytes = 0
        self._spilling = False  # one piece with each addition, so that no push waits for all of them
        self._partitions: dict[int, PartitionIds] = {}
        self.get = self._partitions.get  # the ids of a partition, or None if the window has none
        self._additions = 0
        self._warned_at = -WARNING_SECONDS
        self._filter = IdFilter(0)
        self._in_flight: dict[UUID, Keys] = {}

    @property
    def bytes(self) -> int:
        """About how much memory the window takes."""
        return self._bytes + self.spill.bytes

    def seen(self, keys: Keys) -> NDArray[np.bool_]:
        """For each key, whether its id may be known or in flight."""
        seen = self._filter.seen(keys)
        return seen | self.spill.has(keys) if self.spill else seen

    def begin(self, flush_id: UUID, keys: Keys) -> None:
        """A flush with these keys is in flight."""
        self._in_flight[flush_id] = keys
        self._add_to_filter(keys)

    def end(self, flush_id: UUID) -> None:
        """The flush is over."""
        self._in_flight.pop(flush_id, None)

    def start(self, partition_id: int, known: int) -> PartitionIds:
        """Begin with a partition. The caller adds its ids below `known` next."""
        self.drop(partition_id)
        entry = self._partitions[partition_id] = PartitionIds(partition_id, known)
        self._bytes += entry.bytes
        return entry

    def learn(self, segments: Sequence[WrittenIds]) -> None:
        """Add segments that others wrote."""
        self.lessons += bool(segments)
        self._add_to_filter(give_keys(segments))
        self.add(segments)

    def add(self, written: Sequence[WrittenIds]) -> None:
        """Add segments whose keys are in the filter already. Those of partitions without ids here are left out."""
        self._additions += 1
        for each in written:
            partition = each.partition
            entry = self._partitions.get(partition.id)
            if entry is None:
                continue
            entry.written = self._additions
            before = entry.bytes
            entry.add(each)
            self._bytes += entry.bytes - before
            if self._bytes > self._room:
                self._shrink()
        if self._spilling:
            self._spill_next()
            if self._bytes > self._room:
                self._shrink()
        if self.spill and written and self.spill.forget(written[-1].created_at):
            self._room = self._bytes_max - self.spill.bytes

    def drop(self, partition_id: int) -> None:
        """Forget a partition."""
        entry = self._partitions.pop(partition_id, None)
        if entry is not None:
            self._bytes -= entry.bytes

    def forget_all(self) -> None:
        """Drop everything but the keys in flight, because a file cannot be read."""
        for partition_id in list(self._partitions):
            self.drop(partition_id)
        self.spill.close()
        self._room = self._bytes_max
        self._renew_filter(0)

    def _add_to_filter(self, keys: Keys) -> None:
        if not len(keys):
            return
        if len(keys) > self._filter.room:
            self._renew_filter(len(keys))
        self._filter.add(keys)

    def _renew_filter(self, more: int) -> None:
        """Make a new filter of all keys in memory and in flight, with room for `more` and for flushes after that."""
        entries, in_flight = self._partitions.values(), self._in_flight.values()
        known = sum(entry.key_count for entry in entries) + sum(map(len, in_flight))
        self._filter = IdFilter(0)  # frees the old one first: there is no room for two, nor for a copy of all keys
        self._filter = IdFilter(known + max(more, known // 8))
        for each in chain((entry.keys() for entry in entries), in_flight):
            self._filter.add(each)

    def _shrink(self) -> None:
        """Pack all ids. If that is not enough, spill keys to files; then forget partitions."""
        for entry in self._partitions.values():
            before = entry.bytes
            entry.pack()
            self._bytes += entry.bytes - before
        self._spilling = self._bytes > self._room * 3 // 4
        while self._bytes > self._room * 7 // 8 and (self._spill_next() or self._halve()):
            pass
        if self._bytes > self._room * 7 // 8:
            self._forget()

    def _forget(self) -> None:
        """Drop the partitions that were written longest ago, and warn if that was recently."""
        for entry in sorted(self._partitions.values(), key=attrgetter("written"))[:-1]:
            if self._bytes <= self._room * 3 // 4:
                break
            self.drop(entry.partition_id)
            if entry.written > self._additions - LATELY and monotonic() > self._warned_at + WARNING_SECONDS:
                self._warned_at = monotonic()
                log.warning(DO_NOT_FIT, extra={"bytes_max": self._bytes_max, "partitions": len(self._partitions)})

    def _spill_next(self) -> bool:
        """Spill one more piece, if there is one. After the last piece, make a new filter without the spilled keys."""
        if self._spill_piece():
            self._room = self._bytes_max - self.spill.bytes
            return True
        if self._spilling and self.spill:
            self._renew_filter(self._room // PACKED_ID_BYTES)
        self._spilling = False
        return False

    def _spill_piece(self) -> bool:
        """Spill keys of queues with the same window. Returns whether there were enough of them."""
        wanted = self.spill.piece_keys
        counts: dict[timedelta, int] = defaultdict(int)
        packed = [entry for entry in self._partitions.values() if entry.packed_count]
        for entry in packed:
            counts[entry.window] += entry.packed_count
        window = max(counts, key=counts.__getitem__, default=timedelta(0))
        if not wanted or counts[window] < wanted:
            return False
        taken, key_runs = [], []
        for entry in packed:
            if entry.window == window and wanted > 0:
                key_runs += entry.oldest(wanted)
                taken.append((entry, min(wanted, entry.packed_count)))
                wanted -= entry.packed_count
        queues = {entry.queue for entry, _ in taken if entry.queue is not None}
        newest = max(newest for newest, _ in key_runs)
        if not self.spill.add([keys for _, keys in key_runs], newest, queues, window):
            return False
        for entry, count in taken:
            self._bytes -= entry.bytes
            entry.drop_oldest(count)
            self._bytes += entry.bytes
        return True

    def _halve(self) -> bool:
        """Halve a filter of the files. Returns whether that was possible."""
        halved = self.spill.halve()
        self._room = self._bytes_max - self.spill.bytes
        return halved
