"""The recent transaction ids of one partition: the newest as text, older ones as keys with the low bits of offsets."""

from collections import deque
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import accumulate, chain, pairwise
from operator import attrgetter
from typing import Protocol

import numpy as np
from msgspec import Struct

from queenmq.engine.dedup.id_filter import NO_KEYS, SAME_LOW_BITS, Keys, among, found_in, key_of, with_offsets
from queenmq.engine.partitions import PartitionInfo, QueueInfo

IdKey = tuple[int, str]  # partition id, transaction id
KeyRun = tuple[datetime, Keys]  # keys that are kept together, and when the newest of their messages was written

FRESH_IDS_MAX = 4_096  # per partition, before they are packed into keys; earlier if memory is short
FRESH_ID_BYTES = 120  # of an id that is kept as text, roughly
SEGMENT_BYTES = 200  # of what is kept for each segment with such ids
PACKED_ID_BYTES = 16  # of a key, and of its part of the filter
PARTITION_BYTES = 1_000  # of what is kept for a partition beside its ids, roughly

_SPREAD, _MIX, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(32)


class Original(Struct):
    """Where the first message with an id is."""

    offset: int
    created_at: datetime


class WrittenIds(Struct, gc=False):
    """The ids of a segment, and where the segment is in the log."""

    partition: PartitionInfo
    first_offset: int
    count: int
    ids: Sequence[str | None]  # empty if no message has an id
    created_at: datetime
    keys: Keys = NO_KEYS  # of the ids


class HasIds(Protocol):
    """A segment, written or not, whose ids get keys."""

    partition: PartitionInfo
    keys: Keys

    @property
    def ids(self) -> Sequence[str | None] | None:
        """One for each message, or nothing if no message has one."""


class PartitionIds:
    """The ids of one partition inside the dedup window. Together with the spilled ones, all ids below `known`."""

    __slots__ = (
        "_fresh", "_fresh_count", "_fresh_key_count", "_islands", "_packed", "_unsorted", "bytes", "known",
        "packed_count", "packings", "partition_id", "queue", "written",
    )  # fmt: skip

    def __init__(self, partition_id: int, known: int) -> None:
        self.partition_id = partition_id
        self.known = known  # an offset
        self.queue: QueueInfo | None = None  # as of the last segment with ids
        self.packings = 0  # how often fresh ids were packed into keys
        self.packed_count = 0  # keys in memory
        self.written = 0  # the window's count of additions at the last write
        self.bytes = PARTITION_BYTES  # about how much memory this takes
        self._islands: dict[int, int] = {}  # segments of this engine above `known`: first offset -> end
        self._fresh: list[WrittenIds] = []
        self._fresh_count = 0  # messages
        self._fresh_key_count = 0
        self._packed: deque[KeyRun] = deque()  # each sorted
        self._unsorted: deque[KeyRun] = deque()  # newer than the sorted ones

    @property
    def window(self) -> timedelta:
        """How long the ids of this partition are kept."""
        return self.queue.dedup_window if self.queue is not None else timedelta(0)

    @property
    def key_count(self) -> int:
        """How many keys there are in memory."""
        return self._fresh_key_count + self.packed_count

    def keys(self) -> Keys:
        """The keys of all ids in memory."""
        return np.concatenate([self._fresh_keys(), *(keys for _, keys in self._key_runs())])

    def _fresh_keys(self) -> Keys:
        return np.concatenate([NO_KEYS, *(each.keys for each in self._fresh)])

    def _key_runs(self) -> Iterable[KeyRun]:
        return chain(self._packed, self._unsorted)

    def originals(self, ids: Sequence[str], keys: Keys) -> dict[str, list[Original]]:
        """The messages with these ids among the fresh ones, by offset. An id may be stored twice."""
        found: dict[str, list[Original]] = {}
        indexes = np.flatnonzero(among(np.sort(keys), self._fresh_keys()))
        if not len(indexes):  # mostly
            return found
        ends = np.cumsum([len(each.keys) for each in self._fresh])
        numbers = np.unique(np.searchsorted(ends, indexes, side="right")).tolist()
        wanted = set(ids)
        for each in sorted((self._fresh[number] for number in numbers), key=attrgetter("first_offset")):
            for offset, id in enumerate(each.ids, each.first_offset):
                if id in wanted:
                    own = found.setdefault(id, [])
                    if not own or own[-1].offset < offset:  # a segment may have been added twice
                        own.append(Original(offset, each.created_at))
        return found

    def suspects(self, keys: Keys, window: timedelta) -> list[list[int]]:
        """For each key, the low bits of the offsets at which packed ids have it: most likely duplicates."""
        self._sort(window)
        found: list[list[int]] = [[] for _ in keys]
        for _, packed in self._packed:
            for index, low_bits in found_in(packed, keys):
                found[index].append(low_bits)
        return found

    def offsets(self, low_bits: int) -> Sequence[int]:
        """The offsets with these low bits. In all but very long partitions there is one."""
        return range(low_bits, max((self.known, *self._islands.values())), SAME_LOW_BITS)

    def add(self, written: WrittenIds) -> None:
        """Add a segment that this engine has written, or that it has learned from PostgreSQL."""
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
        """Note that all ids below this offset have been added."""
        self.known = max(self.known, known)
        if not self._islands:
            return
        for first in sorted(first for first in self._islands if first <= self.known):
            self.known = max(self.known, self._islands.pop(first))

    def pack(self) -> None:
        """Turn the fresh ids into a run of keys."""
        if not self._fresh:
            return
        newest = max(each.created_at for each in self._fresh)
        keys = _keys_with_offsets(self._fresh)
        self.packings += 1
        self.packed_count += len(keys)
        self.bytes += (
            PACKED_ID_BYTES * len(keys) - FRESH_ID_BYTES * self._fresh_count - SEGMENT_BYTES * len(self._fresh)
        )
        self._unsorted.append((newest, keys))
        self._fresh = []
        self._fresh_count = self._fresh_key_count = 0

    def oldest(self, count: int) -> list[KeyRun]:
        """So many keys from the oldest runs, or all there are."""
        oldest: list[KeyRun] = []
        for newest, keys in self._key_runs():
            oldest.append((newest, keys[:count]))
            count -= len(keys)
            if count <= 0:
                break
        return oldest

    def drop_oldest(self, count: int) -> None:
        """Remove so many keys from the oldest runs, after they were spilled to a file."""
        self._count_packed(-count)
        while count > 0:
            key_runs = self._packed or self._unsorted
            newest, keys = key_runs.popleft()
            if len(keys) > count:
                key_runs.appendleft((newest, keys[count:].copy()))
            count -= len(keys)

    def _sort(self, window: timedelta) -> None:
        """Sort the new runs, and merge a run into the next one if it is no larger and not much older.

        Sizes double from run to run, so there are few. A run outlives the window by an eighth of it at most.
        """
        while self._unsorted:
            newest, keys = self._unsorted.popleft()
            keys.sort()
            while self._packed and len(self._packed[-1][1]) <= len(keys) and self._packed[-1][0] > newest - window / 8:
                keys = np.sort(np.concatenate((self._packed.pop()[1], keys)), kind="stable")
            self._packed.append((newest, keys))

    def _forget(self, before: datetime) -> None:
        """Drop the runs that have left the window. Fresh ids stay until they are packed."""
        for key_runs in (self._packed, self._unsorted):
            while key_runs and key_runs[0][0] < before:
                self._count_packed(-len(key_runs.popleft()[1]))

    def _count_packed(self, more: int) -> None:
        self.packed_count += more
        self.bytes += PACKED_ID_BYTES * more


