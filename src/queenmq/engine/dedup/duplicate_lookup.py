"""Find the originals of transaction ids: in the dedup window if it knows them, otherwise in the log."""

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

from queenmq.engine.dedup.id_filter import Keys
from queenmq.engine.dedup.partition_ids import IdKey, Original, WrittenIds
from queenmq.engine.dedup.window import DedupWindow
from queenmq.engine.partitions import PartitionInfo
from queenmq.engine.postgres.database import Database
from queenmq.engine.postgres.pg_arrays import BIGINTS, INCARNATION, PLAIN, listed, parameters

RECENT = "select * from queen.recent_ids($1, $2, $3, p_incarnation => $4)"
FIND_IDS = f"select * from queen.find_ids({parameters(BIGINTS, BIGINTS, PLAIN, INCARNATION)})"  # noqa: S608 (ours)

PAGE_BYTES = 4 << 20  # of ids that one call reads
NOT_READ = "a temporary file with transaction ids of the dedup window cannot be read; they are read from the log again"

log = logging.getLogger(__name__)

_ids = msgspec.json.Decoder(list[str | None])

GivenIds = tuple[PartitionInfo, Sequence[str]]  # ids that are pushed to a partition
Question = tuple[int, str, int]  # partition id, id, how often the partition's ids had been packed


class DuplicateLookup:
    """Finds the first messages with given ids."""

    def __init__(self, database: Database, window: DedupWindow, incarnation: str) -> None:
        self._database = database
        self._window = window
        self._incarnation = incarnation
        self._loading: dict[int, asyncio.Future[None]] = {}  # by partition id: done when its ids have been read

    async def find(
        self, ids: Sequence[GivenIds], keys: Keys, clash: Callable[[], asyncio.Future[None] | None]
    ) -> dict[IdKey, Original]:
        """The originals of those ids that are in the log.

        `clash` returns the end of a flush in flight that may carry one of the ids; the lookup waits for it. The result
        is true until the caller waits for something else: then another flush may end.
        """
        looked_up: dict[Question, Original | None] = {}
        while True:
            await self._load_windows(ids)
            while (seen := self._window.seen(keys)).any() and (other := clash()):
                await asyncio.shield(other)
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
            looked_up |= await self._look_up(doubtful)

    async def _look_up(self, doubtful: dict[Question, list[int]]) -> dict[Question, Original | None]:
        """Read the log at these offsets: the first message there with the id of the question, or None."""
        found: dict[Question, Original | None] = dict.fromkeys(doubtful)
        asked = [(question, offset) for question, offsets in doubtful.items() for offset in offsets]
        for row in await self._database.rows(
            FIND_IDS,
            listed([question[0] for question, _ in asked]),
            listed([offset for _, offset in asked]),
            [question[1] for question, _ in asked],
            self._incarnation,
        ):
            question, offset = asked[row["item"] - 1]
            known = found[question]
            if known is None or offset < known.offset:
                found[question] = Original(offset, row["created_at"])
        return found

    async def _load_windows(self, ids: Sequence[GivenIds]) -> None:
        """Read the recent ids of partitions that the window does not have. If another call reads them, wait for it."""
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
        """Read page by page, because there may be millions. After each page, `known` of each partition is right."""
        froms: dict[int, int | None] = dict.fromkeys(unknown)  # what is left: from which offset; None: the whole window
        while froms:
            segments: list[WrittenIds] = []
            known: dict[int, int] = {}
            rows = await self._database.rows(RECENT, list(froms), list(froms.values()), PAGE_BYTES, self._incarnation)
            for row in rows:
                partition = unknown[row["partition_id"]]
                if row["transaction_ids"] is None:
                    known[partition.id] = row["next_offset"]
                else:
                    segments.append(
                        segment_ids(partition, row["first_offset"], row["transaction_ids"], row["created_at"])
                    )
                    known[partition.id] = row["first_offset"] + segments[-1].count
            for partition_id in known:
                if froms[partition_id] is None:
                    self._window.start(partition_id, 0)
            self._window.learn(segments)
            for partition_id, offset in known.items():
                if entry := self._window.get(partition_id):
                    entry.catch_up(offset)
            if not rows or rows[-1]["transaction_ids"] is None:
                return
            unfinished = rows[-1]["partition_id"]
            kept = self._window.get(unfinished) is not None  # if not, its ids were too many for the window's memory
            left = dict.fromkeys(partition_id for partition_id in froms if partition_id not in known)
            froms = {unfinished: known[unfinished], **left} if kept else left

    def _recall(
        self,
        ids: Sequence[GivenIds],
        keys: Keys,
        seen: NDArray[np.bool_],
        looked_up: dict[Question, Original | None],
    ) -> tuple[dict[IdKey, Original], dict[Question, list[int]]]:
        """The originals that the window has or that were looked up, and what must be looked up, with the offsets.

        An id must be looked up if the window has only its key, has it more than once, or if it seems to have left the
        dedup window: that is decided by PostgreSQL's clock, not by ours.
        """
        originals: dict[IdKey, Original] = {}
        doubtful: dict[Question, list[int]] = {}
        now = datetime.now(UTC)
        for partition, suspected, own, spilled in self._suspected(ids, keys, seen):
            entry = self._window.get(partition.id)
            if entry is None:
                continue
            window = partition.queue.dedup_window
            fresh = entry.originals(suspected, own)
            for id, packed, in_files in zip(suspected, entry.suspects(own, window), spilled, strict=True):
                known = fresh.get(id, [])
                hashed = packed + in_files
                if not known and not hashed:
                    continue
                inside = [each for each in known if each.created_at >= now - window]
                original = inside[-1] if inside else None
                if hashed or len(known) != 1 or not inside:
                    key = partition.id, id, entry.packings  # fresh ids may be packed while the log is read
                    if key not in looked_up:
                        doubtful[key] = [offset for low_bits in hashed for offset in entry.offsets(low_bits)]
                        doubtful[key] += [each.offset for each in known]
                    original = looked_up.get(key) or original  # it may have been written after the log was read
                if original is not None:
                    originals[partition.id, id] = original
        return originals, doubtful

    def _suspected(
        self, ids: Sequence[GivenIds], keys: Keys, seen: NDArray[np.bool_]
    ) -> Iterable[tuple[PartitionInfo, Sequence[str], Keys, list[list[int]]]]:
        """The ids that may be known, mostly few: for each partition the ids, their keys, and their offsets in files."""
        starts = list(accumulate((len(own) for _, own in ids), initial=0))
        indexes = np.flatnonzero(seen)
        suspected = keys[indexes]
        spilled = self._window.spill.find(suspected)
        found: dict[int, list[str]] = defaultdict(list)
        for index in indexes.tolist():
            number = bisect_right(starts, index) - 1
            found[number].append(ids[number][1][index - starts[number]])
        start = 0
        for number, own in found.items():
            end = start + len(own)
            yield ids[number][0], own, suspected[start:end], spilled[start:end]
            start = end


def segment_ids(partition: PartitionInfo, first_offset: int, ids: str, created_at: datetime) -> WrittenIds:
    """The ids of a segment from a row of PostgreSQL."""
    decoded = _ids.decode(ids)
    return WrittenIds(partition, first_offset, len(decoded), decoded, created_at)
