# Generated from client/traces.py by `make sync-client`: edit that file, not this one.
"""Traces: `queen.traces`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from msgspec import Raw

from queenmq.api import traces
from queenmq.client import payload
from queenmq.client.outgoing import trace_uuid
from queenmq.client.sync.message import Message

if TYPE_CHECKING:
    from queenmq.client.sync.queen import Queen


class Traces:
    """The way of a trace id through the queues, and what consumers noted about messages."""

    def __init__(self, queen: "Queen") -> None:
        self._queen = queen

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._queen!r}>"

    def follow(self, trace_id: UUID | str) -> list[traces.TraceStep]:
        """The messages of a trace id across all queues, in the order they were pushed, with the time between them."""
        id = str(trace_uuid(trace_id))
        page = self._queen.call(traces.FollowTrace(id))
        steps = page.steps
        while page.cursor is not None:
            page = self._queen.call(traces.FollowTrace(id, page.cursor))
            steps += page.steps
        return steps

    def record(self, message: Message, data: Any, *, event_type: str = "info", names: Sequence[str] = ()) -> str:
        """Note that something happened to a message; answers the note's id."""
        call = traces.RecordEvent(
            transaction_id=message.transaction_id,
            partition_id=message.partition_id,
            raw=Raw(payload.encode(data)),
            group=message.group,
            names=list(names),
            event_type=event_type,
        )
        return (self._queen.call(call)).event_id

    def of(self, message: Message) -> list[traces.TraceEvent]:
        """What was noted about a message, oldest first."""
        page = self._queen.call(traces.ListMessageEvents(message.partition_id, message.transaction_id))
        events = page.events
        while page.cursor is not None:
            call = traces.ListMessageEvents(message.partition_id, message.transaction_id, page.cursor)
            page = self._queen.call(call)
            events += page.events
        return events

    def named(self, name: str, *, limit: int = 100, skip: int = 0) -> list[traces.TraceEvent]:
        """What was noted under a name, across all queues, newest first."""
        return (self._queen.call(traces.ListNamedEvents(name, limit, skip))).events

    def names(self, *, limit: int = 100, skip: int = 0) -> list[traces.EventName]:
        """Names under which notes can be found, those used last first."""
        return (self._queen.call(traces.ListEventNames(limit, skip))).names
