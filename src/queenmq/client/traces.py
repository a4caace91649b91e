"""Traces: `queen.traces`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from queenmq.client import payload
from queenmq.client.administration import traces
from queenmq.client.administration.messages import Address
from queenmq.client.message import AsyncMessage
from queenmq.client.outgoing import trace_uuid

if TYPE_CHECKING:
    from queenmq.client.queen import AsyncQueen


class AsyncTraces:
    """The way of a trace id through the queues, and what consumers noted about messages."""

    def __init__(self, queen: "AsyncQueen") -> None:
        self._queen = queen

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._queen!r}>"

    async def follow(self, trace_id: UUID | str) -> list[traces.TraceStep]:
        """The messages of a trace id across all queues, in the order they were pushed, with the time between them."""
        id = trace_uuid(trace_id)
        page = await self._queen.call(traces.FollowTrace(id))
        steps = page.steps
        while page.cursor is not None:
            page = await self._queen.call(traces.FollowTrace(id, page.cursor))
            steps += page.steps
        return steps

    async def record(
        self, message: AsyncMessage, data: Any, *, event_type: str = "info", names: Sequence[str] = ()
    ) -> str:
        """Note that something happened to a message; answers the note's id."""
        return await self._queen.call(
            traces.RecordEvent(_address(message), message.group, event_type, list(names), payload.encode(data))
        )

    async def of(self, message: AsyncMessage) -> list[traces.TraceEvent]:
        """What was noted about a message, oldest first."""
        page = await self._queen.call(traces.ListMessageEvents(_address(message)))
        events = page.events
        while page.cursor is not None:
            page = await self._queen.call(traces.ListMessageEvents(_address(message), page.cursor))
            events += page.events
        return events

    async def named(self, name: str, *, limit: int = 100, skip: int = 0) -> list[traces.TraceEvent]:
        """What was noted under a name, across all queues, newest first."""
        return await self._queen.call(traces.ListNamedEvents(name, limit, skip))

    async def names(self, *, limit: int = 100, skip: int = 0) -> list[traces.EventName]:
        """Names under which notes can be found, those used last first."""
        return await self._queen.call(traces.ListEventNames(limit, skip))


def _address(message: AsyncMessage) -> Address:
    return Address(message.partition_id, message.transaction_id)
