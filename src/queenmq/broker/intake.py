"""Memory for request bodies: how many bytes of them a server process holds, and which request goes on next.

Bodies arrive in any number at once, but only a part of the limit may lie in memory before it is worked on. Beyond it,
the server stops reading; one request at a time may go on, so that one is always complete some day. Clients that have
stopped to send are then answered 408.

A complete body enters a lane. One lane is for small bodies and one for large ones, so that small requests never wait
for large ones. In each lane, a queue has a share: its requests wait for each other, and those of other queues overtake
them. Whoever waits too long, or finds too many waiting, is answered 503.

Which queue a body belongs to is known for certain only after it was decoded, and that takes memory itself. So the
first queue that is named counts. If that is a wrong guess, requests only wait in another order.
"""

import asyncio
import re
from collections import deque
from time import monotonic
from typing import Protocol

from msgspec import Struct

from queenmq.broker import heap
from queenmq.config import Settings
from queenmq.errors import Busy

SMALL_BYTES = 256 << 10  # larger bodies go to the lane for large ones
SMALL_PART = 4  # of the limit: the room for small bodies is this part of that for large ones
ARRIVING_PART = 4
SHARE, SMALL_SHARE = 0.5, 0.75  # of a lane, for one queue
ITEM, ITEM_BYTES = b'"queue"', 256  # the text that each item has, and the memory that an item takes beside its text
WAIT_SECONDS_MAX = 30.0
HEAP_BYTES_MAX = 16 << 20  # of one request; before and after a larger one the heap is cleaned up
STALLED_SECONDS = 3.0  # without a byte, after which a client may not keep others waiting
SNIFFED_BYTES = 4096

_IN_PATH = re.compile(r"/queue/([^/]+)")
_IN_BODY = re.compile(rb'"queue"\s*:\s*"((?:[^"\\]|\\.)*)"')


class Lane:
    """A limit of bytes for requests in work. If a single request is larger than the limit, it is admitted alone."""

    def __init__(self, bytes_max: int, share: float) -> None:
        self.used = 0
        self.waiting_bytes = 0
        self._bytes_max = bytes_max
        self._share = bytes_max * share
        self._used_by: dict[str, int] = {}
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}  # by queue; the next turn comes first

    async def enter(self, queue: str, size: int) -> None:
        """Wait for room; refuses if too much waits already, or if it takes too long."""
        if not self._waiting and self._fits(queue, size):
            self._take(queue, size)
            return
        if self.waiting_bytes and self.waiting_bytes + size > self._bytes_max:
            raise Busy("the server has too many request bodies in memory")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(queue, deque()).append((size, turn))
        self.waiting_bytes += size
        self._admit()
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():  # it was admitted just before the error
                self.leave(queue, size)
            else:
                self._forget(queue, size, turn)
                self._admit()
            if isinstance(error, TimeoutError):
                raise Busy(f"no room for the body of this request became free in {WAIT_SECONDS_MAX:.0f} s") from None
            raise

    def leave(self, queue: str, size: int) -> None:
        """Give back the room of a request that has ended."""
        self.used -= size
        self._used_by[queue] -= size
        if not self._used_by[queue]:
            del self._used_by[queue]
        if self._waiting:
            self._admit()

    def _fits(self, queue: str, size: int) -> bool:
        return (self.used + size <= self._bytes_max or not self.used) and not self._is_past_share(queue, size)

    def _is_past_share(self, queue: str, size: int) -> bool:
        own = self._used_by.get(queue)
        return own is not None and own + size > self._share

    def _take(self, queue: str, size: int) -> None:
        self.used += size
        self._used_by[queue] = self._used_by.get(queue, 0) + size

    def _admit(self) -> None:
        """Let in as many as there is room for, one of each queue in turn."""
        admitted = True
        while admitted:
            admitted = False
            for queue in list(self._waiting):
                size, turn = self._waiting[queue][0]
                if self._is_past_share(queue, size):
                    continue  # its queue has used its share, so requests of other queues go first
                if not self._fits(queue, size):
                    return
                self._take(queue, size)
                self._forget(queue, size, turn)
                turn.set_result(None)
                admitted = True

    def _forget(self, queue: str, size: int, turn: "asyncio.Future[None]") -> None:
        self.waiting_bytes -= size
        own = self._waiting.pop(queue)
        own.remove((size, turn))
        if own:
            self._waiting[queue] = own  # its next turn comes after those of the other queues


class Reader(Protocol):
    """A connection that reads a body."""

    def read_on(self) -> None:
        """Continue to read, after `arrived` returned False."""

    def give_up(self) -> None:
        """Refuse the request, because its client is too slow."""


class HasBody(Protocol):
    """A request, as far as its body is concerned."""

    @property
    def announced_bytes(self) -> int:
        """The length that the client has announced; 0 if it has not."""

    @property
    def queue(self) -> str:
        """The queue that is named first."""


