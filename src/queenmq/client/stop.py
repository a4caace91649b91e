"""How those who consume are told to stop."""

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakSet

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Says when to stop: `stop.set()` from anywhere, be it a coroutine, another thread or a signal handler.

    One that comes `after` another is set with it, and may be set before.
    """

    def __init__(self, after: "Stop | None" = None) -> None:
        self._set = False
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self._followers: WeakSet[Stop] = WeakSet()
        if after is not None:
            after._followers.add(self)  # noqa: SLF001 (of our own kind)
            self._set = after.is_set()

    def set(self) -> None:
        """Stop now, for good."""
        self._set = True
        for loop, event in tuple(self._waiting):
            loop.call_soon_threadsafe(event.set)
        for follower in tuple(self._followers):
            follower.set()

    def is_set(self) -> bool:
        """Whether it is time to stop."""
        return self._set

    async def wait(self) -> None:
        """Wait until it is time."""
        place = (asyncio.get_running_loop(), asyncio.Event())
        self._waiting.append(place)  # first, so that a `set` between these two lines is not missed
        try:
            if not self._set:
                await place[1].wait()
        finally:
            self._waiting.remove(place)


@contextmanager
def stopping(stop: Stop | None) -> Iterator[Stop]:
    """A caller's own stop as it is; else one that SIGINT and SIGTERM set. A second signal does what it always did."""
    if stop is not None or threading.current_thread() is not threading.main_thread():
        yield stop or Stop()
        return
    ours = Stop()
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def end(*_: object) -> None:
        ours.set()
        restore()

    for number in SIGNALS:
        signal.signal(number, end)
    try:
        yield ours
    finally:
        restore()
