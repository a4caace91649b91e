"""How full queues are and how far groups are behind, for those who ask often: looked up once in a while."""

import asyncio
import contextlib
from collections.abc import Sequence
from time import monotonic

from msgspec import Struct

from queenmq.engine.database import Database
from queenmq.errors import QueenError

FRESH_SECONDS = 10.0  # how old figures may be
LOOK_SECONDS_MAX = 10.0
LINES_MAX = 1_000  # queues, and groups: the fullest, and those furthest behind

DEPTHS = "select queue, stored, depth from queen.depth order by depth desc, queue limit $1"
LAGS = "select queue, group_name, messages, seconds from queen.lag order by messages desc, queue, group_name limit $1"


class QueueDepth(Struct, frozen=True):
    """Messages that a queue holds, and those of them that some group has not finished."""

    queue: str
    stored: int
    depth: int


class GroupLag(Struct, frozen=True):
    """What a group has yet to finish in a queue: messages, and the age of the oldest in seconds."""

    queue: str
    group: str
    messages: int
    seconds: float


class Figures:
    """The latest figures; while PostgreSQL is away, those from before."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._read_at: float | None = None
        self._reading = asyncio.Lock()
        self._depths: Sequence[QueueDepth] = ()
        self._lags: Sequence[GroupLag] = ()

    async def read(self) -> tuple[Sequence[QueueDepth], Sequence[GroupLag]]:
        """Depths by queue, and lags by queue and group."""
        async with self._reading:  # many may ask: one looks
            if self._read_at is None or monotonic() - self._read_at >= FRESH_SECONDS:
                with contextlib.suppress(QueenError, TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS_MAX):
                        self._depths = [QueueDepth(*row) for row in await self._database.rows(DEPTHS, LINES_MAX)]
                        self._lags = [GroupLag(*row) for row in await self._database.rows(LAGS, LINES_MAX)]
                self._read_at = monotonic()
            return self._depths, self._lags
