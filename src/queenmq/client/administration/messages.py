"""Stored messages, and those that were given up."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from msgspec import Raw, Struct

from queenmq.api.call import Call
from queenmq.client.payload import HasPayload
from queenmq.model import Headers

MessageStatus = Literal["pending", "processing", "completed", "dead_letter"]


class StoredMessage(
    HasPayload,
    Struct,
    frozen=True,
    kw_only=True,
    rename={
        "transaction_id": "transactionId",
        "partition_id": "partitionId",
        "trace_id": "traceId",
        "raw": "data",
        "created_at": "createdAt",
        "producer": "producerSub",
    },
):
    """A message as it is stored, and what a group has made of it."""

    id: str
    transaction_id: str
    queue: str
    partition: str
    partition_id: str
    offset: int
    trace_id: str | None
    raw: Raw
    status: MessageStatus
    encrypted: bool
    created_at: datetime
    producer: str | None
    headers: Headers = {}


class MessagePage(Struct, frozen=True, kw_only=True, rename={"cursor": "nextCursor"}):
    """Some messages, newest first; `cursor` gives the next ones, None on the last page."""

    messages: list[StoredMessage]
    cursor: str | None


class DeadLetter(
    HasPayload,
    Struct,
    frozen=True,
    kw_only=True,
    rename={
        "message_id": "messageId",
        "transaction_id": "transactionId",
        "partition_id": "partitionId",
        "group": "consumerGroup",
        "raw": "data",
        "error": "errorMessage",
        "retry_count": "retryCount",
        "created_at": "createdAt",
        "failed_at": "failedAt",
        "producer": "producerSub",
        "trace_id": "traceId",
    },
):
    """A message that a group gave up; `id` is the dead letter's own."""

    id: str
    message_id: str
    transaction_id: str
    queue: str
    partition: str
    partition_id: str
    offset: int
    group: str
    raw: Raw
    error: str | None
    retry_count: int
    created_at: datetime
    failed_at: datetime
    producer: str | None
    trace_id: str | None
    headers: Headers = {}


class DeadLetterPage(Struct, frozen=True, kw_only=True, rename={"dead_letters": "messages"}):
    """Some dead letters, newest first, and how many there are on all pages."""

    dead_letters: list[DeadLetter]
    total: int


class ListMessages(Call[MessagePage], frozen=True, kw_only=True):
    """Stored messages, newest first, and what a group has made of them."""

    queue: str | None
    partition: str | None
    group: str
    status: MessageStatus | None
    namespace: str | None
    task: str | None
    cursor: str | None
    limit: int


class Address(Struct, frozen=True):
    """A message by its partition's id, and its transaction id or message id."""

    partition_id: str
    name: str


class GetMessage(Call[StoredMessage], frozen=True):
    """One message. Raises MessageNotFound."""

    address: Address
    group: str


class DeleteMessage(Call[int], frozen=True):
    """Let no group get a message any more; answers how many would have."""

    address: Address


class RetryMessage(Call[int], frozen=True):
    """Deliver a dead message again to the groups that gave it up; answers how many. Raises NotPending."""

    address: Address
    group: str | None


class GiveUpMessage(Call[None], frozen=True):
    """Make a message a dead letter of a group that has not finished it. Raises NotPending."""

    address: Address
    group: str
    error: str | None


class ListDeadLetters(Call[DeadLetterPage], frozen=True, kw_only=True):
    """Dead letters, newest first."""

    queue: str | None
    group: str | None
    partition: str | None
    since: datetime | None
    until: datetime | None
    limit: int
    skip: int


class Redrive(Call[int], frozen=True, kw_only=True):
    """Deliver dead letters again to the groups that gave them up, the oldest first; answers how many."""

    ids: Sequence[str] | None
    queue: str | None
    group: str | None
    limit: int


class Purge(Call[int], frozen=True, kw_only=True):
    """Delete dead letters for good; answers how many."""

    ids: Sequence[str] | None
    queue: str | None
    group: str | None
    older_than: datetime | None
