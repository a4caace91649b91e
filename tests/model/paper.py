"""The queue on paper: per partition a list of messages, per group and partition a bookmark.

Nothing here is fast or clever. Offsets are positions in a Python list, what a group is done with is a dictionary,
and whatever is asked is found by walking over all of it.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

DEFAULTS: dict[str, Any] = {
    "priority": 0,
    "lease_seconds": 300,
    "retry_limit": 3,
    "retry_delay_ms": 1000,
    "retry_backoff": 1,
    "delayed_processing_seconds": 0,
    "window_buffer_seconds": 0,
    "max_wait_seconds": 0,
    "ttl_seconds": 0,
    "max_queue_size": 0,
    "retention_seconds": 0,
    "completed_retention_seconds": 604800,
    "dedup_window_seconds": 3600,
    "dead_letter_enabled": True,
}


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


@dataclass(frozen=True)
class Message:
    value: Any
    transaction_id: str | None
    created_at: datetime


@dataclass
class Partition:
    """A list that only grows. What retention deleted stays on paper, below start."""

    id: int
    name: str
    messages: list[Message] = field(default_factory=list)
    segments: list[range] = field(default_factory=list)  # those still stored
    start: int = 0
    used_at: datetime | None = None

    @property
    def end(self) -> int:
        return len(self.messages)

    @property
    def stored(self) -> range:
        return range(self.start, self.end)

    def first_since(self, moment: datetime) -> int:
        return next((o for o in self.stored if self.messages[o].created_at >= moment), self.end)

    def find_id(self, transaction_id: str, since: datetime, known_to: int = 0) -> int | None:
        """Where an id is stored, from a moment and an offset on."""
        for offset in self.stored:
            message = self.messages[offset]
            if offset >= known_to and message.created_at >= since and message.transaction_id == transaction_id:
                return offset
        return None

    def append(self, messages: list[Message]) -> int:
        first = self.end
        self.messages += messages
        self.used_at = messages[-1].created_at
        self.segments.append(range(first, self.end))
        return first

    def drop_first(self) -> None:
        self.segments.pop(0)
        self.start = self.segments[0].start if self.segments else self.end


@dataclass
class Lease:
    id: UUID
    span: range
    given_back: set[int] = field(default_factory=set)


@dataclass(eq=False)
class Letter:
    """A dead letter; PostgreSQL says later which id it has."""

    queue: str
    partition_id: int
    group: str
    offset: int
    value: Any
    retry_count: int
    error: str | None
    failed_at: datetime
    id: int | None = None

    def facts(self) -> tuple[Any, ...]:
        return (self.failed_at, self.partition_id, self.group, self.offset, self.retry_count, self.error, self.value)


@dataclass(frozen=True)
class Answer:
    """What became of an ack."""

    held: bool
    accepted: frozenset[int] = frozenset()
    dead: frozenset[int] = frozenset()
    released: bool = False
    more: bool = False
    already: bool = False


@dataclass
class Queue:
    name: str
    namespace: str = ""
    settings: dict[str, Any] = field(default_factory=lambda: dict(DEFAULTS))
    partitions: dict[str, Partition] = field(default_factory=dict)
    groups: dict[str, "Group"] = field(default_factory=dict)
    paused: bool = False

    def places(self, partition: str) -> list["Place"]:
        return [g.places[partition] for g in self.groups.values() if partition in g.places]

    @property
    def age_limit(self) -> int:
        """The shorter limit of age; 0 for none."""
        return min(filter(None, (self.settings["max_wait_seconds"], self.settings["ttl_seconds"])), default=0)

    def depth(self) -> int:
        """Messages that the slowest group of their partition has not passed."""
        total = 0
        for name, partition in self.partitions.items():
            readers = [g for g in self.groups.values() if g.queue_wide or name in g.places]
            cursors = [g.places[name].cursor if name in g.places else partition.start for g in readers]
            total += partition.end - max(partition.start, min(cursors, default=partition.start))
        return total


@dataclass
class Group:
    """A group on a queue; the partitions it has not reached yet have no place."""

    id: int | None = None  # PostgreSQL says
    queue_wide: bool = False
    complete: bool = False
    reached: int = 0
    places: dict[str, "Place"] = field(default_factory=dict)
    paused: bool = False


@dataclass
class Place:
    """Where a group stands in a partition: the bookmark, and who holds the pages after it."""

    queue: Queue
    group: str
    partition: Partition
    origin: int
    fates: dict[int, str] = field(default_factory=dict)  # completed, dead or expired: all it is done with
    failures: dict[int, int] = field(default_factory=dict)
    lapses: list[set[int]] = field(default_factory=list)  # per expired lease: what its holder had not answered
    lease: Lease | None = None
    served: bool = False  # whether anything was delivered from it, ever
    ready: datetime | None = None  # None: nothing to read; while leased, when the lease expires
    recounted: bool = False  # a message was redriven that this book did not give up: fates are as good as guessed

    def copy(self) -> "Place":
        lease = self.lease and replace(self.lease, given_back=set(self.lease.given_back))
        lapses = [set(lapse) for lapse in self.lapses]
        return replace(self, fates=dict(self.fates), failures=dict(self.failures), lapses=lapses, lease=lease)

    def facts(self) -> dict[str, Any]:
        """All that PostgreSQL must agree with."""
        lease = self.lease
        return {
            "origin": self.origin,
            "cursor": self.cursor,
            "done above": {o for o in self.fates if o > self.cursor},
            "lease": lease and (lease.id, lease.span.start, lease.span.stop),
            "given back": {o for o in lease.given_back if o in self.in_lease()} if lease else set(),
            "failures": self.failures,
            "lapses": self.lapses,
            "ready": self.ready,
            "completed": self.counts["completed"],
            "dead": self.counts["dead"],
            "expired": self.counts["expired"],
        }

    @property
    def todo(self) -> list[int]:
        return [o for o in range(self.origin, self.partition.end) if o not in self.fates]

    @property
    def cursor(self) -> int:
        return next(iter(self.todo), self.partition.end)

    @property
    def counts(self) -> Counter[str]:
        return Counter(self.fates.values())

    def in_lease(self) -> list[int]:
        """What the lease, live or lapsed, has still to finish."""
        return [o for o in self.todo if self.lease and o in self.lease.span]

    def is_held(self, now: datetime) -> bool:
        return self.lease is not None and self.ready is not None and self.ready > now

    def is_ready(self, now: datetime) -> bool:
        return self.ready is not None and self.ready <= now

    def finish(self, offsets: list[int], fate: str) -> None:
        for offset in offsets:
            self.fates[offset] = fate
            self.failures.pop(offset, None)
        self.lapses = [left for lapse in self.lapses if (left := lapse - set(offsets))]

    def lapse(self) -> None:
        """If a lease has expired, it counts for the messages that its holder had not answered."""
        unanswered = {o for o in self.in_lease() if self.lease and o not in self.lease.given_back}
        if unanswered:
            self.lapses.append(unanswered)

    def lapse_count(self, offset: int) -> int:
        return sum(offset in lapse for lapse in self.lapses)

    def rest(self, now: datetime) -> None:
        """Nobody holds it: ready at once, or when the next message is due."""
        self.lease = None
        self.ready = self.due(now)

    def due(self, now: datetime) -> datetime | None:
        if not self.todo:
            return None
        created_at = self.partition.messages[self.cursor].created_at
        quiet_since = self.partition.messages[-1].created_at
        return max(
            now,
            created_at + seconds(self.queue.settings["delayed_processing_seconds"]),
            quiet_since + seconds(self.queue.settings["window_buffer_seconds"]),
        )

    def due_since(self, now: datetime) -> datetime | None:
        """When the next message was pushed, or became due."""
        if not self.todo:
            return None
        created_at = self.partition.messages[self.cursor].created_at
        window = self.queue.settings["window_buffer_seconds"]
        quiet_at = self.partition.messages[-1].created_at + seconds(window)
        delay = self.queue.settings["delayed_processing_seconds"]
        moments = [
            min(created_at, now),
            *([created_at + seconds(delay)] if delay else []),
            *([quiet_at] if window else []),
        ]
        return max(moments)

    def wake(self, now: datetime) -> bool:
        """Something was appended to the partition."""
        delay, window = self.queue.settings["delayed_processing_seconds"], self.queue.settings["window_buffer_seconds"]
        if self.ready is None:
            self.ready = now + seconds(max(delay, window))
        elif self.lease is None and window:
            self.ready = max(self.ready, now + seconds(window))
        else:
            return False
        return True

    # Pop.

    def give_up(self, now: datetime) -> list[Letter]:
        """Pass over what waited too long, or else over the one message whose consumers never come back."""
        limit, wait = self.queue.settings["retry_limit"], self.queue.age_limit
        gone = [
            o
            for o in self.todo
            if wait and self.partition.messages[o].created_at < now - seconds(wait) and self.failures.get(o) != 0
        ]
        error = f"waited longer than {wait} s"
        if not gone and len(self.in_lease()) == 1 and self.lapse_count(self.in_lease()[0]) >= limit:
            gone = self.in_lease()
            error = f"the lease expired {self.lapse_count(gone[0]) + 1} times"
        if not gone:
            return []
        letters = [self.letter(o, self.lapse_count(o) + self.failures.get(o, 0), error, now) for o in gone]
        keep = self.queue.settings["dead_letter_enabled"]
        self.lapse()
        self.finish(gone, "dead" if keep else "expired")
        self.lease = None
        return letters if keep else []

    def letter(self, offset: int, retry_count: int, error: str | None, now: datetime) -> Letter:
        value = self.partition.messages[offset].value
        return Letter(self.queue.name, self.partition.id, self.group, offset, value, retry_count, error, now)

    def deliverable(self, now: datetime) -> list[int]:
        settings = self.queue.settings
        if self.partition.messages[-1].created_at + seconds(settings["window_buffer_seconds"]) > now:
            return []
        old_enough = now - seconds(settings["delayed_processing_seconds"])
        due = [o for o in self.todo if self.partition.messages[o].created_at <= old_enough]
        suspect = self.lease is not None and self.lapse_count(self.cursor) >= settings["retry_limit"]
        return due[:1] if suspect else due

    def lend(self, offsets: list[int], lease_id: UUID, lease_seconds: float | None, now: datetime) -> None:
        self.lapse()
        self.lease = Lease(lease_id, range(self.cursor, offsets[-1] + 1))
        self.ready = now + seconds(lease_seconds or self.queue.settings["lease_seconds"])

    def put_back(self, now: datetime) -> bool:
        """A pop looked at it and could not use it: is there nothing to deliver?"""
        due = self.due(now)
        if due is not None and due <= now:
            return False
        self.lapse()
        self.rest(now)
        return True

    # Ack.

    def answer(
        self, lease_id: UUID, completed: set[int], others: dict[int, tuple[str, str]], now: datetime
    ) -> tuple[Answer, list[Letter]]:
        """others: offset -> status, error."""
        if self.lease is None or self.lease.id != lease_id or not self.is_held(now):
            cursor = self.cursor
            already = all(o < cursor or o in self.fates for o in completed | others.keys())
            return Answer(held=False, already=already), []
        lease, limit = self.lease, self.queue.settings["retry_limit"]
        judged = {o: others[o] for o in sorted(others) if o in self.in_lease()}
        accepted = frozenset(judged) | {o for o in completed if o in lease.span}
        letters, dead = [], []
        for offset, (status, error) in judged.items():
            failures = self.lapse_count(offset) + self.failures.get(offset, 0)
            if status == "dlq" or (status == "failed" and failures >= limit):
                dead.append((offset, status == "dlq" or self.queue.settings["dead_letter_enabled"]))
                if dead[-1][1]:
                    letters.append(self.letter(offset, failures, error, now))
            else:
                lease.given_back.add(offset)
                if status == "failed":
                    self.failures[offset] = self.failures.get(offset, 0) + 1
        lease.given_back -= completed | {o for o, _ in dead}
        self.finish([o for o, kept in dead if kept], "dead")
        self.finish([o for o, kept in dead if not kept], "expired")
        self.finish([o for o in completed if o in lease.span and o not in self.fates], "completed")
        released = all(o in lease.given_back for o in self.in_lease())
        if released:
            self.rest(now)
            if self.failures.get(self.cursor, 0) > 0:
                self.ready = now + self.pause(self.failures[self.cursor])
        more = released and bool(self.todo)
        return Answer(True, accepted, frozenset(o for o, _ in dead), released, more), letters

    def pause(self, failures: int) -> timedelta:
        delay, factor = self.queue.settings["retry_delay_ms"], self.queue.settings["retry_backoff"]
        return seconds(min(3600, delay / 1000 * factor ** (failures - 1)))

    # Everything else.

    def move(self, origin: int, now: datetime) -> None:
        """A new book begins."""
        self.origin, self.fates, self.failures, self.lapses = origin, {}, {}, []
        self.recounted = False
        self.rest(now)

    def skip_deleted(self, now: datetime) -> None:
        """What is no longer stored is done."""
        gone = [o for o in self.todo if o < self.partition.start]
        if gone:
            self.finish(gone, "expired")
            if self.lease is None or not self.in_lease():
                self.rest(now)
