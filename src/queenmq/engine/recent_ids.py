"""The recent ids of one partition: the newest as they are, older ones as keys with the low bits of their offsets."""

from collections import deque
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import accumulate, chain, pairwise
from operator import attrgetter

import numpy as np
from msgspec import Struct

from queenmq.engine.drafts import NO_KEYS, Draft, Keys, Original
from queenmq.engine.keys import SAME_LOW_BITS, among, found_in, key_of, placed
from queenmq.engine.partitions import PartitionInfo, QueueInfo
from queenmq.engine.requests import given

Run = tuple[datetime, Keys]  # newest moment in it

FRESH_IDS_MAX = 4_096  # per partition, before they are packed into hashes; earlier when memory is short
FRESH_ID_BYTES = 120  # of an id that is kept as it is, roughly
SEGMENT_BYTES = 200  # of what is kept of a segment beside them
PACKED_ID_BYTES = 16  # of its hash, and of its part of the filter
PARTITION_BYTES = 1_000  # of what is kept of a partition beside its ids, roughly

_SPREAD, _MIX, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(32)


class WrittenIds(Struct, gc=False):
    """The ids of a segment, and where it is in the log."""

    partition: PartitionInfo
    first_offset: int
    count: int
    ids: Sequence[str | None]  # nothing where no message has one
    created_at: datetime
    keys: Keys = NO_KEYS  # of the ids


class RecentIds:
    """The ids of one partition inside the dedup window, complete below `known` with those that are in files."""

    __slots__ = (
        "_fresh", "_fresh_count", "_fresh_key_count", "_islands", "_packed", "_unsorted", "bytes", "known",
        "packed_count", "packings", "partition_id", "queue", "written",
    )  # fmt: skip

    def __init__(self, partition_id: int, known: int) -> None:
        self.partition_id = partition_id
        self.known = known
        self.queue: QueueInfo | None = None  # as of the last segment with ids
        self.packings = 0  # how often ids became hashes
        self.packed_count = 0  # of hashes in memory
        self.written = 0  # when, as the window counts
        self.bytes = PARTITION_BYTES  # about how much memory this takes
        self._islands: dict[int, int] = {}  # our own segments above `known`: first offset -> end
        self._fresh: list[WrittenIds] = []
        self._fresh_count = 0  # of messages
        self._fresh_key_count = 0
        self._packed: deque[Run] = deque()  # each sorted
        self._unsorted: deque[Run] = deque()  # later ones

    @property
    def window(self) -> timedelta:
        """How long its ids are kept."""
        return self.queue.dedup_window if self.queue is not None else timedelta(0)

    @property
    def key_count(self) -> int:
        """How many keys there are in memory."""
        return self._fresh_key_count + self.packed_count

    def keys(self) -> Keys:
        """Those of all ids in memory."""
        return np.concatenate([self._fresh_keys(), *(run for _, run in self._runs())])

    def _fresh_keys(self) -> Keys:
        return np.concatenate([NO_KEYS, *(each.keys for each in self._fresh)])

    def _runs(self) -> Iterable[Run]:
        return chain(self._packed, self._unsorted)

    def originals(self, ids: Sequence[str], keys: Keys) -> dict[str, list[Original]]:
        """The messages with these ids that are among the newest, in order: two where an id is stored twice."""
        found: dict[str, list[Original]] = {}
        places = np.flatnonzero(among(np.sort(keys), self._fresh_keys()))
        if not len(places):  # mostly
            return found
        ends = np.cumsum([len(each.keys) for each in self._fresh])
        numbers = np.unique(np.searchsorted(ends, places, side="right")).tolist()
        wanted = set(ids)
        for each in sorted((self._fresh[number] for number in numbers), key=attrgetter("first_offset")):
            for offset, id in enumerate(each.ids, each.first_offset):
                if id in wanted:
                    own = found.setdefault(id, [])
                    if not own or own[-1].offset < offset:  # a segment may have been told twice
                        own.append(Original(offset, each.created_at))
        return found

    def suspects(self, keys: Keys, window: timedelta) -> list[list[int]]:
        """For each key the low bits of the offsets where packed ids have it: most likely duplicates."""
        self._sort(window)
        found: list[list[int]] = [[] for _ in keys]
        for _, packed in self._packed:
            for place, low_bits in found_in(packed, keys):
                found[place].append(low_bits)
        return found

    def offsets(self, low_bits: int) -> Sequence[int]:
        """Where a message with these low bits may be: at few places, as a partition is long before there are two."""
        return range(low_bits, max((self.known, *self._islands.values())), SAME_LOW_BITS)

    def add(self, written: WrittenIds) -> None:
        """A segment that was written: by us, or missed and told by a push."""
        first_offset, count = written.first_offset, written.count
        if first_offset == self.known and not self._islands:
            self.known += count
        elif first_offset >= self.known:
            self._islands[first_offset] = first_offset + count
            while (end := self._islands.pop(self.known, None)) is not None:
                self.known = end
        if not written.ids:
            return
        self.queue = written.partition.queue
        self._fresh.append(written)
        self._fresh_count += count
        self._fresh_key_count += len(written.keys)
        self.bytes += FRESH_ID_BYTES * count + SEGMENT_BYTES
        if self._fresh_count > FRESH_IDS_MAX:
            self.pack()
        if self._packed or self._unsorted:
            self._forget(written.created_at - self.queue.dedup_window)

    def catch_up(self, known: int) -> None:
        """Everything below this offset has been told."""
        self.known = max(self.known, known)
        if not self._islands:
            return
        for first in sorted(first for first in self._islands if first <= self.known):
            self.known = max(self.known, self._islands.pop(first))

    def pack(self) -> None:
        """Fresh ids become a run of hashes."""
        if not self._fresh:
            return
        newest = max(each.created_at for each in self._fresh)
        run = _placed_keys(self._fresh)
        self.packings += 1
        self.packed_count += len(run)
        self.bytes += PACKED_ID_BYTES * len(run) - FRESH_ID_BYTES * self._fresh_count - SEGMENT_BYTES * len(self._fresh)
        self._unsorted.append((newest, run))
        self._fresh = []
        self._fresh_count = self._fresh_key_count = 0

    def oldest(self, count: int) -> list[Run]:
        """This many hashes of the oldest runs, or all there are."""
        runs: list[Run] = []
        for newest, run in self._runs():
            runs.append((newest, run[:count]))
            count -= len(run)
            if count <= 0:
                break
        return runs

    def drop_oldest(self, count: int) -> None:
        """Forget this many of them: they are somewhere else now."""
        self._packed_less(count)
        while count > 0:
            runs = self._packed or self._unsorted
            newest, run = runs.popleft()
            if len(run) > count:
                runs.appendleft((newest, run[count:].copy()))
            count -= len(run)

    def _sort(self, window: timedelta) -> None:
        """Runs are sorted; one no larger and not much older is merged into the next.

        Sizes double from run to run, so there are few; an eighth of the window bounds how long a run outlives it.
        """
        while self._unsorted:
            newest, run = self._unsorted.popleft()
            run.sort()
            while self._packed and len(self._packed[-1][1]) <= len(run) and self._packed[-1][0] > newest - window / 8:
                run = np.sort(np.concatenate((self._packed.pop()[1], run)), kind="stable")
            self._packed.append((newest, run))

    def _forget(self, before: datetime) -> None:
        """Drop the runs that have left the window; fresh ids stay until they are packed."""
        for runs in (self._packed, self._unsorted):
            while runs and runs[0][0] < before:
                self._packed_less(len(runs.popleft()[1]))

    def _packed_less(self, count: int) -> None:
        self.packed_count -= count
        self.bytes -= PACKED_ID_BYTES * count


