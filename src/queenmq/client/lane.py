"""The messages that a producer has for one queue: sent in order, one request at a time, until all are stored."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import Struct

from queenmq.client.answers import Pushed
from queenmq.client.calls import Push
from queenmq.client.lease import is_worth_waiting, pause_seconds
from queenmq.client.transports import AsyncTransport
from queenmq.errors import Closed, Forbidden, QueenError, QueueFull, Refused, Unauthorized
from queenmq.model import Outgoing

log = logging.getLogger(__name__)

Outcome = Pushed | QueenError


class Report(Struct, frozen=True, gc=False):
    """What became of a message: what the queue answered, or why it was refused."""

    message: Outgoing
    outcome: Outcome


class Batch:
    """Messages that go out together, and what became of them so far, in their order.

    A message is found by its place, and there is nothing else that it would need an object of its own for.
    """

    __slots__ = ("_told", "bytes", "messages", "outcomes")

    def __init__(self) -> None:
        self.messages: list[Outgoing] = []
        self.bytes = 0
        self.outcomes: list[Outcome] = []
        self._told = asyncio.Event()

    def settle(self, outcomes: Sequence[Outcome]) -> None:
        """The next messages have arrived, or never will."""
        self.outcomes += outcomes
        told, self._told = self._told, asyncio.Event()
        told.set()

    async def outcome(self, place: int) -> Outcome:
        """Wait for what becomes of a message."""
        while len(self.outcomes) <= place:
            await self._told.wait()
        return self.outcomes[place]


class Limits(Struct, frozen=True, kw_only=True):
    """How much is kept, and how much is sent at once; `linger_seconds`: how long a message waits for company."""

    buffer_messages: int
    buffer_bytes: int
    batch_messages: int
    batch_bytes: int
    linger_seconds: float


class Lane:
    """One request on its way at a time: that keeps the order, also when it must be sent again.

    What gathers meanwhile goes out next. `settled` is told of messages that are stored or refused. The lock is
    for those who add messages from another thread.
    """

    def __init__(
        self,
        transport: AsyncTransport,
        limits: Limits,
        lock: threading.Lock,
        loop: asyncio.AbstractEventLoop,
        settled: Callable[[Sequence[Outgoing], Sequence[Outcome]], None],
    ) -> None:
        self._transport = transport
        self._limits = limits
        self._lock = lock
        self._loop = loop
        self._settled = settled
        self._enough = asyncio.Event()
        self._told = False  # once is enough: from then on it does not wait for company
        self._sending: Batch | None = None
        self.waiting: deque[Batch] = deque()  # the last one is still being filled

    def add(self, message: Outgoing, size: int) -> tuple[Batch, int]:
        """Put a message last, with the lock; answers where it is."""
        waiting, limits = self.waiting, self._limits
        batch = waiting[-1] if waiting else None
        if batch is None or len(batch.messages) >= limits.batch_messages or batch.bytes + size > limits.batch_bytes:
            batch = Batch()
            waiting.append(batch)
        place = len(batch.messages)
        batch.messages.append(message)
        batch.bytes += size
        if not self._told and (
            place + 1 >= limits.batch_messages or batch.bytes >= limits.batch_bytes or len(waiting) > 1
        ):
            self._told = True
            self._loop.call_soon_threadsafe(self.hurry)
        return batch, place

    def last(self) -> tuple[Batch, int] | None:
        """Where the message is that was added last, with the lock; None if all are settled."""
        batch = self.waiting[-1] if self.waiting else self._sending
        return None if batch is None else (batch, len(batch.messages) - 1)

    def hurry(self) -> None:
        """Wait for no more messages."""
        self._enough.set()

    async def drain(self) -> None:
        """Send all there is; called off, tell the rest that they were not sent."""
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._limits.linger_seconds):
                    await self._enough.wait()
            while batch := self._next():
                await self._send(batch, batch.messages)
                batch.messages = []  # a receipt keeps its batch, and needs what became of it only
        except asyncio.CancelledError:
            error = Closed("the producer was closed before this message was stored")
            batch = self._sending or self._next()
            while batch is not None:
                unsent = batch.messages[len(batch.outcomes) :]
                self._settle(batch, unsent, [error] * len(unsent))
                batch = self._next()
            raise

    def _next(self) -> Batch | None:
        """The batch to send; nothing is added to it from here on."""
        with self._lock:
            self._sending = self.waiting.popleft() if self.waiting else None
        return self._sending

    async def _send(self, batch: Batch, messages: list[Outgoing]) -> None:
        """Until each is stored or refused: in halves to find a culprit, and again after a pause where none is."""
        attempt = 0
        while True:
            try:
                outcomes: Sequence[Outcome] = await self._push(messages)
            except QueenError as error:
                if _is_for_all(error) or (len(messages) == 1 and _is_final(error)):
                    outcomes = [error] * len(messages)
                elif len(messages) > 1 and isinstance(error, Refused):
                    middle = len(messages) // 2
                    await self._send(batch, messages[:middle])
                    await self._send(batch, messages[middle:])
                    return
                else:
                    waiting = {"messages": len(messages), "queue": messages[0].queue}
                    log.warning(
                        "%d messages wait to be pushed to queue %s: %s",
                        *waiting.values(),
                        error,
                        extra=waiting | {"cause": repr(error)},
                    )
                    await asyncio.sleep(pause_seconds(attempt))
                    attempt += 1
                    continue
            self._settle(batch, messages, outcomes)
            return

    async def _push(self, messages: list[Outgoing]) -> Sequence[Pushed]:
        try:
            return await self._transport.call(Push(messages))
        except QueenError:
            raise
        except Exception as error:  # it must not end the lane: somebody waits for what becomes of its messages
            raise Refused(f"the message cannot be sent: {error!r}") from error

    def _settle(self, batch: Batch, messages: Sequence[Outgoing], outcomes: Sequence[Outcome]) -> None:
        """The next messages of the batch are done: what is sent is answered in order."""
        batch.settle(outcomes)
        self._settled(messages, outcomes)


def _is_final(error: QueenError) -> bool:
    """Whether a message that is refused like this will never be taken."""
    return isinstance(error, Refused) and not isinstance(error, QueueFull)


def _is_for_all(error: QueenError) -> bool:
    """Whether it is the client that is refused or closed, whatever it sends."""
    if isinstance(error, Closed):
        return not is_worth_waiting(error)
    return isinstance(error, Unauthorized | Forbidden)
