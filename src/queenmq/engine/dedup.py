"""Recent transaction ids, so that duplicates are recognised without asking the database.

The log is the index: a partition's ids are in its segments. This is a copy of the dedup window in memory, and it is
allowed to know too little, never to be wrong. For every partition it knows all ids of the window below `known`;
what others wrote above that, the push call finds and tells. The newest ids are kept as they are; older ones as 64-bit
hashes, sorted when somebody asks. A hash that matches is only a suspicion: the log is then asked (queen.find_ids).

Most ids are new, and one look at a filter of all partitions says so, for a whole flush at a time; it knows those of
flushes that are on their way, too. What it suspects is looked for in these, and in the partition's own ids.
"""

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import accumulate, chain, compress, pairwise
from operator import attrgetter
from time import monotonic
from uuid import UUID

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from queenmq.engine.drafts import NO_KEYS, Draft, Keys, Original
from queenmq.engine.partitions import PartitionInfo
from queenmq.engine.requests import given

log = logging.getLogger(__name__)

Run = tuple[datetime, Keys]  # newest moment in it

FRESH_IDS_MAX = 4_096  # per partition, before they are packed into hashes; earlier when memory is short
FRESH_ID_BYTES = 120  # of an id that is kept as it is, roughly
SEGMENT_BYTES = 200  # of what is kept of a segment beside them
PACKED_ID_BYTES = 16  # of its hash, and of its part of the filter
PARTITION_BYTES = 1_000  # of what is kept of a partition beside its ids, roughly
SEARCHED_MAX = 8  # ids that are looked for before an index is made of all

LATELY = 100  # flushes ago: what is forgotten so soon is mostly needed again
WARNING_SECONDS = 60.0  # between two of them
DO_NOT_FIT = (
    "the transaction ids of the dedup window do not fit into memory and are read again and again, which is slow: "
    "raise QUEEN_DEDUP_BYTES_MAX, or shorten dedup_window_seconds of busy queues"
)

FILTER_WORDS_MIN = 1_024
FILTER_WORD_KEYS_MAX = 2  # on average: then about one new id in 1,200 is suspected
FILTER_SHIFTS = np.arange(0, 24, 6, dtype=np.uint64)  # where a key has the places of its bits

_ONE, _LOW_BITS = np.uint64(1), np.uint64(63)
_SPREAD, _MIX, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(32)


class WrittenIds(Struct, gc=False):
    """The ids of a segment, and where it is in the log."""

    partition: PartitionInfo
    first_offset: int
    count: int
    ids: Sequence[str | None]  # nothing where no message has one
    created_at: datetime
    keys: Keys = NO_KEYS  # of the ids


