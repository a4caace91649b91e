"""A buffered producer: pushes return at once, messages travel together."""

from itertools import count
from types import TracebackType
from typing import Any, Self
from uuid import UUID, uuid4

from queenmq.client import telemetry
from queenmq.client.answers import Pushed
from queenmq.client.buffer import Buffer, OnDelivery, open_buffer
from queenmq.client.lane import Kept, Limits
from queenmq.client.outgoing import Outgoing, message
from queenmq.client.transports import AsyncTransport, run_with
from queenmq.errors import InvalidArgument, QueenError
from queenmq.model import DEFAULT_PARTITION, Headers


class AsyncReceipt:
    """For a message that a producer has taken."""

    __slots__ = ("_kept", "_transport")

    def __init__(self, transport: AsyncTransport, kept: Kept) -> None:
        self._transport = transport
        self._kept = kept

    async def delivered(self) -> Pushed:
        """Wait until the message is stored. Raises what refused it."""
        outcome = await run_with(self._transport, lambda _: self._kept.settled())
        if isinstance(outcome, QueenError):
            raise outcome
        return outcome


class AsyncProducer:
    """Takes messages and sends them together; leaving its block sends what is left.

    Nothing is dropped: where the buffer or the queue is full, or nobody is there to take it, pushes wait. Every message
    has a transaction id, so one that had to be sent twice is stored once.
    """

    def __init__(self, transport: AsyncTransport, limits: Limits, on_delivery: OnDelivery | None) -> None:
        self._transport = transport
        self._limits = limits
        self._on_delivery = on_delivery
        self._buffer: Buffer | None = None
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
        if transaction_id is None:
            transaction_id = f"{self._name}-{next(self._numbers)}"
        outgoing = message(queue, partition, Outgoing(payload, transaction_id, trace_id, headers=headers))
        kept = Kept(telemetry.carried(outgoing))
        while not self._opened.add(kept):
            await run_with(self._transport, lambda _: self._opened.room_for(kept))
        return AsyncReceipt(self._transport, kept)

    async def flush(self) -> None:
        """Wait until all that was taken so far is stored, or reported as refused."""
        await run_with(self._transport, lambda _: self._opened.flush())

    async def __aenter__(self) -> Self:
        self._buffer = await run_with(
            self._transport, lambda transport: open_buffer(transport, self._limits, self._on_delivery)
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await run_with(self._transport, lambda _: self._opened.close())

    @property
    def _opened(self) -> Buffer:
        if self._buffer is None:
            raise InvalidArgument("a producer is used in its block: async with queen.producer() as producer")
        return self._buffer
