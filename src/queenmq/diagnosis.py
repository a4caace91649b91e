"""What is answered when somebody asks what is wrong: why nothing comes, whether all adds up, what hurts."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal
from uuid import UUID

from msgspec import Struct

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
