"""How full queues are and how far groups are behind, for those who ask often: looked up once in a while."""

import asyncio
import contextlib
from collections.abc import Sequence
from time import monotonic
from typing import NamedTuple

from msgspec import Struct

from queenmq.engine.database import Database
from queenmq.errors import QueenError

FRESH_SECONDS = 10.0  # how old figures may be
LOOK_SECONDS_MAX = 10.0
LINES_MAX = 1_000  # queues, and groups: the fullest, and those furthest behind

DEPTHS = "select queue, stored, depth from queen.depth order by depth desc, queue limit $1"
DEAD_LETTERS = """
select q.name, count(*) from queen.dead_letters d join queen.queues q on q.id = d.queue_id
 group by q.name order by count(*) desc, q.name limit $1
"""
LEASES = "select count(*) from queen.partition_consumers where lease_id is not null and ready_at > clock_timestamp()"
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


class DeadLetters(Struct, frozen=True):
    """How many dead letters a queue has; queues without any are left out."""

    queue: str
    stored: int


class Standing(NamedTuple):
    """How queues and groups stand, and how many leases are active in all."""

    depths: Sequence[QueueDepth] = ()
    lags: Sequence[GroupLag] = ()
    dead_letters: Sequence[DeadLetters] = ()
    active_leases: int = 0


class Figures:
    """The latest figures; while PostgreSQL is away, those from before."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._read_at: float | None = None
        self._reading = asyncio.Lock()
        self._standing = Standing()

    async def read(self) -> Standing:
        """Depths and dead letters by queue, lags by queue and group, and leases."""
        async with self._reading:  # many may ask: one looks
            if self._read_at is None or monotonic() - self._read_at >= FRESH_SECONDS:
                with contextlib.suppress(QueenError, TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS_MAX):
                        self._standing = await self._look()
                self._read_at = monotonic()
            return self._standing

    async def _look(self) -> Standing:
        rows = self._database.rows
        return Standing(
            [QueueDepth(*row) for row in await rows(DEPTHS, LINES_MAX)],
            [GroupLag(*row) for row in await rows(LAGS, LINES_MAX)],
            [DeadLetters(*row) for row in await rows(DEAD_LETTERS, LINES_MAX)],
            await self._database.value(LEASES),
        )
