# Generated from client/transaction.py by `make sync-client`: edit that file, not this one.
"""Acks and pushes that happen together or not at all."""

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from queenmq.client.answers import Pushed
from queenmq.client.calls import Ack, Transact
from queenmq.client.outgoing import Outgoing, message
from queenmq.client.sync.message import Message
from queenmq.errors import InvalidArgument
from queenmq.model import DEFAULT_PARTITION, AckStatus, Headers

if TYPE_CHECKING:
    from queenmq import model
    from queenmq.client.sync.queen import Queen


class Transaction:
    """Gathers acks and pushes; nothing happens before the commit, and then everything or nothing.

    Leaving its block commits; leaving it with an exception forgets everything.
    """

    def __init__(self, queen: "Queen") -> None:
        self._queen = queen
        self._acks: list[Ack] = []
        self._messages: list[model.Outgoing] = []
        self._done = False

    def __repr__(self) -> str:
        done = "committed" if self._done else "not committed"
        return f"<{type(self).__name__} {done}: {len(self._acks)} acks, {len(self._messages)} messages>"

    def ack(self, popped: Message, status: AckStatus = "completed", error: str | None = None) -> Self:
        """Say what became of a message."""
        self._acks.append(Ack(popped.delivery, status, error))
        return self

    def push(
        self,
        queue: str,
        payload: Any,
        *,
        partition: str = DEFAULT_PARTITION,
        transaction_id: str | None = None,
        trace_id: UUID | str | None = None,
        headers: Headers | None = None,
    ) -> Self:
        """Push a message."""
        item = Outgoing(payload, transaction_id, trace_id, headers=headers)
        self._messages.append(message(queue, partition, item))
        return self

    def commit(self) -> Sequence[Pushed]:
        """Have all of it happen; answers for the pushes, in order. Raises LeaseGone, NotInLease, QueueFull."""
        if self._done:
            raise InvalidArgument("this transaction was committed; begin another one")
        pushed = self._queen.call(Transact(self._acks, self._messages))
        self._done = True
        return pushed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self._done and (self._acks or self._messages):
            self.commit()
