"""What a producer has taken and not delivered yet: bounded, in order, never dropped.

Every queue has a lane of its own, so one that is full holds up no other, as long as there is room. `add` may be called
from any thread; everything else runs on the event loop.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence

from queenmq.client.lane import Batch, Lane, Limits, Outcome, Report
from queenmq.client.transports import AsyncTransport
from queenmq.client.unavailable import ClientClosed
from queenmq.errors import InvalidArgument, QueenError
from queenmq.model import Outgoing

log = logging.getLogger(__name__)

OnDelivery = Callable[[Report], object]


async def open_buffer(transport: AsyncTransport, limits: Limits, on_delivery: OnDelivery | None) -> "Buffer":
    """A buffer of the event loop that this runs on."""
    return Buffer(transport, limits, on_delivery)


class Buffer:
    """Lanes, and the room that they share."""

    def __init__(self, transport: AsyncTransport, limits: Limits, on_delivery: OnDelivery | None) -> None:
        for name in limits.__struct_fields__:
            if getattr(limits, name) < (0 if name == "linger_seconds" else 1):
                raise InvalidArgument(f"{name} of a producer cannot be {getattr(limits, name)}")
        self._transport = transport
        self._limits = limits
        self._on_delivery = on_delivery
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._lanes: dict[str, Lane] = {}
        self._draining: set[asyncio.Task[None]] = set()
        self._messages = 0
        self._bytes = 0
        self._freed = asyncio.Event()
        self._closed = False

    def add(self, message: Outgoing) -> tuple[Batch, int] | None:
        """Take a message, if there is room, and answer where it is; one that is larger than the buffer gets it all."""
        size, queue = len(message.payload), message.queue
        with self._lock:
            if self._closed:
                raise ClientClosed("this producer was closed")
            if self._is_full(size):
                return None
            self._messages += 1
            self._bytes += size
            lane = self._lanes.get(queue)
            if lane is None:
                lane = self._lanes[queue] = Lane(self._transport, self._limits, self._lock, self._loop, self._settled)
                self._loop.call_soon_threadsafe(self._begin, queue, lane)
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
            self._closed = True
        try:
            await self.flush()
        finally:
            draining = tuple(self._draining)
            for each in draining:
                each.cancel()
            if draining:
                await asyncio.wait(draining)

    def _is_full(self, size: int) -> bool:
        limits = self._limits
        return self._messages >= limits.buffer_messages or (
            self._bytes + size > limits.buffer_bytes and self._messages > 0
        )

    def _begin(self, queue: str, lane: Lane) -> None:
        draining = self._loop.create_task(self._drain(queue, lane))
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
            self._messages -= len(messages)
            self._bytes -= sum(len(each.payload) for each in messages)
        self._freed.set()
        for message, outcome in zip(messages, outcomes, strict=True):
            if isinstance(outcome, QueenError):
                log.error("a message was not stored", extra={"queue": message.queue, "cause": repr(outcome)})
            if self._on_delivery is not None:
                self._report(self._on_delivery, Report(message, outcome))

    def _report(self, on_delivery: OnDelivery, report: Report) -> None:
        try:
            on_delivery(report)
        except Exception:
            log.exception("a delivery report was not taken")
