"""Which ids are in the log already: from memory where it knows, from the log where it does not."""

import asyncio
import logging
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate

import msgspec
import numpy as np
from numpy.typing import NDArray

from queenmq.engine.arrays import BIGINTS, INCARNATION, PLAIN, listed, parameters
from queenmq.engine.database import Database
from queenmq.engine.dedup import DedupWindow
from queenmq.engine.drafts import Flush, IdKey, Keys, Original
from queenmq.engine.partitions import PartitionInfo
from queenmq.engine.recent_ids import WrittenIds

RECENT = "select * from queen.recent_ids($1, $2, $3, p_incarnation => $4)"
FIND_IDS = f"select * from queen.find_ids({parameters(BIGINTS, BIGINTS, PLAIN, INCARNATION)})"  # noqa: S608 (ours)

PAGE_BYTES = 4 << 20  # of ids that are read at once
NOT_READ = "a temporary file with transaction ids of the dedup window cannot be read; they are read from the log again"

log = logging.getLogger(__name__)

_ids = msgspec.json.Decoder(list[str | None])

PartitionIds = tuple[PartitionInfo, Sequence[str]]
Question = tuple[int, str, int]  # partition id, id, as of when


class Originals:
    """Finds the first messages with given ids."""

    def __init__(self, database: Database, window: DedupWindow, incarnation: str) -> None:
        self._database = database
        self._window = window
        self._incarnation = incarnation
        self._loading: dict[int, asyncio.Future[None]] = {}  # by partition: over when its recent ids are known

    async def find(
        self, ids: Sequence[PartitionIds], keys: Keys, clash: Callable[[], Flush | None]
    ) -> dict[IdKey, Original]:
        """Those of the ids that are there already; a flush in flight that `clash` names is waited for.

        True until somebody waits: a flush that is on its way may end.
        """
        looked_up: dict[Question, Original | None] = {}
        while True:
            await self._load_windows(ids)
            while (seen := self._window.seen(keys)).any() and (other := clash()):
                await asyncio.shield(other.done)
            if not seen.any():  # mostly
                return {}
            try:
                originals, doubtful = self._recall(ids, keys, seen, looked_up)
            except OSError as error:
                log.warning(NOT_READ, extra={"error": str(error)})
                self._window.forget_all()
                looked_up.clear()
                continue
            if not doubtful:
                return originals
            looked_up |= dict.fromkeys(doubtful)
            asked = [(question, offset) for question, offsets in doubtful.items() for offset in offsets]
            for row in await self._database.rows(
                FIND_IDS,
                listed([question[0] for question, _ in asked]),
                listed([offset for _, offset in asked]),
                [question[1] for question, _ in asked],
                self._incarnation,
            ):
                question, offset = asked[row["item"] - 1]
                known = looked_up[question]
                if known is None or offset < known.offset:
                    looked_up[question] = Original(offset, row["created_at"])

    async def _load_windows(self, ids: Sequence[PartitionIds]) -> None:
        """Read the recent ids of partitions that we know nothing of; if somebody else does so, wait."""
        while loading := [each for partition, _ in ids if (each := self._loading.get(partition.id))]:
            await asyncio.wait(loading)
        unknown = {partition.id: partition for partition, _ in ids if self._window.get(partition.id) is None}
        for partition in [partition for partition in unknown.values() if partition.seen_offset == 0]:
            self._window.start(partition.id, 0)
            del unknown[partition.id]
        if not unknown:
            return
        over = asyncio.get_running_loop().create_future()
        self._loading |= dict.fromkeys(unknown, over)
        try:
            await self._load(unknown)
        finally:
            for partition_id in unknown:
                del self._loading[partition_id]
            over.set_result(None)

    async def _load(self, unknown: Mapping[int, PartitionInfo]) -> None:
        """Page by page, as there may be millions; how far a partition's ids are complete it knows at every moment."""
        froms: dict[int, int | None] = dict.fromkeys(unknown)  # what is left, in order; None: all of its window
        while froms:
            told: list[WrittenIds] = []
            known: dict[int, int] = {}
            rows = await self._database.rows(RECENT, list(froms), list(froms.values()), PAGE_BYTES, self._incarnation)
            for row in rows:
                partition = unknown[row["partition_id"]]
                if row["transaction_ids"] is None:
                    known[partition.id] = row["next_offset"]
                else:
                    told.append(told_ids(partition, row["first_offset"], row["transaction_ids"], row["created_at"]))
                    known[partition.id] = row["first_offset"] + told[-1].count
            for partition_id in known:
                if froms[partition_id] is None:
                    self._window.start(partition_id, 0)
            self._window.learn(told)
            for partition_id, offset in known.items():
                if entry := self._window.get(partition_id):
                    entry.catch_up(offset)
            if not rows or rows[-1]["transaction_ids"] is None:
                return
            unfinished = rows[-1]["partition_id"]
            kept = self._window.get(unfinished) is not None  # it may have been too much for our memory
            left = dict.fromkeys(partition_id for partition_id in froms if partition_id not in known)
            froms = {unfinished: known[unfinished], **left} if kept else left

    def _recall(
        self,
        ids: Sequence[PartitionIds],
        keys: Keys,
        seen: NDArray[np.bool_],
        looked_up: dict[Question, Original | None],
    ) -> tuple[dict[IdKey, Original], dict[Question, list[int]]]:
        """Originals that we know, or have looked up, and what is still to be looked up, with the offsets to look at.

        In doubt are ids that are known by their hash or more than once, and those that seem to have left the window,
        by a clock that is not the log's.
        """
        originals: dict[IdKey, Original] = {}
        doubtful: dict[Question, list[int]] = {}
        now = datetime.now(UTC)
        for partition, suspected, own, filed in self._suspected(ids, keys, seen):
            entry = self._window.get(partition.id)
            if entry is None:
                continue
            window = partition.queue.dedup_window
            fresh = entry.originals(suspected, own)
            for id, packed, in_files in zip(suspected, entry.suspects(own, window), filed, strict=True):
                known = fresh.get(id, [])
                hashed = packed + in_files
                if not known and not hashed:
                    continue
                inside = [each for each in known if each.created_at >= now - window]
                original = inside[-1] if inside else None
                if hashed or len(known) != 1 or not inside:
                    key = partition.id, id, entry.packings  # what was fresh when we asked may be packed by now
                    if key not in looked_up:
                        doubtful[key] = [offset for low_bits in hashed for offset in entry.offsets(low_bits)]
                        doubtful[key] += [each.offset for each in known]
                    original = looked_up.get(key) or original  # it may have come after we asked
                if original is not None:
                    originals[partition.id, id] = original
        return originals, doubtful

    def _suspected(
        self, ids: Sequence[PartitionIds], keys: Keys, seen: NDArray[np.bool_]
    ) -> Iterable[tuple[PartitionInfo, Sequence[str], Keys, list[list[int]]]]:
        """Those of the ids that are perhaps known: few, as a rule; their keys, and what files say of these."""
        starts = list(accumulate((len(own) for _, own in ids), initial=0))
        places = np.flatnonzero(seen)
        suspected = keys[places]
        filed = self._window.files.find(suspected)
        found: dict[int, list[str]] = defaultdict(list)
        for place in places.tolist():
            number = bisect_right(starts, place) - 1
            found[number].append(ids[number][1][place - starts[number]])
        start = 0
        for number, own in found.items():
            end = start + len(own)
            yield ids[number][0], own, suspected[start:end], filed[start:end]
            start = end


def told_ids(partition: PartitionInfo, first_offset: int, ids: str, created_at: datetime) -> WrittenIds:
    """The ids of a segment as the database tells them."""
    told = _ids.decode(ids)
    return WrittenIds(partition, first_offset, len(told), told, created_at)
