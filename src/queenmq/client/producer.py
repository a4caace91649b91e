"""A buffered producer: pushes return at once, messages travel together."""

import asyncio
from itertools import count
from types import TracebackType
from typing import Any, Self
from uuid import UUID, uuid4

from msgspec import Struct

from queenmq import model
from queenmq.client import telemetry
from queenmq.client.answers import Pushed
from queenmq.client.buffer import Buffer, OnDelivery
from queenmq.client.lane import Batch, Limits
from queenmq.client.outgoing import trace_uuid
from queenmq.client.payload import encode
from queenmq.client.transports import AsyncTransport, run_with
from queenmq.errors import InvalidArgument, QueenError
from queenmq.model import DEFAULT_PARTITION, Headers

TURN_MESSAGES = 50  # after so many the event loop gets a turn: requests go out while more is being pushed


class AsyncReceipt(Struct, frozen=True, eq=False):
    """For a message that a producer has taken."""

    _transport: AsyncTransport
    _batch: Batch
    _place: int

    def __repr__(self) -> str:
        told = self._batch.outcomes[self._place : self._place + 1]
        return f"<{type(self).__name__} {told[0] if told else 'not delivered yet'}>"

    async def delivered(self) -> Pushed:
        """Wait until the message is stored. Raises what refused it."""
        outcome = await run_with(self._transport, lambda _: self._batch.outcome(self._place))
        if isinstance(outcome, QueenError):
            raise outcome
        return outcome


class AsyncProducer:
    """Takes messages and sends them together; leaving its block, or `close`, sends what is left.

    Nothing is dropped: where the buffer or the queue is full, or nobody is there to take it, pushes wait. Every message
    has a transaction id, so one that had to be sent twice is stored once.
    """

    def __init__(self, transport: AsyncTransport, limits: Limits, on_delivery: OnDelivery | None) -> None:
        self._transport = transport
        self._buffer = Buffer(limits, on_delivery)
        self._name = str(uuid4())
        self._numbers = count()

    async def push(
        self,
        queue: str,
        payload: Any,
        *,
        partition: str = DEFAULT_PARTITION,
        transaction_id: str | None = None,
        trace_id: UUID | str | None = None,
        headers: Headers | None = None,
    ) -> AsyncReceipt:
        """Take a message, as soon as there is room for it. Raises InvalidPayload; what else refuses it is reported."""
        buffer, number = self._opened, next(self._numbers)
        if number % TURN_MESSAGES == 0:
            await asyncio.sleep(0)
        outgoing = model.Outgoing(
            queue,
            encode(payload),
            partition,
            f"{self._name}-{number}" if transaction_id is None else transaction_id,
            None if trace_id is None else trace_uuid(trace_id),
            headers=headers,
        )
        carried = telemetry.carried(outgoing)
        while (taken := buffer.add(carried)) is None:
            await run_with(self._transport, lambda _: buffer.room_for(carried))
        return AsyncReceipt(self._transport, *taken)

    async def flush(self) -> None:
        """Wait until all that was taken so far is stored, or reported as refused."""
        await run_with(self._transport, lambda _: self._opened.flush())

    async def start(self) -> Self:
        """Begin to take messages, for programs whose producer lives longer than a block. Twice is as good as once."""
        await run_with(self._transport, self._buffer.open)
        return self

    async def close(self) -> None:
        """Take no more messages, and return when what is left is stored or refused. Twice is as good as once."""
        if self._buffer.state in ("open", "closing"):
            await run_with(self._transport, lambda _: self._buffer.close())

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._buffer.state}, {self._buffer.messages} messages to send>"

    @property
    def _opened(self) -> Buffer:
        if self._buffer.state == "not started":
            raise InvalidArgument(
                "this producer was not started: use it in a block, async with queen.producer() as producer, "
                "or call await producer.start(), and await producer.close() at the end"
            )
        return self._buffer
