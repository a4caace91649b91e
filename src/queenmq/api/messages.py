"""Stored messages: list them, show one, delete it, deliver it again, dead-letter it."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct

from queenmq.api.call import Call, Cursor, Endpoint, Limit
from queenmq.api.payload import HasPayload
from queenmq.model import QUEUE_MODE, Headers

MessageStatus = Literal["pending", "processing", "completed", "dead_letter"]

GroupMeant = Annotated[str, Meta(description="the group that is meant")]
GROUP = {"group": "consumerGroup"}
ADDRESS = {"partition_id": "partitionId", "transaction_id": "transactionId"}
PATH = "/api/v1/messages/{partition_id}/{transaction_id}"


class StoredMessage(
    HasPayload,
    Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={
        **ADDRESS,
        "trace_id": "traceId",
        "raw": "data",
        "created_at": "createdAt",
        "producer": "producerSub",
    },
):
    """A message as it is stored, and what a group has made of it; decrypted if the server has the key."""

    id: str
    transaction_id: str
    partition_id: str
    partition: str
    queue: str
    offset: int
    trace_id: str | None
    raw: Raw
    status: MessageStatus
    encrypted: bool
    created_at: datetime
    producer: str | None
    headers: Headers = {}


class MessagePage(Struct, frozen=True, kw_only=True, rename={"cursor": "nextCursor"}):
    """Some messages, newest first. The cursor of the next page is null on the last one."""

    messages: list[StoredMessage]
    cursor: str | None


class MessageDeleted(Struct, frozen=True, kw_only=True, rename={**ADDRESS, "dead_letters": "deadLetters"}):
    """How many groups will not get the message any more, and how many dead letters of it were deleted."""

    success: bool
    partition_id: str
    transaction_id: str
    groups: int
    dead_letters: int


class MessageRetried(Struct, frozen=True, kw_only=True, rename=ADDRESS):
    """To how many groups the message is delivered again."""

    success: bool
    partition_id: str
    transaction_id: str
    groups: int


class MessageDeadLettered(Struct, frozen=True, kw_only=True, rename={**ADDRESS, **GROUP}):
    """The message is a dead letter of this group now."""

    success: bool
    partition_id: str
    transaction_id: str
    group: str


class ListMessages(Call[MessagePage], frozen=True, kw_only=True, rename={**GROUP, "namespace": "ns"}):
    """List stored messages, newest first; pages do not shift when something is pushed.

    A page has `limit` messages at most; QUEEN_POP_BYTES_MAX may end it earlier.
    """

    large = True
    endpoints = (
        Endpoint("GET", "/api/v1/messages", "read-only"),
        Endpoint("GET", "/api/v1/status/queues/{queue}/messages", "read-only"),
    )
    queue: Annotated[str | None, Meta(description="only messages of this queue")] = None
    partition: Annotated[str | None, Meta(description="only messages of this partition")] = None
    status: Annotated[MessageStatus | None, Meta(description="only messages with this status for the group")] = None
    group: Annotated[str, Meta(description="the group whose statuses are listed")] = QUEUE_MODE
    namespace: Annotated[str | None, Meta(description="only messages of queues of this namespace")] = None
    task: Annotated[str | None, Meta(description="only messages of queues of this task")] = None
    limit: Limit = 100
    cursor: Cursor = None


class GetMessage(Call[StoredMessage], frozen=True, rename=GROUP):
    """Show a message by its partition and its transaction id or message id."""

    large = True
    endpoints = (Endpoint("GET", PATH, "read-only"),)
    partition_id: str
    transaction_id: str
    group: GroupMeant = QUEUE_MODE


class DeleteMessage(Call[MessageDeleted], frozen=True):
    """Let no group get a message any more, and delete its dead letters."""

    endpoints = (Endpoint("DELETE", PATH, "admin"),)
    repeatable = False
    partition_id: str
    transaction_id: str


class RetryMessage(Call[MessageRetried], frozen=True, rename=GROUP):
    """Deliver a dead message again to the groups that have dead-lettered it, or to one of them."""

    endpoints = (Endpoint("POST", f"{PATH}/retry", "admin", query=("group",)),)
    repeatable = False
    partition_id: str
    transaction_id: str
    group: Annotated[str | None, Meta(description="only this group")] = None


class GiveUpMessage(Call[MessageDeadLettered], frozen=True, rename=GROUP):
    """Make a message a dead letter of a group that has not finished it."""

    endpoints = (Endpoint("POST", f"{PATH}/dlq", "admin", query=("group",)),)
    repeatable = False
    partition_id: str
    transaction_id: str
    group: GroupMeant = QUEUE_MODE
    error: str | None = None
