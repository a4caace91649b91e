# Generated from client/producer.py by `make sync-client`: edit that file, not this one.
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
from queenmq.client.transports.blocking import BlockingTransport, run_with
from queenmq.errors import InvalidArgument, QueenError
from queenmq.model import DEFAULT_PARTITION, Headers


class Receipt:
    """For a message that a producer has taken."""

    __slots__ = ("_kept", "_transport")

    def __init__(self, transport: BlockingTransport, kept: Kept) -> None:
        self._transport = transport
        self._kept = kept

    def delivered(self) -> Pushed:
        """Wait until the message is stored. Raises what refused it."""
        outcome = run_with(self._transport, lambda _: self._kept.settled())
        if isinstance(outcome, QueenError):
            raise outcome
        return outcome


class Producer:
    """Takes messages and sends them together; leaving its block sends what is left.

    Nothing is dropped: where the buffer or the queue is full, or nobody is there to take it, pushes wait. Every message
    has a transaction id, so one that had to be sent twice is stored once.
    """

    def __init__(self, transport: BlockingTransport, limits: Limits, on_delivery: OnDelivery | None) -> None:
        self._transport = transport
        self._limits = limits
        self._on_delivery = on_delivery
        self._buffer: Buffer | None = None
        self._name = str(uuid4())
        self._numbers = count()

    def push(
        self,
        queue: str,
        payload: Any,
        *,
        partition: str = DEFAULT_PARTITION,
        transaction_id: str | None = None,
        trace_id: UUID | str | None = None,
        headers: Headers | None = None,
    ) -> Receipt:
        """Take a message, as soon as there is room for it. Raises InvalidPayload; what else refuses it is reported."""
        if transaction_id is None:
            transaction_id = f"{self._name}-{next(self._numbers)}"
        outgoing = message(queue, partition, Outgoing(payload, transaction_id, trace_id, headers=headers))
        kept = Kept(telemetry.carried(outgoing))
        while not self._opened.add(kept):
            run_with(self._transport, lambda _: self._opened.room_for(kept))
        return Receipt(self._transport, kept)

    def flush(self) -> None:
        """Wait until all that was taken so far is stored, or reported as refused."""
        run_with(self._transport, lambda _: self._opened.flush())

    def __enter__(self) -> Self:
        self._buffer = run_with(
            self._transport, lambda transport: open_buffer(transport, self._limits, self._on_delivery)
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run_with(self._transport, lambda _: self._opened.close())

    @property
    def _opened(self) -> Buffer:
        if self._buffer is None:
            raise InvalidArgument("a producer is used in its block: with queen.producer() as producer")
        return self._buffer
