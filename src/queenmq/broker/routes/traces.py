"""Traces: what consumers noted about messages, and the way of a trace id through the queues."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec
from msgspec import Raw, Struct

from queenmq.broker import wire
from queenmq.broker.http import Request, Response, answer
from queenmq.errors import InvalidPayload, InvalidTraceId, PayloadTooLarge
from queenmq.model import QUEUE_MODE, TraceEvent, TraceStep

if TYPE_CHECKING:
    from queenmq.broker.app import Broker

LIMIT = 100
LIMIT_MAX = 1_000
OFFSET_MAX = 1_000_000
EVENT_ID_MAX = 2**63 - 1
STEP_MAX = 2**31 - 1

PAGE_QUERY = {
    "limit": f"how many; {LIMIT}, at most {LIMIT_MAX}",
    "offset": "how many to pass over first; 0",
}
CURSOR_QUERY = {"cursor": "nextCursor of the page before"}


class TraceBody(Struct, rename="camel"):
    """Something that happened to a message; `transactionId` may be a message id too."""

    transaction_id: str
    partition_id: str
    data: Raw
    consumer_group: str | None = None
    trace_names: list[str] | None = None
    event_type: str = "info"


class TraceAnswer(Struct, rename="camel"):
    """The event was stored."""

    success: bool
    trace_id: str


class Event(Struct):
    """What was noted about a message."""

    id: str
    transaction_id: str
    partition_id: str
    queue_name: str
    partition_name: str
    consumer_group: str
    event_type: str
    trace_names: list[str]
    created_at: datetime
    data: Raw


class Name(Struct):
    """A name under which events can be found."""

    trace_name: str
    trace_count: int
    message_count: int
    last_seen: datetime


class Page(Struct):
    """Which part of all this is."""

    limit: int
    offset: int


class MessageEvents(Struct, rename={"next_cursor": "nextCursor"}):
    """A page of the events of a message, oldest first; nextCursor is null on the last one."""

    traces: list[Event]
    next_cursor: str | None


class NamedEvents(Struct):
    """The events of a name, newest first."""

    traces: list[Event]
    total: int
    pagination: Page


class Names(Struct):
    """Names, those used last first."""

    trace_names: list[Name]
    total: int
    pagination: Page


class Step(Struct, rename="camel"):
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
    data: Raw


class TraceSteps(Struct, rename="camel"):
    """A page of the messages of a trace across all queues, in the order they were pushed.

    `totalSeconds` is the time of the whole trace; `nextCursor` is null on the last page.
    """

    trace_id: str
    messages: list[Step]
    total_seconds: float
    next_cursor: str | None


_body = msgspec.json.Decoder(TraceBody)


async def record(broker: "Broker", request: Request) -> Response:
    """Note that something happened to a message."""
    body = await request.json(_body)
    id = await broker.engine.admin.record_event(
        wire.partition_number(body.partition_id),
        body.transaction_id,
        body.event_type,
        _data(bytes(body.data), broker.settings.payload_bytes_max),
        body.consumer_group or QUEUE_MODE,
        body.trace_names or [],
    )
    return answer(TraceAnswer(True, str(id)), 201)


async def list_names(broker: "Broker", request: Request) -> Response:
    """The names under which events can be found."""
    page = _page(request)
    names, total = await broker.engine.admin.list_event_names(page.limit, page.offset)
    return answer(Names([Name(each.name, each.events, each.messages, each.last_at) for each in names], total, page))


async def list_by_name(broker: "Broker", request: Request) -> Response:
    """What was noted under a name, across all queues."""
    page = _page(request)
    events, total = await broker.engine.admin.list_named_events(
        request.path_parameters["name"], page.limit, page.offset
    )
    return answer(NamedEvents(_events(events), total, page))


async def list_of_message(broker: "Broker", request: Request) -> Response:
    """What was noted about a message."""
    partition_id = wire.partition_number(request.path_parameters["partition_id"])
    after = request.number("cursor", 0, 0, EVENT_ID_MAX)
    events = await broker.engine.admin.list_message_events(
        partition_id, request.path_parameters["transaction"], after=after
    )
    return answer(MessageEvents(_events(events), str(events[-1].id) if events and events[-1].more else None))


async def follow(broker: "Broker", request: Request) -> Response:
    """All messages of a trace id across queues, with the time each step took."""
    text = request.path_parameters["trace"]
    try:
        trace_id = UUID(text)
    except ValueError:
        raise InvalidTraceId(f"the trace id is not a UUID: {text[:60]!r}") from None
    found = await broker.engine.admin.trace(trace_id, request.number("cursor", 0, 0, STEP_MAX))
    last = found[-1] if found else None
    cursor = str(last.step) if last is not None and last.more else None
    seconds = 0.0 if last is None else last.total_seconds
    return answer(TraceSteps(str(trace_id), [_step(each) for each in found], seconds, cursor))


def _data(data: bytes, bytes_max: int) -> str:
    if len(data) > bytes_max:
        raise PayloadTooLarge(f"the data has {len(data)} bytes; {bytes_max} is the most")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidPayload("the data is not UTF-8") from None


def _page(request: Request) -> Page:
    return Page(request.number("limit", LIMIT, 1, LIMIT_MAX), request.number("offset", 0, 0, OFFSET_MAX))


def _events(events: Sequence[TraceEvent]) -> list[Event]:
    return [
        Event(
            str(each.id),
            each.transaction_id,
            wire.partition_text(each.partition_id),
            each.queue,
            each.partition,
            each.group_name,
            each.event_type,
            each.names,
            each.created_at,
            each.data,
        )
        for each in events
    ]


def _step(each: TraceStep) -> Step:
    return Step(
        each.step,
        each.queue,
        each.partition,
        each.offset,
        str(each.message_id),
        each.transaction_id,
        each.created_at,
        each.seconds_since_previous,
        each.seconds_since_start,
        Raw(each.payload),
    )
