# Generated from client/traces.py by `make sync-client`: edit that file, not this one.
"""Traces: `queen.traces`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from queenmq.client import payload
from queenmq.client.administration import traces
from queenmq.client.administration.messages import Address
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
        id = trace_uuid(trace_id)
        page = self._queen.call(traces.FollowTrace(id))
        steps = page.steps
        while page.cursor is not None:
            page = self._queen.call(traces.FollowTrace(id, page.cursor))
            steps += page.steps
        return steps

    def record(self, message: Message, data: Any, *, event_type: str = "info", names: Sequence[str] = ()) -> str:
        """Note that something happened to a message; answers the note's id."""
        return self._queen.call(
            traces.RecordEvent(_address(message), message.group, event_type, list(names), payload.encode(data))
        )

    def of(self, message: Message) -> list[traces.TraceEvent]:
        """What was noted about a message, oldest first."""
        page = self._queen.call(traces.ListMessageEvents(_address(message)))
        events = page.events
        while page.cursor is not None:
            page = self._queen.call(traces.ListMessageEvents(_address(message), page.cursor))
            events += page.events
        return events

    def named(self, name: str, *, limit: int = 100, skip: int = 0) -> list[traces.TraceEvent]:
        """What was noted under a name, across all queues, newest first."""
        return self._queen.call(traces.ListNamedEvents(name, limit, skip))

    def names(self, *, limit: int = 100, skip: int = 0) -> list[traces.EventName]:
        """Names under which notes can be found, those used last first."""
        return self._queen.call(traces.ListEventNames(limit, skip))


def _address(message: Message) -> Address:
    return Address(message.partition_id, message.transaction_id)
