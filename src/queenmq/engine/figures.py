"""How full queues are and how far groups are behind, for those who ask often: looked up once in a while."""

import asyncio
import contextlib
from collections.abc import Sequence
from time import monotonic
from typing import Any, NamedTuple

from msgspec import Struct

from queenmq.api.diagnosis import Unread
from queenmq.engine.postgres.database import Database
from queenmq.engine.postgres.failover import STANDBYS
from queenmq.errors import QueenError

FRESH_SECONDS = 10.0  # how old figures may be
LEDGER_FRESH_SECONDS = 60.0  # it reads the cursors of all groups in all partitions
LOOK_SECONDS_MAX = 10.0
LINES_MAX = 1_000  # queues, and groups: the fullest, and those furthest behind

DEPTHS = """
select queue, stored, depth, nullif(max_queue_size, 0) from queen.depth order by depth desc, queue limit $1
"""
UNREAD = "select * from queen.unread order by messages desc, queue limit $1"
LEDGER = """
select queue, sum(abs(pushed - skipped - completed - dead_lettered - expired - leased - pending))::bigint
  from queen.ledger group by queue order by 2 desc, queue limit $1
"""
RUNNING_SINCE = "select extract(epoch from started_at)::float8 from queen.incarnations"
DEAD_LETTERS = """
select q.name, count(*) from queen.dead_letters d join queen.queues q on q.id = d.queue_id
 group by q.name order by count(*) desc, q.name limit $1
"""
LEASES = "select count(*) from queen.partition_consumers where lease_id is not null and ready_at > clock_timestamp()"
LAGS = "select queue, group_name, messages, seconds from queen.lag order by messages desc, queue, group_name limit $1"


class QueueDepth(Struct, frozen=True):
    """Messages that a queue holds, those of them that some group has not finished, and how many of these it takes."""

    queue: str
    stored: int
    depth: int
    limit: int | None


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


class Imbalance(Struct, frozen=True):
    """Messages of a queue that its ledger does not account for, or counts twice: 0 if all adds up."""

    queue: str
    messages: int


class StandbyLag(Struct, frozen=True, rename="camel"):
    """What a standby of PostgreSQL does not have yet, and since when it has said nothing."""

    name: str
    missing_bytes: int
    silent_seconds: float


class Standing(NamedTuple):
    """How queues and groups stand, how many leases are active in all, and how PostgreSQL is doing."""

    depths: Sequence[QueueDepth] = ()
    lags: Sequence[GroupLag] = ()
    dead_letters: Sequence[DeadLetters] = ()
    active_leases: int = 0
    unread: Sequence[Unread] = ()
    ledger: Sequence[Imbalance] = ()
    standbys: Sequence[StandbyLag] = ()
    running_since: float | None = None  # of PostgreSQL: each run of it has another one


class Figures:
    """The latest figures; while PostgreSQL is away, those from before."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._read_at: float | None = None
        self._ledger_read_at: float | None = None
        self._reading = asyncio.Lock()
        self._standing = Standing()

    async def read(self) -> Standing:
        """Depths, dead letters, unread messages and ledgers by queue, lags by queue and group, leases, standbys."""
        async with self._reading:  # many may ask: one looks
            if self._read_at is None or monotonic() - self._read_at >= FRESH_SECONDS:
                with contextlib.suppress(QueenError, TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS_MAX):
                        self._standing = await self._look()
                        await self._look_at_ledger()
                self._read_at = monotonic()
            return self._standing

    async def _look(self) -> Standing:
        rows = self._database.rows
        return Standing(
            [QueueDepth(*row) for row in await rows(DEPTHS, LINES_MAX)],
            [GroupLag(*row) for row in await rows(LAGS, LINES_MAX)],
            [DeadLetters(*row) for row in await rows(DEAD_LETTERS, LINES_MAX)],
            await self._database.value(LEASES),
            [Unread(**row) for row in await rows(UNREAD, LINES_MAX)],
            self._standing.ledger,
            _worst(await rows(STANDBYS)),
            await self._database.value(RUNNING_SINCE),
        )

    async def _look_at_ledger(self) -> None:
        """Less often; if it takes too long, those from before stay, but all other figures are new."""
        if self._ledger_read_at is None or monotonic() - self._ledger_read_at >= LEDGER_FRESH_SECONDS:
            self._ledger_read_at = monotonic()
            lines = await self._database.rows(LEDGER, LINES_MAX)
            self._standing = self._standing._replace(ledger=[Imbalance(*line) for line in lines])


def _worst(standbys: Sequence[Any]) -> list[StandbyLag]:
    """One line for each name: several standbys may have the same one."""
    found: dict[str, StandbyLag] = {}
    for row in standbys:
        known = found.get(row["name"], StandbyLag(row["name"], 0, 0.0))
        missing, silent = (
            max(row["missing_bytes"], known.missing_bytes),
            max(row["silent_seconds"], known.silent_seconds),
        )
        found[row["name"]] = StandbyLag(row["name"], missing, silent)
    return list(found.values())[:LINES_MAX]
