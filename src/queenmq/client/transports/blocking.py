"""Both transports for callers that wait: an event loop in a thread of its own, which all threads may use."""

import asyncio
import concurrent.futures
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from queenmq.api.call import Call
from queenmq.client.transports import SERVING, AsyncTransport, find_address, local_address, open_transport
from queenmq.client.unavailable import ClientClosed
from queenmq.config import Settings
from queenmq.errors import InvalidArgument

__all__ = ["BlockingTransport", "find_address", "local_address", "open_blocking_transport", "run_with"]

A = TypeVar("A")
T = TypeVar("T")

GRACE_SECONDS = 0.1  # for those who have been told already that there is no connection


class BlockingTransport:
    """A transport whose calls return when they are answered."""

    def __init__(self, transport: AsyncTransport) -> None:
        self.transport = transport
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="queen", daemon=True)
        self._thread.start()
        self._beginning = threading.Lock()
        self._end = weakref.finalize(self, _end, self._loop, self._thread, transport)  # at exit at the latest

    def open(self) -> None:
        """Connect; done by the first call otherwise."""
        self.run(self.transport.open())

    def call(self, call: Call[A]) -> A:
        """Ask, and wait for the answer."""
        return self.run(self.transport.call(call))

    def close(self) -> None:
        """Disconnect, wait for all who are in the middle of something (they get Closed), and end the thread."""
        if SERVING.get() is self.transport:
            raise InvalidArgument("a handler cannot close the client that calls it and waits for it: set a Stop")
        with self._beginning:
            ending = self._end.detach()
        if ending is not None:
            _, end, arguments, _ = ending
            end(*arguments)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have the event loop do something, and wait for it; interrupted, it is called off."""
        future = self._begin(work)
        try:
            return future.result()
        except BaseException as error:
            future.cancel()
            if isinstance(error, concurrent.futures.CancelledError) and not self._end.alive:
                raise ClientClosed("this client was closed meanwhile") from error
            raise

    def _begin(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        if self._thread.is_alive():
            with self._beginning:  # either this begins, and the end will see it, or the end does
                if self._end.alive:
                    return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        raise ClientClosed("this client was closed, or was made before this process was forked")


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
        asyncio.run_coroutine_threadsafe(_finish(transport), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _finish(transport: AsyncTransport) -> None:
    """Disconnect, and call off what is not over then: a loop that just stops leaves threads waiting for ever."""
    await transport.close()
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    if rest:
        await asyncio.wait(rest, timeout=GRACE_SECONDS)
    for each in rest:
        each.cancel()
    if rest:
        await asyncio.wait(rest)