def keys_of(ids: Sequence[tuple[int, Sequence[str]]]) -> Keys:
    """The keys of ids, which are given for each partition id; in the same order."""
    partition_ids = np.array([partition_id for partition_id, _ in ids], dtype=np.uint64)
    counts = [len(own) for _, own in ids]
    keys = _hashes(list(chain.from_iterable(own for _, own in ids)))
    keys ^= np.repeat(partition_ids * _SPREAD, counts)
    keys ^= keys >> _HALF
    keys *= _MIX
    keys ^= keys >> _HALF
    return key_of(keys)


def _keys_with_offsets(segments: Sequence[WrittenIds]) -> Keys:
    """The keys of segments, with the low bits of the offsets of their messages."""
    keys = np.concatenate([each.keys for each in segments])
    counts = np.array([len(each.ids) for each in segments])
    firsts = np.array([each.first_offset for each in segments])
    offsets = np.repeat(firsts - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    if len(keys) < len(offsets):  # some messages have no id
        offsets = offsets[[id is not None for each in segments for id in each.ids]]
    return with_offsets(keys, offsets.astype(np.uint64))


def give_keys(segments: Sequence[HasIds], ids: Sequence[Sequence[str]] | None = None) -> Keys:
    """Set the keys of each segment, and return all of them in order. `ids`: those of the segments, without gaps."""
    ids = [without_gaps(each.ids or ()) for each in segments] if ids is None else ids
    keys = keys_of(list(zip((each.partition.id for each in segments), ids, strict=True)))
    spans = pairwise(accumulate(map(len, ids), initial=0))
    for each, (start, end) in zip(segments, spans, strict=True):
        each.keys = keys[start:end]
    return keys


def without_gaps(ids: Sequence[str | None]) -> Sequence[str]:
    """The ids of the messages that have one."""
    return ids if all(ids) else list(filter(None, ids))  # type: ignore[return-value]


def _hashes(ids: Sequence[str]) -> Keys:
    return np.fromiter(map(hash, ids), dtype=np.int64, count=len(ids)).view(np.uint64)
