"""What is stored, as operators look at it."""

from datetime import datetime
from uuid import UUID

from msgspec import Raw, Struct

from queenmq.model.headers import Headers


class QueueSettings(Struct, frozen=True, kw_only=True):
    """A queue as it is configured."""

    id: int
    name: str
    namespace: str
    task: str
    priority: int
    lease_seconds: int
    retry_limit: int
    retry_delay_ms: int
    retry_backoff: int
    delayed_processing_seconds: int
    window_buffer_seconds: int
    max_wait_seconds: int
    ttl_seconds: int
    max_queue_size: int
    retention_enabled: bool
    retention_seconds: int
    completed_retention_seconds: int
    dead_letter_retention_seconds: int
    dedup_window_seconds: int
    encryption_enabled: bool
    dead_letter_enabled: bool
    created_at: datetime
    paused: bool


class Depth(Struct, frozen=True):
    """How full a queue is: messages that some group has not finished, against the limit (0: none)."""

    depth: int
    limit: int

    @property
    def remaining(self) -> int | None:
        """How many more messages fit; None where there is no limit."""
        return max(0, self.limit - self.depth) if self.limit else None


class StoredMessage(Struct, frozen=True, kw_only=True):
    """A message as it is stored, with what a group has made of it; decrypted where we have the key."""

    queue: str
    partition: str
    partition_id: int
    offset: int
    message_id: UUID
    transaction_id: str
    trace_id: UUID | None
    created_at: datetime
    producer: str | None
    encrypted: bool
    payload: bytes
    headers: Headers = {}
    status: str | None = None
    cursor: str | None = None
    more: bool = False  # of a page that ends here because of its bytes


class DeadLetter(Struct, frozen=True, kw_only=True):
    """A message a group gave up on."""

    id: int
    queue: str
    partition: str
    partition_id: int
    group_name: str
    offset: int
    message_id: UUID
    transaction_id: str
    trace_id: UUID | None
    created_at: datetime
    failed_at: datetime
    retry_count: int
    error: str | None
    producer: str | None
    encrypted: bool
    payload: bytes
    headers: Headers = {}


class TraceStep(Struct, frozen=True, kw_only=True):
    """One message of a trace, in time order."""

    step: int
    queue: str
    partition: str
    offset: int
    message_id: UUID
    transaction_id: str
    created_at: datetime
    seconds_since_previous: float | None
    seconds_since_start: float
    encrypted: bool
    payload: bytes
    total_seconds: float  # of the whole trace
    more: bool  # there is a next page


class TraceEvent(Struct, frozen=True, kw_only=True):
    """What a consumer noted about a message."""

    id: int
    queue: str
    partition: str
    partition_id: int
    transaction_id: str
    group_name: str
    event_type: str
    created_at: datetime
    names: list[str]
    data: Raw
    more: bool = False  # there is a next page of the message's events


class EventName(Struct, frozen=True, kw_only=True):
    """A name under which events can be found."""

    name: str
    events: int
    messages: int
    last_at: datetime


class GroupLine(Struct, frozen=True, kw_only=True):
    """A group on a queue: how far it is behind, and what it subscribed to."""

    group_name: str
    queue: str
    members: int
    messages: int
    seconds: float
    partitions_with_lag: int
    state: str
    mode: str
    since: datetime | None
    subscribed_at: datetime
    paused: bool


class GroupPlace(Struct, frozen=True, kw_only=True):
    """Where a group stands in a partition; `lease_id` while somebody holds it."""

    queue: str
    partition: str
    messages: int
    seconds: float
    lease_id: UUID | None
    last_served_at: datetime | None
    completed: int


class Located(Struct, frozen=True, kw_only=True):
    """Where a message is that a client calls by its transaction id or message id; None where it is not."""

    group_id: int | None
    offset: int | None
    lease_id: UUID | None
    lease_live: bool
    queue_name: str | None
    partition_name: str | None


class LedgerLine(Struct, frozen=True, kw_only=True):
    """What became of everything ever pushed to a partition, for one group."""

    queue: str
    partition: str
    group_name: str
    pushed: int
    skipped: int
    completed: int
    dead_lettered: int
    expired: int
    leased: int
    pending: int
    balanced: bool
