"""Traces: the way of a trace id through the queues, and what consumers noted about messages."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from msgspec import Raw, Struct

from queenmq.api.call import Call
from queenmq.client.administration.messages import Address
from queenmq.client.payload import HasPayload


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


class StepPage(Struct, frozen=True, kw_only=True, rename={"steps": "messages", "cursor": "nextCursor"}):
    """Some steps of a trace; `cursor` gives the next ones, None on the last page."""

    steps: list[TraceStep]
    cursor: str | None = None


class EventPage(Struct, frozen=True, kw_only=True, rename={"events": "traces", "cursor": "nextCursor"}):
    """Some notes about a message; `cursor` gives the next ones, None on the last page."""

    events: list[TraceEvent]
    cursor: str | None = None


class FollowTrace(Call[StepPage], frozen=True):
    """The messages of a trace id across all queues, in the order they were pushed."""

    trace_id: UUID
    cursor: str | None = None


class RecordEvent(Call[str], frozen=True):
    """Note that something happened to a message; answers the note's id."""

    address: Address
    group: str
    event_type: str
    names: Sequence[str]
    data: bytes


class ListMessageEvents(Call[EventPage], frozen=True):
    """What was noted about a message, oldest first."""

    address: Address
    cursor: str | None = None


class ListNamedEvents(Call[list[TraceEvent]], frozen=True):
    """What was noted under a name, newest first."""

    name: str
    limit: int
    skip: int


class ListEventNames(Call[list[EventName]], frozen=True):
    """Names under which notes can be found, those used last first."""

    limit: int
    skip: int
