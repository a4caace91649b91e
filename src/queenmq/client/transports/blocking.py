"""Both transports for callers that wait: an event loop in a thread of its own, which all threads may use."""

import asyncio
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from queenmq.client.calls import Call
from queenmq.client.transports import AsyncTransport, open_transport
from queenmq.config import Settings
from queenmq.errors import Closed

A = TypeVar("A")
T = TypeVar("T")


class BlockingTransport:
    """A transport whose calls return when they are answered."""

    def __init__(self, transport: AsyncTransport) -> None:
        self.transport = transport
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="queen", daemon=True)
        self._thread.start()
        self._end = weakref.finalize(self, _end, self._loop, self._thread, transport)  # at exit at the latest

    def open(self) -> None:
        """Connect; done by the first call otherwise."""
        self.run(self.transport.open())

    def call(self, call: Call[A]) -> A:
        """Ask, and wait for the answer."""
        return self.run(self.transport.call(call))

    def close(self) -> None:
        """Finish what was begun, disconnect, and end the thread."""
        self._end()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have the event loop do something, and wait for it; interrupted, it is called off."""
        if not self._end.alive or not self._thread.is_alive():
            work.close()
            raise Closed("this client was closed, or was made before this process was forked")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


def open_blocking_transport(address: str | None, token: str | None, settings: Settings | None) -> BlockingTransport:
    """The transport for an address, see open_transport."""
    return BlockingTransport(open_transport(address, token, settings))


def run_with(transport: BlockingTransport, work: Callable[[AsyncTransport], Coroutine[Any, Any, T]]) -> T:
    """Do work that makes many calls on the event loop, and wait for it."""
    return transport.run(work(transport.transport))


def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread, transport: AsyncTransport) -> None:
    if not thread.is_alive():  # it stayed behind in the process that we were forked from
        return
    try:
        asyncio.run_coroutine_threadsafe(transport.close(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
