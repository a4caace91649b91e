"""The messages that a producer has for one queue: sent in order, one request at a time, until all are stored."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice

from msgspec import Struct

from queenmq.client.answers import Pushed
from queenmq.client.calls import Push
from queenmq.client.lease import is_worth_waiting, pause_seconds
from queenmq.client.transports import AsyncTransport
from queenmq.errors import Closed, Forbidden, QueenError, QueueFull, Refused, Unauthorized
from queenmq.model import Outgoing

log = logging.getLogger(__name__)


class Report(Struct, frozen=True, gc=False):
    """What became of a message: what the queue answered, or why it was refused."""

    message: Outgoing
    outcome: Pushed | QueenError


class Kept:
    """A message on its way."""

    __slots__ = ("_waiter", "message", "outcome")

    def __init__(self, message: Outgoing) -> None:
        self.message = message
        self.outcome: Pushed | QueenError | None = None
        self._waiter: asyncio.Future[None] | None = None

    def settle(self, outcome: Pushed | QueenError) -> None:
        """It has arrived, or never will."""
        self.outcome = outcome
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def settled(self) -> Pushed | QueenError:
        """Wait for what becomes of it."""
        while self.outcome is None:
            if self._waiter is None:
                self._waiter = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._waiter)
        return self.outcome


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
        self, transport: AsyncTransport, limits: Limits, lock: threading.Lock, settled: Callable[[Sequence[Kept]], None]
    ) -> None:
        self._transport = transport
        self._limits = limits
        self._lock = lock
        self._settled = settled
        self._enough = asyncio.Event()
        self._told = False  # once is enough: from then on it does not wait for company
        self._bytes = 0
        self.messages: deque[Kept] = deque()

    def add(self, kept: Kept) -> bool:
        """Put a message last, with the lock; answers whether it makes enough to send."""
        self.messages.append(kept)
        self._bytes += len(kept.message.payload)
        if self._told or (len(self.messages) < self._limits.batch_messages and self._bytes < self._limits.batch_bytes):
            return False
        self._told = True
        return True

    def hurry(self) -> None:
        """Wait for no more messages."""
        self._enough.set()

    async def drain(self) -> None:
        """Send all there is; called off, tell the rest that they were not sent."""
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._limits.linger_seconds):
                    await self._enough.wait()
            while batch := self._head():
                await self._send(batch)
        except asyncio.CancelledError:
            self._settle([Closed("the producer was closed before this message was stored")] * len(self.messages))
            raise

    def _head(self) -> list[Kept]:
        """As many as go out together, and at least one."""
        batch: list[Kept] = []
        size = 0
        with self._lock:
            for kept in islice(self.messages, self._limits.batch_messages):
                size += len(kept.message.payload)
                if batch and size > self._limits.batch_bytes:
                    break
                batch.append(kept)
        return batch

    async def _send(self, batch: list[Kept]) -> None:
        """Until each is stored or refused: in halves to find a culprit, and again after a pause where none is."""
        attempt = 0
        while True:
            try:
                outcomes: Sequence[Pushed | QueenError] = await self._push(batch)
            except QueenError as error:
                if _is_for_all(error) or (len(batch) == 1 and _is_final(error)):
                    outcomes = [error] * len(batch)
                elif len(batch) > 1 and isinstance(error, Refused):
                    middle = len(batch) // 2
                    await self._send(batch[:middle])
                    await self._send(batch[middle:])
                    return
                else:
                    log.warning("messages wait to be pushed", extra={"messages": len(batch), "cause": repr(error)})
                    await asyncio.sleep(pause_seconds(attempt))
                    attempt += 1
                    continue
            self._settle(outcomes)
            return

    async def _push(self, batch: list[Kept]) -> list[Pushed]:
        try:
            return await self._transport.call(Push([each.message for each in batch]))
        except QueenError:
            raise
        except Exception as error:  # it must not end the lane: somebody waits for what becomes of its messages
            raise Refused(f"the message cannot be sent: {error!r}") from error

    def _settle(self, outcomes: Sequence[Pushed | QueenError]) -> None:
        """The first messages of the lane are done: what is sent is answered in order."""
        with self._lock:
            settled = [self.messages.popleft() for _ in outcomes]
            self._bytes -= sum(len(each.message.payload) for each in settled)
        for kept, outcome in zip(settled, outcomes, strict=True):
            kept.settle(outcome)
        self._settled(settled)


def _is_final(error: QueenError) -> bool:
    """Whether a message that is refused like this will never be taken."""
    return isinstance(error, Refused) and not isinstance(error, QueueFull)


def _is_for_all(error: QueenError) -> bool:
    """Whether it is the client that is refused or closed, whatever it sends."""
    if isinstance(error, Closed):
        return not is_worth_waiting(error)
    return isinstance(error, Unauthorized | Forbidden)
