"""Messages on their way out: what a consumer asks for, gets and says of it."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from msgspec import Raw, Struct

from queenmq.model.headers import Headers, read_headers
from queenmq.model.ids import message_id, milliseconds

QUEUE_MODE = "__QUEUE_MODE__"  # the group of those who name none

# `from_beginning` and `new-only` are names of the original system for `all` and `new` (queen.subscription_mode).
SubscriptionMode = Literal["all", "from_beginning", "new", "new-only", "timestamp"]
AckStatus = Literal["completed", "failed", "retry", "dlq"]


class PopRequest(Struct, frozen=True, kw_only=True):
    """What a consumer asks for: a partition, a queue, or any queue of a namespace and/or task."""

    queue: str | None = None
    partition: str | None = None
    namespace: str | None = None
    task: str | None = None
    group: str = QUEUE_MODE
    batch: int = 1
    max_partitions: int | None = None  # None: one; of a consumer whose handler takes lists, any number
    lease_seconds: float | None = None
    auto_ack: bool = False
    subscription_mode: SubscriptionMode | None = None
    subscription_from: datetime | None = None

    @property
    def partitions_max(self) -> int:
        """How many partitions one pop may take."""
        return 1 if self.max_partitions is None else self.max_partitions

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
