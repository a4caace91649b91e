"""What a producer has taken and not delivered yet: bounded, in order, never dropped.

Every queue has a lane of its own, so one that is full holds up no other, as long as there is room. `add` may be called
from any thread; everything else runs on the event loop.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Literal

from queenmq.client.lane import Batch, Lane, Limits, Outcome, Report
from queenmq.client.transports import AsyncTransport
from queenmq.client.unavailable import ClientClosed
from queenmq.errors import InvalidArgument, QueenError
from queenmq.model import Outgoing

log = logging.getLogger(__name__)

OnDelivery = Callable[[Report], object]


class Buffer:
    """Lanes, and the room that they share."""

    def __init__(self, limits: Limits, on_delivery: OnDelivery | None) -> None:
        for name in limits.__struct_fields__:
            if getattr(limits, name) < (0 if name == "linger_seconds" else 1):
                raise InvalidArgument(f"{name} of a producer cannot be {getattr(limits, name)}")
        self._limits = limits
        self._on_delivery = on_delivery
        self._home: tuple[AsyncTransport, asyncio.AbstractEventLoop] | None = None  # where it was opened
        self._lock = threading.Lock()
        self._lanes: dict[str, Lane] = {}
        self._draining: set[asyncio.Task[None]] = set()
        self.messages = 0  # taken, and neither stored nor refused yet
        self._bytes = 0
        self._freed = asyncio.Event()
        self.state: Literal["not started", "open", "closing", "closed"] = "not started"

    async def open(self, transport: AsyncTransport) -> None:
        """Take messages, which this event loop sends through the transport; a second call does nothing."""
        if self._home is None:
            self._home = (transport, asyncio.get_running_loop())
            self.state = "open"

    def add(self, message: Outgoing) -> tuple[Batch, int] | None:
        """Take a message, if there is room, and answer where it is; one that is larger than the buffer gets it all."""
        size, queue = len(message.payload), message.queue
        assert self._home is not None, "it is opened before anything is added"
        transport, loop = self._home
        with self._lock:
            if self.state != "open":
                raise ClientClosed("this producer was closed")
            if self._is_full(size):
                return None
            self.messages += 1
            self._bytes += size
            lane = self._lanes.get(queue)
            if lane is None:
                lane = self._lanes[queue] = Lane(transport, self._limits, self._lock, loop, self._settled)
                loop.call_soon_threadsafe(self._begin, queue, lane)
            return lane.add(message, size)

    async def room_for(self, message: Outgoing) -> None:
        """Wait until there may be room for a message; nobody waits for company meanwhile."""
        with self._lock:
            lanes = list(self._lanes.values())
        for lane in lanes:
            lane.hurry()
        while self._is_full(len(message.payload)):
            self._freed.clear()
            await self._freed.wait()

    async def flush(self) -> None:
        """Send what was taken so far, and wait until all of it is stored or refused."""
        with self._lock:
            lanes = list(self._lanes.values())
            last = [found for lane in lanes if (found := lane.last()) is not None]
        for lane in lanes:
            lane.hurry()
        for batch, place in last:
            await batch.outcome(place)

    async def close(self) -> None:
        """Take no more, and send what is there."""
        with self._lock:
            self.state = "closing"
        try:
            await self.flush()
        finally:
            draining = tuple(self._draining)
            for each in draining:
                each.cancel()
            if draining:
                await asyncio.wait(draining)
            self.state = "closed"

    def _is_full(self, size: int) -> bool:
        limits = self._limits
        return self.messages >= limits.buffer_messages or (
            self._bytes + size > limits.buffer_bytes and self.messages > 0
        )

    def _begin(self, queue: str, lane: Lane) -> None:
        draining = asyncio.get_running_loop().create_task(self._drain(queue, lane))
        self._draining.add(draining)
        draining.add_done_callback(self._draining.discard)

    async def _drain(self, queue: str, lane: Lane) -> None:
        """Until the lane is empty for good: a message that came in the last moment begins another one."""
        while True:
            await lane.drain()
            with self._lock:
                if not lane.waiting:
                    del self._lanes[queue]
                    return

    def _settled(self, messages: Sequence[Outgoing], outcomes: Sequence[Outcome]) -> None:
        with self._lock:
            self.messages -= len(messages)
            self._bytes -= sum(len(each.payload) for each in messages)
        self._freed.set()
        for message, outcome in zip(messages, outcomes, strict=True):
            if isinstance(outcome, QueenError):
                which = {
                    "queue": message.queue,
                    "partition": message.partition,
                    "transaction_id": message.transaction_id,
                }
                log.error(
                    "a message was not stored: queue %s, partition %s, transaction id %s: %s",
                    *which.values(),
                    outcome,
                    extra=which | {"cause": repr(outcome)},
                )
            if self._on_delivery is not None:
                self._report(self._on_delivery, Report(message, outcome))

    def _report(self, on_delivery: OnDelivery, report: Report) -> None:
        try:
            on_delivery(report)
        except Exception:
            which = {"queue": report.message.queue, "partition": report.message.partition}
            log.exception("on_delivery failed: queue %s, partition %s", *which.values(), extra=which)
