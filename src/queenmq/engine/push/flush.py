"""A flush: one push call, with the messages of all callers that wait for it.

    prepare ──► claim its ids ──► leave out duplicates ──► write ──┬─► written: remember, answer
       ▲                                                           │
       └───────── end the claim, learn ◄── refused by PostgreSQL ──┘

A flush is refused if other engines wrote some of its ids, if a partition was deleted, or if a queue is encrypted now.
Nothing of it is stored then, and it is prepared again with what the engine has learned. The claim (dedup/claims.py) is
what a flush and the other flushes in flight know of each other; it always ends, also with an error.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from msgspec import Struct

from queenmq.engine.dedup.claims import Claim
from queenmq.engine.dedup.partition_ids import IdKey, Original
from queenmq.engine.partitions import PartitionInfo
from queenmq.engine.postgres.pg_arrays import Texts, lines
from queenmq.engine.push.push_request import PushRequest
from queenmq.engine.push.segment_builder import Draft

if TYPE_CHECKING:
    from queenmq.engine.memory import Memory


class Flush(Struct):
    """One push call: its segments by partition id, and the duplicates that were left out of them."""

    memory: "Memory"  # what the flush relies on, and adds to
    claim: Claim
    request: PushRequest
    drafts: list[Draft]
    new_queues: set[str]  # a partition of them may be new, so no group can be waiting for it
    id_lines: str | None = None  # the ids of all drafts, as they are sent
    duplicates: list[tuple[int, PartitionInfo, str, Original]] = []  # by index in the request
    repeats: list[tuple[int, PartitionInfo, str]] = []  # ids that come twice in this flush

    @property
    def id(self) -> UUID:
        """The id that PostgreSQL keeps with the segments: it tells whether a flush was written."""
        return self.claim.id

    def leave_out(self, originals: Mapping[IdKey, Original]) -> set[int]:
        """The indexes of messages whose ids have originals, or come earlier in this flush. Notes both kinds."""
        left_out: set[int] = set()
        taken: set[IdKey] = set()
        for draft in self.drafts:
            if draft.ids is None or not draft.has_window:
                continue
            for index, id in zip(draft.indexes, draft.ids, strict=True):
                if id is None:
                    continue
                key = draft.partition.id, id
                if key in originals:
                    self.duplicates.append((index, draft.partition, id, originals[key]))
                    left_out.add(index)
                elif key in taken:
                    self.repeats.append((index, draft.partition, id))
                    left_out.add(index)
                else:
                    taken.add(key)
        return left_out

    def encode_ids(self) -> None:
        """Encode the ids for the call, and let the cache keep this text instead of single strings."""
        self.id_lines = lines([draft.ids for draft in self.drafts])
        for draft, line in zip(self.drafts, self.id_lines.split("\n"), strict=True):
            draft.kept_ids = draft.ids if draft.ids is None or len(draft.ids) == 1 else Texts(line, len(draft.ids))

    def written(self, row: Any) -> Iterable[tuple[Draft, int, datetime]]:
        """The segments with the first offset and the time that PostgreSQL gave each."""
        return zip(self.drafts, row["first_offsets"], self.times(row), strict=True)

    def times(self, row: Any) -> list[datetime]:
        """When each segment was written. Mostly PostgreSQL sends one time for all."""
        times: list[datetime] = row["created_ats"]
        return times * (len(self.drafts) // len(times))
