"""Recent transaction ids, so that duplicates are recognised without asking the database.

The log is the index: a partition's ids are in its segments. This is a copy of the dedup window, and it is allowed to
know too little, never to be wrong. For every partition it knows all ids of the window below `known`; what others wrote
above that, the push call finds and tells. The newest ids are kept as they are; older ones as hashes with the low bits
of their offsets, in files when memory is short. A hash that matches is only a suspicion, but it tells where in the log
to look (queen.find_ids).

Most ids are new, and one look at a filter of all partitions says so, for a whole flush at a time; it knows those of
flushes that are on their way, too. What it suspects is looked for in these, and in the partition's own ids. Files have
filters of their own.
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

from queenmq.engine.drafts import Keys
from queenmq.engine.key_files import KeyFiles
from queenmq.engine.keys import Filter
from queenmq.engine.recent_ids import PACKED_ID_BYTES, RecentIds, WrittenIds, give_keys

log = logging.getLogger(__name__)

LATELY = 100  # flushes ago: what is forgotten so soon is mostly needed again
WARNING_SECONDS = 60.0  # between two of them
DO_NOT_FIT = (
    "the transaction ids of the dedup window do not fit into memory and are read again and again, which is slow: "
    "raise QUEEN_DEDUP_BYTES_MAX, or shorten dedup_window_seconds of busy queues"
)


class DedupWindow:
    """The recent ids of all partitions this process writes, least recently written ones forgotten first."""

    def __init__(self, bytes_max: int) -> None:
        self.lessons = 0  # how often others' ids were learned
        self.files = KeyFiles(bytes_max)
        self._bytes_max = bytes_max
        self._room = bytes_max  # for what is not in files
        self._bytes = 0
        self._filing = False  # a piece with each addition, so that nobody waits for all of them
        self._partitions: dict[int, RecentIds] = {}
        self.get = self._partitions.get  # what is known of a partition, by its id; None when nothing is
        self._additions = 0
        self._warned_at = -WARNING_SECONDS
        self._filter = Filter(0)
        self._on_their_way: dict[UUID, Keys] = {}

    @property
    def bytes(self) -> int:
        """About how much memory all this takes."""
        return self._bytes + self.files.bytes

    def seen(self, keys: Keys) -> NDArray[np.bool_]:
        """Which of these are perhaps known."""
        seen = self._filter.seen(keys)
        return seen | self.files.hold(keys) if self.files else seen

    def begin(self, flush_id: UUID, keys: Keys) -> None:
        """A flush with these goes out; it may come to nothing."""
        self._on_their_way[flush_id] = keys
        self._note(keys)

    def end(self, flush_id: UUID) -> None:
        """It is over."""
        self._on_their_way.pop(flush_id, None)

    def start(self, partition_id: int, known: int) -> RecentIds:
        """Begin to know a partition whose ids below `known` are about to be added."""
        self.drop(partition_id)
        entry = self._partitions[partition_id] = RecentIds(partition_id, known)
        self._bytes += entry.bytes
        return entry

    def learn(self, told: Sequence[WrittenIds]) -> None:
        """Others have written segments."""
        self.lessons += bool(told)
        self._note(give_keys(told))
        self.add(told)

    def add(self, written: Sequence[WrittenIds]) -> None:
        """Segments were written whose keys are noted; nothing happens for partitions that are not known."""
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
        if self._filing:
            self._file_next()
            if self._bytes > self._room:
                self._shrink()
        if self.files and written and self.files.forget(written[-1].created_at):
            self._room = self._bytes_max - self.files.bytes

    def drop(self, partition_id: int) -> None:
        """Forget a partition."""
        entry = self._partitions.pop(partition_id, None)
        if entry is not None:
            self._bytes -= entry.bytes

    def forget_all(self) -> None:
        """Know nothing any more but what is on its way: files cannot be read."""
        for partition_id in list(self._partitions):
            self.drop(partition_id)
        self.files.close()
        self._room = self._bytes_max
        self._renew_filter(0)

    def _note(self, keys: Keys) -> None:
        if not len(keys):
            return
        if len(keys) > self._filter.room:
            self._renew_filter(len(keys))
        self._filter.add(keys)

    def _renew_filter(self, more: int) -> None:
        """A filter of what is in memory, or on its way there, with room for more, and not only for the next flush."""
        entries, under_way = self._partitions.values(), self._on_their_way.values()
        known = sum(entry.key_count for entry in entries) + sum(map(len, under_way))
        self._filter = Filter(0)  # no room for two at a time, nor for a copy of all keys
        self._filter = Filter(known + max(more, known // 8))
        for each in chain((entry.keys() for entry in entries), under_way):
            self._filter.add(each)

    def _shrink(self) -> None:
        """Pack all ids; if that is not enough, put hashes into files, then forget partitions not written lately."""
        for entry in self._partitions.values():
            before = entry.bytes
            entry.pack()
            self._bytes += entry.bytes - before
        self._filing = self._bytes > self._room * 3 // 4
        while self._bytes > self._room * 7 // 8 and (self._file_next() or self._halve()):
            pass
        if self._bytes > self._room * 7 // 8:
            self._forget()

    def _forget(self) -> None:
        for entry in sorted(self._partitions.values(), key=attrgetter("written"))[:-1]:
            if self._bytes <= self._room * 3 // 4:
                break
            self.drop(entry.partition_id)
            if entry.written > self._additions - LATELY and monotonic() > self._warned_at + WARNING_SECONDS:
                self._warned_at = monotonic()
                log.warning(DO_NOT_FIT, extra={"bytes_max": self._bytes_max, "partitions": len(self._partitions)})

    def _file_next(self) -> bool:
        """Move one more piece to a file, if there is one; after the last the filter begins anew."""
        if self._file_piece():
            self._room = self._bytes_max - self.files.bytes
            return True
        if self._filing and self.files:
            self._renew_filter(self._room // PACKED_ID_BYTES)
        self._filing = False
        return False

    def _file_piece(self) -> bool:
        """Move hashes of ids with the same window to a file; says whether there were enough of them."""
        wanted = self.files.piece_keys
        counts: dict[timedelta, int] = defaultdict(int)
        packed = [entry for entry in self._partitions.values() if entry.packed_count]
        for entry in packed:
            counts[entry.window] += entry.packed_count
        window = max(counts, key=counts.__getitem__, default=timedelta(0))
        if not wanted or counts[window] < wanted:
            return False
        taken, runs = [], []
        for entry in packed:
            if entry.window == window and wanted > 0:
                runs += entry.oldest(wanted)
                taken.append((entry, min(wanted, entry.packed_count)))
                wanted -= entry.packed_count
        queues = {entry.queue for entry, _ in taken if entry.queue is not None}
        newest = max(newest for newest, _ in runs)
        if not self.files.add([run for _, run in runs], newest, queues, window):
            return False
        for entry, count in taken:
            self._bytes -= entry.bytes
            entry.drop_oldest(count)
            self._bytes += entry.bytes
        return True

    def _halve(self) -> bool:
        halved = self.files.halve()
        self._room = self._bytes_max - self.files.bytes
        return halved
