"""What is wrong, if anything: why nothing is delivered, whether everything is accounted for, what hurts."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta, Struct

from queenmq.api.call import Call, Endpoint, LongLimit
from queenmq.model import QUEUE_MODE

Severity = Literal["ok", "warning", "problem"]


class Reason(Struct, frozen=True, kw_only=True, rename="camel"):
    """Why a group gets nothing from a partition, or (`partition` is None) from a queue; see queen.why in docs/sql.md.

    `until`: when that ends by itself. `messages` and `offset`: what is meant, and where it begins.
    """

    partition: str | None
    cause: str
    until: datetime | None
    messages: int | None
    offset: int | None
    lease_id: UUID | None
    failures: int | None
    explanation: str


class LedgerTotal(Struct, frozen=True, kw_only=True, rename="camel"):
    """What became of everything ever pushed to a queue, for one group; `balanced` in each of its partitions."""

    queue: str
    group: str
    partitions: int
    pushed: int
    skipped: int
    completed: int
    dead_lettered: int
    expired: int
    leased: int
    pending: int
    balanced: bool


class Unread(Struct, frozen=True, kw_only=True):
    """A backlog that no consumer group has asked for: a queue, or those of its partitions that no group reads.

    `pushed` counts all messages that were ever pushed there, `messages` those that are stored, `seconds` is the age of
    the oldest of these.
    """

    queue: str
    partitions: int
    pushed: int
    messages: int
    seconds: float


class Finding(Struct, frozen=True, kw_only=True):
    """Something that a consistency check did not expect."""

    check: str
    queue: str | None
    partition: str | None
    detail: str


class Verification(Struct, frozen=True, kw_only=True):
    """Whether everything adds up: the books of each group, and what the consistency checks found."""

    consistent: bool
    ledger: Sequence[LedgerTotal]
    findings: Sequence[Finding]


class Check(Struct, frozen=True, kw_only=True):
    """One thing that was looked at."""

    name: str
    severity: Severity
    detail: str
    hint: str | None = None


class Checkup(Struct, frozen=True, kw_only=True):
    """What was looked at, by which version of Queen and when."""

    version: str
    now: datetime
    checks: Sequence[Check]


class TableSize(Struct, frozen=True, kw_only=True, rename="camel"):
    """A table of Queen's as PostgreSQL sees it; rows are its estimates."""

    name: str
    rows: int
    dead_rows: int
    bytes: int
    vacuumed_at: datetime | None


class PostgresStats(Struct, frozen=True, kw_only=True, rename="camel"):
    """The database as PostgreSQL sees it."""

    version: str
    bytes: int
    connections: int
    connections_max: int
    commits: int
    rollbacks: int
    deadlocks: int
    cache_hit_ratio: float
    oldest_transaction_seconds: float


OneQueue = Annotated[str | None, Meta(description="only this queue")]


class Why(Call[list[Reason]], frozen=True):
    """Tell why a consumer group gets nothing from a queue, partition by partition, those with work first."""

    endpoints = (Endpoint("GET", "/api/v1/why/{queue}", "read-only"),)
    queue: str
    group: Annotated[str, Meta(description="the consumer group that gets nothing")] = QUEUE_MODE
    partition: Annotated[str | None, Meta(description="only this partition")] = None
    limit: Annotated[LongLimit, Meta(description="how many partitions to look at most, those with work first")] = 100


class GetLedger(Call[list[LedgerTotal]], frozen=True):
    """Tell what became of everything that was pushed, by queue and group."""

    endpoints = (Endpoint("GET", "/api/v1/ledger", "read-only"),)
    queue: OneQueue = None


class ListUnread(Call[list[Unread]], frozen=True):
    """List what no consumer group has asked for: queues, or partitions of them, and their backlogs."""

    endpoints = (Endpoint("GET", "/api/v1/unread", "read-only"),)


class Verify(Call[Verification], frozen=True):
    """Check that everything adds up: the ledger of each group, and all consistency checks. It reads everything."""

    endpoints = (Endpoint("GET", "/api/v1/verify", "admin"),)
    queue: OneQueue = None


class CheckUp(Call[Checkup], frozen=True):
    """Look for problems: open access, PostgreSQL's settings and clock, old transactions, full disks."""

    endpoints = (Endpoint("GET", "/api/v1/doctor", "admin"),)