class Filter:
    """Keys that were seen: what it has not seen is new, what it has seen most likely is not.

    A key is four bits in one of its words.
    """

    def __init__(self, keys: int) -> None:
        bits = max(FILTER_WORDS_MIN, keys // FILTER_WORD_KEYS_MAX).bit_length()
        self.room = FILTER_WORD_KEYS_MAX << bits
        self._shift = np.uint64(64 - bits)
        self._words = np.zeros(1 << bits, dtype=np.uint64)

    def add(self, keys: Keys) -> None:
        """From now on these were seen."""
        np.bitwise_or.at(self._words, keys >> self._shift, _bits(keys))
        self.room -= len(keys)

    def seen(self, keys: Keys) -> NDArray[np.bool_]:
        """Which of these were, perhaps."""
        bits = _bits(keys)
        seen: NDArray[np.bool_] = (self._words[keys >> self._shift] & bits) == bits
        return seen


class RecentIds:
    """The ids of one partition inside the dedup window, complete below `known`."""

    __slots__ = (
        "_fresh", "_fresh_count", "_islands", "_packed", "_unsorted", "bytes", "known", "packings", "partition_id",
        "written",
    )  # fmt: skip

    def __init__(self, partition_id: int, known: int) -> None:
        self.partition_id = partition_id
        self.known = known
        self.packings = 0  # how often ids became hashes
        self.written = 0  # when, as the window counts
        self.bytes = PARTITION_BYTES  # about how much memory this takes
        self._islands: dict[int, int] = {}  # our own segments above `known`: first offset -> end
        self._fresh: list[WrittenIds] = []
        self._fresh_count = 0  # of ids
        self._packed: deque[Run] = deque()  # each sorted
        self._unsorted: deque[Run] = deque()  # later ones

    @property
    def key_count(self) -> int:
        """How many keys there are."""
        return sum(len(each.keys) for each in self._fresh) + sum(len(run) for _, run in self._runs())

    def keys(self) -> Keys:
        """Those of all ids."""
        return np.concatenate([NO_KEYS, *(each.keys for each in self._fresh), *(run for _, run in self._runs())])

    def _runs(self) -> Iterable[Run]:
        return chain(self._packed, self._unsorted)

    def originals(self, ids: Sequence[str]) -> dict[str, Original]:
        """The messages with these ids that are among the newest."""
        if len(ids) <= SEARCHED_MAX and not any(id in each.ids for each in self._fresh for id in ids):
            return {}
        places = {
            id: (each, offset) for each in self._fresh for offset, id in enumerate(each.ids, each.first_offset) if id
        }
        found = ((id, places[id]) for id in ids if id in places)
        return {id: Original(offset, each.created_at) for id, (each, offset) in found}

    def suspects(self, ids: Sequence[str], window: timedelta) -> list[str]:
        """Those ids whose hash is among the packed ones: most likely duplicates."""
        self._sort(window)
        keys = keys_of([(self.partition_id, ids)])
        hit = np.zeros(len(ids), dtype=bool)
        for _, packed in self._packed:
            hit |= among(packed, keys)
        return list(compress(ids, hit))

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
        self._fresh.append(written)
        self._fresh_count += count
        self.bytes += FRESH_ID_BYTES * count + SEGMENT_BYTES
        if self._fresh_count > FRESH_IDS_MAX:
            self.pack()
        if self._packed or self._unsorted:
            self._forget(written.created_at - written.partition.queue.dedup_window)

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
        run = np.concatenate([each.keys for each in self._fresh])
        self.packings += 1
        self.bytes += PACKED_ID_BYTES * len(run) - FRESH_ID_BYTES * self._fresh_count - SEGMENT_BYTES * len(self._fresh)
        self._unsorted.append((newest, run))
        self._fresh = []
        self._fresh_count = 0

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
                self.bytes -= PACKED_ID_BYTES * len(runs.popleft()[1])


class DedupWindow:
    """The recent ids of all partitions this process writes, least recently written ones forgotten first."""

    def __init__(self, bytes_max: int) -> None:
        self.lessons = 0  # how often others' ids were learned
        self._bytes_max = bytes_max
        self._bytes = 0
        self._partitions: dict[int, RecentIds] = {}
        self.get = self._partitions.get  # what is known of a partition, by its id; None when nothing is
        self._additions = 0
        self._warned_at = -WARNING_SECONDS
        self._filter = Filter(0)
        self._on_their_way: dict[UUID, Keys] = {}

    def seen(self, keys: Keys) -> NDArray[np.bool_]:
        """Which of these are perhaps known."""
        return self._filter.seen(keys)

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
            if self._bytes > self._bytes_max:
                self._shrink()

    def drop(self, partition_id: int) -> None:
        """Forget a partition."""
        entry = self._partitions.pop(partition_id, None)
        if entry is not None:
            self._bytes -= entry.bytes

    def _note(self, keys: Keys) -> None:
        if not len(keys):
            return
        if len(keys) > self._filter.room:
            entries, under_way = self._partitions.values(), self._on_their_way.values()
            known = sum(entry.key_count for entry in entries) + sum(map(len, under_way))
            self._filter = Filter(0)  # no room for two at a time, nor for a copy of all keys
            self._filter = Filter(known + len(keys))
            for each in chain((entry.keys() for entry in entries), under_way):
                self._filter.add(each)
        self._filter.add(keys)

    def _shrink(self) -> None:
        """Pack all ids; if that is not enough, forget partitions that were not written lately."""
        for entry in self._partitions.values():
            before = entry.bytes
            entry.pack()
            self._bytes += entry.bytes - before
        for entry in sorted(self._partitions.values(), key=attrgetter("written"))[:-1]:
            if self._bytes <= self._bytes_max * 3 // 4:
                break
            self.drop(entry.partition_id)
            if entry.written > self._additions - LATELY and monotonic() > self._warned_at + WARNING_SECONDS:
                self._warned_at = monotonic()
                log.warning(DO_NOT_FIT, extra={"bytes_max": self._bytes_max, "partitions": len(self._partitions)})


def keys_of(ids: Sequence[tuple[int, Sequence[str]]]) -> Keys:
    """The keys of ids, given by partition id; in their order."""
    partition_ids = np.array([partition_id for partition_id, _ in ids], dtype=np.uint64)
    counts = [len(own) for _, own in ids]
    keys = _hashes(list(chain.from_iterable(own for _, own in ids)))
    keys ^= np.repeat(partition_ids * _SPREAD, counts)
    keys ^= keys >> _HALF
    keys *= _MIX
    keys ^= keys >> _HALF
    return keys


def give_keys(segments: Sequence[WrittenIds | Draft]) -> Keys:
    """Each segment gets the keys of its ids; answers all of them, in order."""
    ids = [(each.partition.id, given(each.ids or ())) for each in segments]
    keys = keys_of(ids)
    spans = pairwise(accumulate((len(own) for _, own in ids), initial=0))
    for each, (start, end) in zip(segments, spans, strict=True):
        each.keys = keys[start:end]
    return keys


def among(run: Keys, keys: Keys) -> NDArray[np.bool_]:
    """Which of the keys are in a sorted run."""
    if not len(run):
        return np.zeros(len(keys), dtype=bool)
    places = np.searchsorted(run, keys)
    places[places == len(run)] = 0
    found: NDArray[np.bool_] = run[places] == keys
    return found


def _hashes(ids: Sequence[str]) -> Keys:
    return np.fromiter(map(hash, ids), dtype=np.int64, count=len(ids)).view(np.uint64)


def _bits(keys: Keys) -> Keys:
    bits = np.zeros(len(keys), dtype=np.uint64)
    for shift in FILTER_SHIFTS:
        bits |= _ONE << ((keys >> shift) & _LOW_BITS)
    return bits