class Arrival(Struct, gc=False):
    """A body that is not complete."""

    reader: Reader
    heard_at: float  # when the last piece came
    held_back: bool = False


class Intake:
    """All request bodies of a server process."""

    def __init__(self, settings: Settings) -> None:
        self._items_max = settings.push_items_max
        self._large = Lane(settings.bodies_bytes_max, SHARE)
        self._small = Lane(settings.bodies_bytes_max // SMALL_PART, SMALL_SHARE)
        self._arriving_max = settings.bodies_bytes_max // ARRIVING_PART
        self._arriving: dict[HasBody, int] = {}  # bytes of bodies that are not in a lane yet
        self._arriving_bytes = 0
        self._arrivals: dict[HasBody, Arrival] = {}
        self._entered: dict[HasBody, tuple[Lane, str, int]] = {}  # the lanes of requests in work
        self._last_turns: dict[str, int] = {}  # by queue: the number of its last complete body
        self._turns = 0
        self._watch: asyncio.TimerHandle | None = None

    # -- while a body arrives

    def arrived(self, request: HasBody, size: int, reader: Reader) -> bool:
        """Note a piece of a body that is not complete. Returns False if the reader must stop until `read_on`."""
        arrival = self._arrivals.get(request)
        if arrival is None:
            arrival = self._arrivals[request] = Arrival(reader, 0.0)
        arrival.heard_at = monotonic()
        self._arriving[request] = self._arriving.get(request, 0) + size
        self._arriving_bytes += size
        arrival.held_back = not self._may_read(request)
        if arrival.held_back and self._watch is None:
            self._watch = asyncio.get_running_loop().call_later(STALLED_SECONDS / 3, self._give_up_stalled)
        return not arrival.held_back

    def _may_read(self, request: HasBody) -> bool:
        bytes_max = self._arriving_max
        if 0 < request.announced_bytes <= SMALL_BYTES:
            bytes_max *= 2  # large bodies leave room for small ones
        return self._arriving_bytes <= bytes_max or self._is_next(request)

    def _is_next(self, request: HasBody) -> bool:
        """Whether this body may be read to its end even if there is no room: that is allowed for one at a time."""
        if self._large.used > self._arriving_max or self._large.waiting_bytes:
            return False
        return request is min(self._arrivals, key=lambda each: self._last_turns.get(each.queue, 0))

    def arrived_whole(self, request: HasBody) -> None:
        """Note that a body is complete, or that the rest of it will not come."""
        if self._arrivals.pop(request, None) is not None:
            self._turns += 1
            self._last_turns[request.queue] = self._turns
            if not self._arrivals:
                self._last_turns.clear()
            self._read_on()

    def forget(self, request: HasBody) -> None:
        """Stop counting a body as arriving, because it was dropped or has entered a lane."""
        self.arrived_whole(request)
        self._arriving_bytes -= self._arriving.pop(request, 0)
        self._read_on()

    def _read_on(self) -> None:
        for request, arrival in list(self._arrivals.items()):
            if arrival.held_back and self._may_read(request):
                arrival.held_back = False
                arrival.heard_at = monotonic()
                arrival.reader.read_on()

    def _give_up_stalled(self) -> None:
        """While bodies are held back, refuse bodies of which nothing has come for STALLED_SECONDS."""
        self._watch = None
        if any(each.held_back for each in self._arrivals.values()):
            limit = monotonic() - STALLED_SECONDS
            for arrival in list(self._arrivals.values()):
                if not arrival.held_back and arrival.heard_at < limit:
                    arrival.reader.give_up()
            self._watch = asyncio.get_running_loop().call_later(STALLED_SECONDS / 3, self._give_up_stalled)

    # -- when it is complete

    async def admit(self, request: HasBody, queue: str, body: bytes) -> None:
        """Wait for room in a lane. The request keeps it until `release`."""
        lane = self._large if len(body) > SMALL_BYTES else self._small
        size = len(body) + ITEM_BYTES * min(self._items_max, body.count(ITEM))
        await lane.enter(queue, size)
        self._entered[request] = lane, queue, size
        self.forget(request)
        if size > HEAP_BYTES_MAX:
            heap.give_back()

    def release(self, request: HasBody) -> None:
        """Give back the room of a request that is answered or was cancelled."""
        self.forget(request)
        if (entered := self._entered.pop(request, None)) is not None:
            lane, queue, size = entered
            lane.leave(queue, size)
            if size > HEAP_BYTES_MAX:
                heap.give_back()
            self._read_on()


def queue_in_path(path: str) -> str:
    """The queue that an address names, as it was sent; empty if it names none."""
    found = _IN_PATH.search(path)
    return found[1] if found is not None else ""


def queue_in_body(chunk: bytes) -> str:
    """The first queue that the beginning of a body names; empty if there is none."""
    found = _IN_BODY.search(chunk, 0, SNIFFED_BYTES)
    return found[1].decode(errors="replace") if found is not None else ""
