"""Traces: the way of a trace id through the queues, and what consumers noted about messages."""

from datetime import datetime

from msgspec import Raw, Struct

from queenmq.api.call import Call, Cursor, Endpoint, Limit, Skip
from queenmq.api.messages import ADDRESS, GROUP
from queenmq.api.payload import HasPayload
from queenmq.model import QUEUE_MODE


class TraceStep(
    HasPayload,
    Struct,
    frozen=True,
    kw_only=True,
    rename={
        "transaction_id": "transactionId",
        "created_at": "createdAt",
        "seconds_since_previous": "secondsSincePrevious",
        "seconds_since_start": "secondsSinceStart",
        "raw": "data",
    },
):
    """One message of a trace, and how long after the one before it was pushed."""

    step: int
    queue: str
    partition: str
    offset: int
    id: str
    transaction_id: str
    created_at: datetime
    seconds_since_previous: float | None
    seconds_since_start: float
    raw: Raw


class StepPage(
    Struct,
    frozen=True,
    kw_only=True,
    rename={"trace_id": "traceId", "steps": "messages", "total_seconds": "totalSeconds", "cursor": "nextCursor"},
):
    """Some messages of a trace, in the order in which they were pushed.

    The seconds in all are those of the whole trace. The cursor of the next page is null on the last one.
    """

    trace_id: str
    steps: list[TraceStep]
    total_seconds: float
    cursor: str | None


class TraceEvent(
    HasPayload,
    Struct,
    frozen=True,
    kw_only=True,
    rename={
        "queue": "queue_name",
        "partition": "partition_name",
        "group": "consumer_group",
        "names": "trace_names",
        "raw": "data",
    },
):
    """What a consumer noted about a message; `payload` is the note."""

    id: str
    transaction_id: str
    partition_id: str
    queue: str
    partition: str
    group: str
    event_type: str
    names: list[str]
    created_at: datetime
    raw: Raw


class EventPage(Struct, frozen=True, kw_only=True, rename={"events": "traces", "cursor": "nextCursor"}):
    """Some notes about a message, oldest first. The cursor of the next page is null on the last one."""

    events: list[TraceEvent]
    cursor: str | None


class EventName(
    Struct,
    frozen=True,
    kw_only=True,
    rename={"name": "trace_name", "events": "trace_count", "messages": "message_count", "last_at": "last_seen"},
):
    """A name under which notes can be found."""

    name: str
    events: int
    messages: int
    last_at: datetime


class Page(Struct, frozen=True, rename={"skip": "offset"}):
    """Where a page lies."""

    limit: int
    skip: int


class NamedEvents(Struct, frozen=True, kw_only=True, rename={"events": "traces"}):
    """What was noted under a name, newest first."""

    events: list[TraceEvent]
    total: int
    pagination: Page


class EventNames(Struct, frozen=True, kw_only=True, rename={"names": "trace_names"}):
    """Names of notes, those used last first."""

    names: list[EventName]
    total: int
    pagination: Page


class EventRecorded(Struct, frozen=True, rename={"event_id": "traceId"}):
    """The note was stored."""

    success: bool
    event_id: str


class FollowTrace(Call[StepPage], frozen=True):
    """Follow a trace id: its messages across all queues, with the time each step took."""

    endpoints = (Endpoint("GET", "/api/v1/traces/id/{trace_id}", "read-only"),)
    trace_id: str
    cursor: Cursor = None


class RecordEvent(
    Call[EventRecorded],
    frozen=True,
    kw_only=True,
    rename={**ADDRESS, **GROUP, "raw": "data", "names": "traceNames", "event_type": "eventType"},
):
    """Note that something happened to a message; `transactionId` may be a message id too."""

    endpoints = (Endpoint("POST", "/api/v1/traces", "consumer", status=201),)
    repeatable = False
    transaction_id: str
    partition_id: str
    raw: Raw
    group: str | None = QUEUE_MODE
    names: list[str] | None = None
    event_type: str = "info"


class ListMessageEvents(Call[EventPage], frozen=True):
    """List what was noted about a message, oldest first."""

    endpoints = (Endpoint("GET", "/api/v1/traces/{partition_id}/{transaction_id}", "read-only"),)
    partition_id: str
    transaction_id: str
    cursor: Cursor = None


class ListNamedEvents(Call[NamedEvents], frozen=True, rename={"skip": "offset"}):
    """List what was noted under a name across all queues, newest first."""

    endpoints = (Endpoint("GET", "/api/v1/traces/by-name/{name}", "read-only"),)
    name: str
    limit: Limit = 100
    skip: Skip = 0


class ListEventNames(Call[EventNames], frozen=True, rename={"skip": "offset"}):
    """List the names under which notes can be found, those used last first."""

    endpoints = (Endpoint("GET", "/api/v1/traces/names", "read-only"),)
    limit: Limit = 100
    skip: Skip = 0