def keys_of(ids: Sequence[tuple[int, Sequence[str]]]) -> Keys:
    """The keys of ids, given by partition id; in their order."""
    partition_ids = np.array([partition_id for partition_id, _ in ids], dtype=np.uint64)
    counts = [len(own) for _, own in ids]
    keys = _hashes(list(chain.from_iterable(own for _, own in ids)))
    keys ^= np.repeat(partition_ids * _SPREAD, counts)
    keys ^= keys >> _HALF
    keys *= _MIX
    keys ^= keys >> _HALF
    return key_of(keys)


def _placed_keys(segments: Sequence[WrittenIds]) -> Keys:
    """The keys of segments with the low bits of their offsets."""
    keys = np.concatenate([each.keys for each in segments])
    counts = np.array([len(each.ids) for each in segments])
    firsts = np.array([each.first_offset for each in segments])
    offsets = np.repeat(firsts - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    if len(keys) < len(offsets):  # some have no id
        offsets = offsets[[id is not None for each in segments for id in each.ids]]
    return placed(keys, offsets.astype(np.uint64))


def give_keys(segments: Sequence[WrittenIds | Draft], ids: Sequence[Sequence[str]] | None = None) -> Keys:
    """Each segment gets the keys of its ids, `ids` where somebody has them at hand; answers all of them, in order."""
    ids = [given(each.ids or ()) for each in segments] if ids is None else ids
    keys = keys_of(list(zip((each.partition.id for each in segments), ids, strict=True)))
    spans = pairwise(accumulate(map(len, ids), initial=0))
    for each, (start, end) in zip(segments, spans, strict=True):
        each.keys = keys[start:end]
    return keys


def _hashes(ids: Sequence[str]) -> Keys:
    return np.fromiter(map(hash, ids), dtype=np.int64, count=len(ids)).view(np.uint64)
