"""Dead letters: list them, deliver them again, delete them."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Raw, Struct

from queenmq.api.call import Call, Endpoint, Limit
from queenmq.api.messages import ADDRESS, GROUP
from queenmq.api.payload import HasPayload
from queenmq.model import Headers

IDS_MAX = 10_000

QueueFilter = Annotated[str | None, Meta(description="only dead letters of this queue")]
GroupFilter = Annotated[str | None, Meta(description="only those of this group")]
Ids = Annotated[list[str] | None, Meta(description=f"only these, separated by commas; {IDS_MAX:,} at most")]


class DeadLetter(
    HasPayload,
    Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={
        **ADDRESS,
        **GROUP,
        "message_id": "messageId",
        "raw": "data",
        "error": "errorMessage",
        "retry_count": "retryCount",
        "created_at": "createdAt",
        "failed_at": "failedAt",
        "producer": "producerSub",
        "trace_id": "traceId",
    },
):
    """A message that a group has dead-lettered; decrypted if the server has the key. `id` is the dead letter's own."""

    id: str
    message_id: str
    transaction_id: str
    partition_id: str
    partition: str
    queue: str
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


class Pagination(Struct, frozen=True, kw_only=True, rename={"skip": "offset", "more": "hasMore"}):
    """Where a page lies."""

    limit: int
    skip: int
    total: int
    more: bool


class DeadLetterPage(Struct, frozen=True, kw_only=True, rename={"dead_letters": "messages"}):
    """Some dead letters, newest first, and how many there are on all pages."""

    dead_letters: list[DeadLetter]
    total: int
    pagination: Pagination


class Redriven(Struct, frozen=True):
    """How many dead letters are delivered again."""

    redriven: int


class Purged(Struct, frozen=True):
    """How many dead letters were deleted."""

    purged: int


class ListDeadLetters(
    Call[DeadLetterPage], frozen=True, kw_only=True, rename={**GROUP, "since": "from", "until": "to", "skip": "offset"}
):
    """List dead letters, newest first.

    A page has `limit` dead letters at most; QUEEN_POP_BYTES_MAX may end it earlier.
    """

    large = True
    endpoints = (Endpoint("GET", "/api/v1/dlq", "read-only"),)
    queue: QueueFilter = None
    group: GroupFilter = None
    partition: Annotated[str | None, Meta(description="only those of this partition")] = None
    since: Annotated[datetime | None, Meta(description="only those that failed at this moment or later")] = None
    until: Annotated[datetime | None, Meta(description="only those that failed before this moment")] = None
    limit: Limit = 100
    skip: Annotated[int, Meta(ge=0, le=10_000_000, description="how many to leave out first")] = 0


class Redrive(Call[Redriven], frozen=True, kw_only=True, rename=GROUP, forbid_unknown_fields=True):
    """Deliver dead letters again to the groups that have dead-lettered them, the oldest first.

    What is named narrows the choice, and something must be named.
    """

    endpoints = (Endpoint("POST", "/api/v1/dlq/redrive", "admin"),)
    repeatable = False
    ids: list[str] | None = None
    queue: str | None = None
    group: str | None = None
    limit: Annotated[int, Meta(ge=1, le=IDS_MAX)] = IDS_MAX


class Purge(Call[Purged], frozen=True, kw_only=True, rename={**GROUP, "older_than": "olderThan"}):
    """Delete dead letters for good."""

    endpoints = (Endpoint("DELETE", "/api/v1/dlq", "admin"),)
    repeatable = False
    ids: Ids = None
    queue: QueueFilter = None
    group: GroupFilter = None
    older_than: Annotated[datetime | None, Meta(description="only those that failed before this moment")] = None
