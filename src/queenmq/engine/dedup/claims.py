"""What the push room uses of dedup: it claims the ids of a flush before they are written.

    claim ─► … write … ─┬─► remember ─► end     written: the window now has these ids
                        ├─► learn ────► end     refused: others wrote some of the ids; a new attempt makes a new claim
                        └─► doubt ────► end     the answer was lost, and nobody knows whether it was written

Between `claim` and `end`, no other flush of this engine goes out with one of the ids: it waits for the end. For flushes
of other engines, each call tells PostgreSQL up to which offset the engine knows the ids of a partition. PostgreSQL
compares the ids with all segments above it, and names the segments that the engine has missed.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID, uuid4

import numpy as np

from queenmq.engine.dedup.duplicate_lookup import DuplicateLookup, GivenIds, segment_ids
from queenmq.engine.dedup.id_filter import Keys, among
from queenmq.engine.dedup.partition_ids import IdKey, Original, PartitionIds, WrittenIds
from queenmq.engine.dedup.window import DedupWindow
from queenmq.engine.partitions import PartitionInfo
from queenmq.engine.postgres.database import Database


class Missed(NamedTuple):
    """A segment that others wrote, as a push call names it."""

    partition: PartitionInfo
    first_offset: int
    created_at: datetime
    ids: str | None  # None: there are too many missed segments to send; `first_offset` is where the partition ends


class Dedup:
    """Whether transaction ids are in the log already, for one engine and one incarnation of its database."""

    def __init__(self, database: Database, bytes_max: int, incarnation: str) -> None:
        self.window = DedupWindow(bytes_max)
        self.claims: dict[UUID, Claim] = {}  # of flushes in flight
        self._lookup = DuplicateLookup(database, self.window, incarnation)

    async def claim(self, ids: Sequence[GivenIds], keys: Keys) -> "Claim":
        """Wait until no flush in flight has one of the ids, find their originals, and claim the ids."""
        originals = await self._lookup.find(ids, keys, lambda: self._clash(keys)) if ids else {}
        return Claim(self, ids, np.sort(keys), originals)

    def _clash(self, keys: Keys) -> asyncio.Future[None] | None:
        """The end of a flush in flight that seems to carry one of the ids: its outcome decides about them."""
        return next((claim.ended for claim in self.claims.values() if among(claim.keys, keys).any()), None)

    def close(self) -> None:
        """Give back the disk space."""
        self.window.spill.close()


class Claim:
    """The ids of one flush in flight, and what the engine knew of their partitions when it claimed them."""

    def __init__(self, dedup: Dedup, ids: Sequence[GivenIds], keys: Keys, originals: dict[IdKey, Original]) -> None:
        self.id = uuid4()  # also of the flush: PostgreSQL keeps it with the segments
        self.keys = keys  # sorted
        self.originals = originals
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.beside = set(dedup.claims)  # flushes in flight at the same time: none of them has an id of this one
        self.known: dict[int, int] = {}  # by partition id: the window has all ids below this offset
        self._dedup = dedup
        self._window = dedup.window
        self._lessons = dedup.window.lessons  # when the ids were compared with the window
        self._entries: dict[int, PartitionIds] = {}
        for partition, _ in ids:
            entry = self._window.get(partition.id)
            if entry is not None:
                self._entries[partition.id] = entry
                self.known[partition.id] = entry.known
        for other in dedup.claims.values():
            other.beside.add(self.id)
        dedup.claims[self.id] = self
        self._window.begin(self.id, keys)

    @property
    def has_repeats(self) -> bool:
        """Whether the flush seems to carry an id twice."""
        return bool((self.keys[1:] == self.keys[:-1]).any())

    def refresh(self) -> None:
        """Raise `known` just before the call: flushes beside this one have been written, and share no id with it.

        If the engine has learned ids of others since the claim, they were not compared with this flush, so `known`
        stays.
        """
        if self._lessons == self._window.lessons:
            get, entries = self._window.get, self._entries
            self.known = {
                id: entry.known if (entry := get(id)) is not None and entry is entries[id] else known
                for id, known in self.known.items()
            }

    def learn(self, missed: Iterable[Missed], ours: Mapping[int, set[str | None]]) -> dict[IdKey, Original]:
        """Add segments that others wrote to the window. Returns the originals of `ours`: ids by partition id.

        If a partition has too many missed segments, the window drops it and reads its ids before the next call.
        """
        segments: list[WrittenIds] = []
        for partition, first_offset, created_at, ids in missed:
            if ids is None:
                self._window.drop(partition.id)
                partition.seen_offset = max(partition.seen_offset, first_offset)
            else:
                segments.append(segment_ids(partition, first_offset, ids, created_at))
        self._window.learn(segments)
        return {
            (each.partition.id, id): Original(offset, each.created_at)
            for each in segments
            for offset, id in enumerate(each.ids, each.first_offset)
            if id is not None and id in ours[each.partition.id]
        }

    def remember(self, written: Iterable[WrittenIds]) -> None:
        """Add the segments of this flush to the window, after it was written."""
        window, entries, known = self._window, self._entries, self.known
        remembered: list[WrittenIds] = []
        for each in written:
            partition, first_offset = each.partition, each.first_offset
            partition.seen_offset = max(partition.seen_offset, first_offset + each.count)
            entry = window.get(partition.id)
            if entry is None:
                continue
            if each.ids and partition.id not in entries:
                window.drop(partition.id)  # these ids were pushed without dedup, so the window is incomplete
                continue
            # The call has compared, and named, everything below our segment. That counts for the entry of the claim
            # only: one that was made later has not heard of it.
            if entry.known < first_offset and entries.get(partition.id) is entry and partition.id in known:
                entry.catch_up(first_offset)
            remembered.append(each)
        window.add(remembered)

    def lose_answer(self) -> None:
        """The call was found in the log, but what it named of others' ids was lost with its answer."""
        self.known.clear()

    def doubt(self) -> None:
        """Nobody knows whether this flush was written, so the ids above its `known` are incomplete.

        Calls in flight beside it were not told of its ids, because the engine said that it knows them.
        """
        for partition_id, known in list(self.known.items()):
            entry = self._window.get(partition_id)
            if entry is not None:
                entry.known = min(entry.known, known)
            for other in self._dedup.claims.values():
                other.known.pop(partition_id, None)

    def end(self) -> None:
        """The flush is over, written or not: calls that wait for its ids may look again."""
        if self._dedup.claims.pop(self.id, None) is not None:
            self._window.end(self.id)
            self.ended.set_result(None)


def ids_by_partition(
    segments: Iterable[tuple[PartitionInfo, Sequence[str | None] | None]],
) -> dict[int, set[str | None]]:
    """The ids of segments, by partition id."""
    ids: dict[int, set[str | None]] = defaultdict(set)
    for partition, own in segments:
        ids[partition.id].update(own or ())
    return ids
