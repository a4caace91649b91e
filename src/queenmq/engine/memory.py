"""What an engine remembers: all of it in one object, which belongs to one incarnation of the database.

PostgreSQL can lose commits: a standby is promoted that had not received all, a backup is restored, a database is
dropped and made again. Then offsets and partition ids are issued a second time for other messages, and whatever was
remembered of the first ones is wrong. So every call that relies on memory, or fills it, says from which incarnation
the memory comes (`queen.incarnation`). PostgreSQL refuses the call if it is another one, before anything is read or
written. The engine then drops the whole memory and repeats the call with an empty one. A call in flight keeps the
memory that it started with, so what an older incarnation answers never reaches the new memory.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from queenmq.config import Settings
from queenmq.engine.crypto import Cipher
from queenmq.engine.dedup.claims import Dedup
from queenmq.engine.partitions import Partitions
from queenmq.engine.pop.ready import Ready
from queenmq.engine.postgres.database import Database, pause_seconds
from queenmq.engine.segments import SegmentCache, SegmentReader
from queenmq.engine.waiting import Waiting
from queenmq.errors import HistoryChanged

log = logging.getLogger(__name__)

T = TypeVar("T")

INCARNATION = "select queen.incarnation()"
UNKNOWN = ""  # no incarnation has this token
ATTEMPTS_MAX = 10  # in a row that meet another incarnation each time


class Memory:
    """What an engine has learned from one incarnation of its database."""

    def __init__(self, database: Database, settings: Settings, cipher: Cipher, incarnation: str) -> None:
        self.incarnation = incarnation
        self.partitions = Partitions(database, incarnation)
        self.segments = SegmentCache(settings.segment_cache_bytes_max)
        self.stored = SegmentReader(database, cipher, self.segments, incarnation)
        self.dedup = Dedup(database, settings.dedup_bytes_max, incarnation)
        self.ready = Ready()

    def close(self) -> None:
        """Give back what is kept outside of memory."""
        self.dedup.close()


class History:
    """The memory that is in use now."""

    def __init__(self, database: Database, settings: Settings, cipher: Cipher, waiting: Waiting) -> None:
        self._database = database
        self._settings = settings
        self._cipher = cipher
        self._waiting = waiting
        self._renewing = asyncio.Lock()
        self.memory = self._empty(UNKNOWN)

    async def open(self) -> None:
        """Learn which incarnation this is."""
        self.memory = self._empty(await self._database.value(INCARNATION))

    def close(self) -> None:
        """Give back what is kept outside of memory."""
        self.memory.close()

    async def run(self, work: Callable[[Memory], Awaitable[T]]) -> T:
        """Do work that relies on memory. If its calls meet another incarnation, do it again with an empty memory."""
        attempt = 0
        while True:
            memory = self.memory
            try:
                return await work(memory)
            except HistoryChanged:
                attempt += 1
                if attempt == ATTEMPTS_MAX:
                    raise
                if attempt > 1:  # connections lead to different servers
                    await asyncio.sleep(pause_seconds(attempt))
                await self._renew(memory)

    async def _renew(self, stale: Memory) -> None:
        """Begin with an empty memory, unless another call has done so; parked polls look at the new history."""
        async with self._renewing:
            if self.memory is not stale:
                return
            incarnation = await self._database.value(INCARNATION)
            log.warning("PostgreSQL was restarted, promoted or restored: the engine forgets what it has read from it")
            self.memory = self._empty(incarnation)
            self.memory.segments.count_from(stale.segments)
            stale.close()
        self._waiting.ring_all()

    def _empty(self, incarnation: str) -> Memory:
        return Memory(self._database, self._settings, self._cipher, incarnation)
