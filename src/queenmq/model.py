"""What crosses the engine's border: messages out, messages in, and what was said about them.

Payloads are JSON text as bytes; nobody here looks inside. Structs are frozen where they are answers, and a
message's id is computed when somebody asks for it: it is made of where the message lives. What exists by the
thousand is hidden from the garbage collector (gc=False): it cannot be part of a cycle.
"""

from datetime import datetime
from functools import lru_cache
from typing import Literal
from uuid import UUID

import msgspec
from msgspec import Raw, Struct

DEFAULT_PARTITION = "Default"
QUEUE_MODE = "__QUEUE_MODE__"  # the group of those who name none

SubscriptionMode = Literal["all", "new", "timestamp"]
AckStatus = Literal["completed", "failed", "retry", "dlq"]

Headers = dict[str, str]  # what travels beside a payload: trace context, a content type, …

_headers = msgspec.json.Decoder(Headers)

_VERSION_AND_VARIANT = (7 << 76) | (2 << 62)
_PARTITION_LOW_BITS = (1 << 22) - 1
_OFFSET_BITS = 40
OFFSET_DIGITS = 10  # of a message id as text, at its end


def message_id(created_ms: int, partition_id: int, offset: int) -> UUID:
    """The UUIDv7 of a message: its time, its partition and its offset (see queen.message_id)."""
    return UUID(int=_id_bits(created_ms, partition_id) | offset)


def _id_bits(created_ms: int, partition_id: int) -> int:
    return (
        (created_ms << 80)
        | _VERSION_AND_VARIANT
        | ((partition_id >> 22) << 64)
        | ((partition_id & _PARTITION_LOW_BITS) << _OFFSET_BITS)
    )


def milliseconds(moment: datetime) -> int:
    """Whole milliseconds since 1970, rounded down as PostgreSQL's floor does."""
    return int(moment.timestamp() * 1_000_000 + 0.5) // 1000


def id_prefix(created_at: datetime, partition_id: int) -> str:
    """What the ids of a segment's messages have in common; the rest is the offset, as OFFSET_DIGITS digits."""
    return _time_digits(created_at) + _partition_digits(partition_id)


@lru_cache(maxsize=10_000)
def _time_digits(created_at: datetime) -> str:
    digits = f"{milliseconds(created_at):012x}"
    return f"{digits[:8]}-{digits[8:]}"


@lru_cache(maxsize=100_000)
def _partition_digits(partition_id: int) -> str:
    digits = f"{_id_bits(0, partition_id):032x}"
    return f"-{digits[12:16]}-{digits[16:20]}-{digits[20:-OFFSET_DIGITS]}"


def message_text(created_at: datetime, partition_id: int, offset: int) -> str:
    """A message's id, without building it from its bits each time: messages of a segment differ in the end only."""
    return f"{id_prefix(created_at, partition_id)}{offset:010x}"


def read_headers(text: bytes | str | Raw | None) -> Headers:
    """Headers as they are stored; none is an empty object. A new one each time, to do with as one likes."""
    return _headers.decode(text) if text is not None else {}


class Outgoing(Struct, frozen=True, gc=False):
    """A message to push."""

    queue: str
    payload: bytes
    partition: str = DEFAULT_PARTITION
    transaction_id: str | None = None
    trace_id: UUID | None = None
    producer: str | None = None
    headers: Headers | None = None


class Pushed(Struct, frozen=True, gc=False):
    """What became of a pushed message; for a duplicate, where the first one is."""

    partition_id: int
    offset: int
    created_at: datetime
    given_transaction_id: str | None = None
    duplicate: bool = False

    @property
    def id(self) -> UUID:
        """The message's id."""
        return message_id(milliseconds(self.created_at), self.partition_id, self.offset)

    @property
    def transaction_id(self) -> str:
        """The producer's own id, or the message id where there is none."""
        return self.given_transaction_id or str(self.id)


class FlushMark(Struct, frozen=True):
    """How to find out, later, whether a push was stored whose answer was lost."""

    flush_id: UUID
    backend: int  # the process that worked on it
    partition_ids: list[int]
    froms: list[int]  # offsets from which on it must lie


class PopRequest(Struct, frozen=True, kw_only=True):
    """What a consumer asks for: a partition, a queue, or any queue of a namespace and/or task."""

    queue: str | None = None
    partition: str | None = None
    namespace: str | None = None
    task: str | None = None
    group: str = QUEUE_MODE
    batch: int = 1
    max_partitions: int = 1
    lease_seconds: float | None = None
    auto_ack: bool = False
    subscription_mode: SubscriptionMode | None = None
    subscription_from: datetime | None = None

    @property
    def kind(self) -> "PopKind":
        """Requests of one kind compete for the same partitions."""
        return (self.queue, self.partition, self.namespace, self.task, self.group)


PopKind = tuple[str | None, str | None, str | None, str | None, str]


class Lease(Struct, frozen=True):
    """One partition in one consumer's hands; a pop of several partitions gives several with one id."""

    id: UUID | None  # None: acknowledged by the pop itself
    group: str
    group_id: int
    queue: str
    partition: str
    partition_id: int
    expires_at: datetime | None


class Message(Struct, frozen=True, gc=False):
    """A delivered message."""

    lease: Lease
    offset: int
    created_at: datetime
    payload: Raw
    given_transaction_id: str | None = None
    trace_id: UUID | None = None
    producer: str | None = None
    retry_count: int = 0
    given_headers: Raw | None = None

    @property
    def id(self) -> UUID:
        """The message's id."""
        return message_id(milliseconds(self.created_at), self.lease.partition_id, self.offset)

    @property
    def transaction_id(self) -> str:
        """The producer's own id, or the message id where there is none."""
        return self.given_transaction_id or str(self.id)

    @property
    def headers(self) -> Headers:
        """The producer's headers; empty where there are none."""
        return read_headers(self.given_headers)


class Ack(Struct, frozen=True, gc=False):
    """What became of a delivered message."""

    partition_id: int
    group_id: int
    lease_id: UUID
    offset: int
    status: AckStatus = "completed"
    error: str | None = None

    @classmethod
    def of(cls, message: Message, status: AckStatus = "completed", error: str | None = None) -> "Ack":
        """The acknowledgement of a message under the lease it came with."""
        lease = message.lease
        assert lease.id is not None, "the pop acknowledged this message itself"
        return cls(lease.partition_id, lease.group_id, lease.id, message.offset, status, error)


class Acked(Struct, frozen=True, gc=False):
    """The answer to one Ack. `released`: the lease has ended, everything in it was answered."""

    accepted: bool
    released: bool = False
    dead_lettered: bool = False
    error: str | None = None  # the code of the error that explains a refusal


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
    delayed_processing_seconds: int
    window_buffer_seconds: int
    max_wait_seconds: int
    max_queue_size: int
    retention_enabled: bool
    retention_seconds: int
    completed_retention_seconds: int
    dedup_window_seconds: int
    encryption_enabled: bool
    dead_letter_enabled: bool
    created_at: datetime


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
