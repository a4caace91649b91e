"""Traces, and what consumers noted about messages."""

from collections.abc import Sequence
from uuid import UUID

from msgspec import Raw

from queenmq import model
from queenmq.api import traces
from queenmq.errors import InvalidArgument, InvalidPayload, InvalidTraceId, PayloadTooLarge
from queenmq.model import QUEUE_MODE
from queenmq.service.host import Host
from queenmq.service.ids import id_text, partition_number

EVENT_ID_MAX = 2**63 - 1
STEP_MAX = 2**31 - 1


async def follow_trace(host: Host, call: traces.FollowTrace) -> traces.StepPage:
    """Call queen.trace."""
    try:
        trace_id = UUID(call.trace_id)
    except ValueError:
        raise InvalidTraceId(f"the trace id is not a UUID: {call.trace_id[:60]!r}") from None
    found = await host.engine.admin.trace(trace_id, _position(call.cursor, STEP_MAX))
    last = found[-1] if found else None
    return traces.StepPage(
        trace_id=str(trace_id),
        steps=[_step(each) for each in found],
        total_seconds=0.0 if last is None else last.total_seconds,
        cursor=str(last.step) if last is not None and last.more else None,
    )


async def record_event(host: Host, call: traces.RecordEvent) -> traces.EventRecorded:
    """Call queen.record_event."""
    id = await host.engine.admin.record_event(
        partition_number(call.partition_id),
        call.transaction_id,
        call.event_type,
        _data(bytes(call.raw), host.settings.payload_bytes_max),
        call.group or QUEUE_MODE,
        call.names or [],
    )
    return traces.EventRecorded(success=True, event_id=str(id))


async def list_message_events(host: Host, call: traces.ListMessageEvents) -> traces.EventPage:
    """Call queen.list_message_events."""
    partition_id, after = partition_number(call.partition_id), _position(call.cursor, EVENT_ID_MAX)
    found = await host.engine.admin.list_message_events(partition_id, call.transaction_id, after=after)
    return traces.EventPage(events=_events(found), cursor=str(found[-1].id) if found and found[-1].more else None)


async def list_named_events(host: Host, call: traces.ListNamedEvents) -> traces.NamedEvents:
    """Call queen.list_named_events."""
    found, total = await host.engine.admin.list_named_events(call.name, call.limit, call.skip)
    return traces.NamedEvents(events=_events(found), total=total, pagination=traces.Page(call.limit, call.skip))


async def list_event_names(host: Host, call: traces.ListEventNames) -> traces.EventNames:
    """Call queen.list_event_names."""
    found, total = await host.engine.admin.list_event_names(call.limit, call.skip)
    names = [
        traces.EventName(name=each.name, events=each.events, messages=each.messages, last_at=each.last_at)
        for each in found
    ]
    return traces.EventNames(names=names, total=total, pagination=traces.Page(call.limit, call.skip))


def _position(cursor: str | None, most: int) -> int:
    """The number in a cursor that an earlier page gave out."""
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 20 and int(cursor) <= most):
        raise InvalidArgument(f"cursor is the nextCursor of the page before, not {cursor[:40]!r}")
    return int(cursor)


def _data(data: bytes, bytes_max: int) -> str:
    if len(data) > bytes_max:
        raise PayloadTooLarge(f"the data has {len(data)} bytes; {bytes_max} is the most")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidPayload("the data is not UTF-8") from None


def _step(found: model.TraceStep) -> traces.TraceStep:
    return traces.TraceStep(
        step=found.step,
        queue=found.queue,
        partition=found.partition,
        offset=found.offset,
        id=str(found.message_id),
        transaction_id=found.transaction_id,
        created_at=found.created_at,
        seconds_since_previous=found.seconds_since_previous,
        seconds_since_start=found.seconds_since_start,
        raw=Raw(found.payload),
    )


def _events(found: Sequence[model.TraceEvent]) -> list[traces.TraceEvent]:
    return [
        traces.TraceEvent(
            id=str(each.id),
            transaction_id=each.transaction_id,
            partition_id=id_text(each.partition_id),
            queue=each.queue,
            partition=each.partition,
            group=each.group_name,
            event_type=each.event_type,
            names=each.names,
            created_at=each.created_at,
            raw=each.data,
        )
        for each in found
    ]
