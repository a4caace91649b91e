"""Memory for large answers: pops and reads wait while too much of what was read is still in memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

FETCHES_MAX = 2  # at a time,
LISTS_MAX = 2  # and so many lists: they can take long, and must not hold up the others


class Room:
    """Counts what waits to be sent to clients; `open` waits until that is less than the limit."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used = 0
        self.fetches = asyncio.Semaphore(FETCHES_MAX)
        self.lists = asyncio.Semaphore(LISTS_MAX)
        self._free = asyncio.Event()
        self._free.set()

    @property
    def is_short(self) -> bool:
        """Whether pops have to wait."""
        return self.used > self.bytes_max

    def take(self, size: int) -> None:
        """An answer is made, and on its way."""
        self.used += size
        if self.is_short:
            self._free.clear()

    def give_back(self, size: int) -> None:
        """An answer, or a part of it, is sent or given up."""
        self.used -= size
        if not self.is_short:
            self._free.set()

    async def open(self) -> None:
        """Wait until there is room for further answers."""
        await self._free.wait()

    @asynccontextmanager
    async def reading(self, turns: asyncio.Semaphore) -> AsyncIterator[None]:
        """Read messages, and make an answer of them, when there is room for it; `turns`: `fetches` or `lists`."""
        async with turns:
            await self.open()
            yield
