"""What is in an archive: a chain of steps, each from one tick to the next.

    <location>/_queen/<queue>/next.json                          the step that is being written
    <location>/_queen/<queue>/000000000000-000000000042.json     a step that is complete
    <location>/_queen/<queue>/lost/<step>-<mark>.json            one that PostgreSQL has lost (lost.py)
    <location>/queue=<queue>/day=2030-01-31/<step>-<number>.parquet
    <location>/_lost/<mark>/queue=<queue>/…                      the files of a lost step

A step is in the archive when its manifest is; files without one are a step that was interrupted, and are written
again, byte by byte the same, by the next run. A step holds the marks of its ticks, which prove that the database still
has them; those of earlier versions have none.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct, structs

from queenmq.errors import InvalidArgument
from queenmq.spark.pipelines.store import Store

FORMAT = 1
NEXT = "next.json"


class ArchiveUnusable(InvalidArgument):
    """The archive is missing, damaged, or one of something else."""

    hint = "Check the location; an archive belongs to one database and is written by queen pipeline archive alone."


class File(Struct, frozen=True):
    """One Parquet file."""

    path: str  # below the location
    rows: int
    bytes: int


class Range(Struct, frozen=True, kw_only=True):
    """From one tick to another, of one queue of one database."""

    format: int = FORMAT
    installation: str
    queue: str
    queue_id: int
    from_tick: int
    to_tick: int
    from_mark: str | None = None
    to_mark: str | None = None
    to_trail: Sequence[tuple[int, str, int]] = ()

    @property
    def name(self) -> str:
        """What the names of its files begin with: they sort as they follow each other."""
        return f"{self.from_tick:012}-{self.to_tick:012}"

    @property
    def end(self) -> dict[str, Any]:
        """The position with which it ends."""
        proof = {} if self.to_mark is None else {"mark": self.to_mark, "trail": self.to_trail}
        return {"tick": self.to_tick} | proof

    @property
    def short_mark(self) -> str:
        """Enough of the mark to tell steps apart that have the same numbers."""
        return (self.to_mark or "unmarked")[:8]

    def precedes(self, other: "Range") -> bool:
        """Whether another range begins where this one ends."""
        marks = {self.to_mark, other.from_mark} - {None}
        return self.to_tick == other.from_tick and len(marks) < 2 and self.same_queue(other)

    def same_queue(self, other: "Range") -> bool:
        """Whether both are about the same queue of the same database."""
        mine, others = (self.installation, self.queue, self.queue_id), (other.installation, other.queue, other.queue_id)
        return mine == others


class Step(Range, frozen=True, kw_only=True):
    """A range whose messages are all in these files."""

    rows: int
    files: tuple[File, ...]

    @classmethod
    def of(cls, range: Range, rows: int, files: Iterable[File]) -> "Step":
        """The range, complete."""
        return cls(**structs.asdict(range), rows=rows, files=tuple(files))


class Manifest:
    """The steps of one queue in an archive."""

    def __init__(self, store: Store, queue: str) -> None:
        self._store = store
        self._queue = queue
        self._directory = f"_queen/{quote(queue, safe='')}"

    def steps(self) -> list[Step]:
        """All complete steps, in order; refused when one is missing."""
        names = [name for name in self._store.names(self._directory) if name.endswith(".json") and name != NEXT]
        steps = [self._load(name, Step) for name in names]
        for step, following in pairwise(steps):
            if not step.precedes(following):
                raise ArchiveUnusable(
                    f'the archive of "{self._queue}" in {self._store.location} has no step from tick {step.to_tick}'
                )
        if steps and steps[0].from_tick != 0:
            raise ArchiveUnusable(f'the archive of "{self._queue}" in {self._store.location} lacks its beginning')
        return steps

    def required(self) -> list[Step]:
        """The same, of an archive that must exist, with all its files as long as they were."""
        steps = self.steps()
        if not steps:
            raise ArchiveUnusable(f'there is no archive of the queue "{self._queue}" in {self._store.location}')
        for file in (file for step in steps for file in step.files):
            if self._store.size(file.path) != file.bytes:
                raise ArchiveUnusable(f"{self._store.address(file.path)} is missing or damaged")
        return steps

    def intention(self) -> Range | None:
        """The step that was being written when a run was interrupted."""
        if self._store.read(f"{self._directory}/{NEXT}") is None:
            return None
        found: Range = self._load(NEXT, Range)
        return found

    def intend(self, step: Range) -> None:
        """Say which step is being written: whoever comes after an interruption writes the same one."""
        self._save(NEXT, step)

    def commit(self, step: Step) -> None:
        """Make a step part of the archive."""
        self._save(f"{step.name}.json", step)
        self._store.remove(f"{self._directory}/{NEXT}")

    def abandon(self, step: Range) -> None:
        """Remove what an interrupted run has written of a step that will never be complete."""
        for path in self._store.paths(f"queue={quote(self._queue, safe='')}"):
            if path.rpartition("/")[2].startswith(f"{step.name}-"):
                self._store.remove(path)
        self._store.remove(f"{self._directory}/{NEXT}")

    def keep_lost(self, step: Step) -> None:
        """Write the manifest of a step that PostgreSQL has lost, beside the others."""
        self._save(f"lost/{step.name}-{step.short_mark}.json", step)

    def remove(self, step: Step) -> None:
        """Take a step out of the archive."""
        self._store.remove(f"{self._directory}/{step.name}.json")

    def _load(self, name: str, kind: Any) -> Any:
        text = self._store.read(f"{self._directory}/{name}")
        try:
            found = msgspec.json.decode(text or b"", type=kind)
        except msgspec.DecodeError as error:
            raise ArchiveUnusable(f"{self._store.address(self._directory)}/{name} is damaged: {error}") from None
        if found.format != FORMAT:
            raise ArchiveUnusable(f"the archive in {self._store.location} has the format {found.format}, not {FORMAT}")
        return found

    def _save(self, name: str, value: Range) -> None:
        with self._store.create(f"{self._directory}/{name}") as stream:
            stream.write(msgspec.json.format(msgspec.json.encode(value), indent=1))
