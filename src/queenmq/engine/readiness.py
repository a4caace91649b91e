"""Whether a push and a pop would work now: what stands in their way, and what to do about it.

Availability and the read-only state are as fresh as `Presence`. What takes a write, or more than a glance, is looked at
every few seconds in the background, so that asking for readiness costs next to nothing:

- room on the disk: a query that has to write a temporary file, which PostgreSQL keeps beside its tables;
- synchronous standbys: a commit that waits for them, as a push would;
- upkeep: the session that holds the leader's lock, and when that session last did something.
"""

import asyncio
import contextlib
from functools import partial
from time import monotonic

import asyncpg
from msgspec import Struct

from queenmq.engine.availability import Presence
from queenmq.engine.postgres.database import Database
from queenmq.engine.postgres.replication import NotReplicated, await_standbys
from queenmq.engine.postgres.sessions import Connection
from queenmq.engine.postgres.sqlstates import sentence
from queenmq.errors import QueenError
from queenmq.sql import Contents

POSTGRESQL = "postgresql"  # the part that is reported when PostgreSQL does not answer

LOOK_SECONDS = 5.0
ANSWER_SECONDS_MAX = 2.0  # to hear from PostgreSQL, and from its synchronous standbys
LEADERLESS_SECONDS_MAX = 15.0  # when a leader dies, another process takes over in less
LEADER_IDLE_SECONDS_MAX = 60.0  # a leader that works uses its session every ten seconds

# More than 64 kB of rows have to leave memory: this writes, and removes, a temporary file of 1 MB.
WRITE_TEMPORARY_FILE = """
set local work_mem = '64kB';
with large as materialized (select repeat('x', 8000) as text from generate_series(1, 128)) select count(text) from large
"""
LEADER_IDLE_SECONDS = """
select min(case when a.state = 'idle' then extract(epoch from clock_timestamp() - a.state_change) else 0 end)::float8
  from pg_locks l join pg_stat_activity a on a.pid = l.pid
 where l.locktype = 'advisory' and l.classid = 20814 and l.objid = 0 and l.objsubid = 2 and l.granted
   and l.database = (select oid from pg_database where datname = current_database())
"""


class Obstacle(Struct, frozen=True):
    """A part that would keep a push or a pop from working, what is wrong with it, and what to do."""

    part: str
    problem: str
    hint: str


class Readiness:
    """Looks at everything that a push and a pop need."""

    def __init__(self, database: Database, presence: Presence) -> None:
        self._database = database
        self._presence = presence
        self._steps_known = len(Contents.read().steps)
        self._disk: Obstacle | None = None
        self._standby: Obstacle | None = None
        self._led_at = monotonic()  # when upkeep was last known to work

    async def watch(self) -> None:
        """Look, for ever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Look once at what needs a write, or more than a glance."""
        if self._database.away or self._presence.read_only:
            self._led_at = monotonic()  # nobody can lead now; count from when this is over
            return
        with contextlib.suppress(QueenError):  # PostgreSQL is away: presence says so
            await self._look_at_leader()
            await self._look_at_disk()
            await self._look_at_standbys()

    async def obstacles(self) -> list[Obstacle]:
        """What would keep a push or a pop from working now; nothing if both would work."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                await self._presence.renew()
        except TimeoutError:
            return [_silent()]
        if self._database.away:
            return [_away(self._presence.away_because)]
        found = (self._writable(), self._schema(), self._deliveries(), self._disk, self._standby, self._upkeep())
        return [each for each in found if each is not None]

    def _writable(self) -> Obstacle | None:
        if self._presence.in_recovery:
            return Obstacle(
                "primary",
                "PostgreSQL is a standby that was not promoted: nothing can be written",
                "Promote it, or let QUEEN_DSN name the primary; if that names several hosts, add "
                "target_session_attrs=read-write.",
            )
        if self._presence.read_only:
            return Obstacle(
                "primary",
                "PostgreSQL is read-only: default_transaction_read_only is on",
                "Turn default_transaction_read_only off for the server, the database and the role.",
            )
        return None

    def _schema(self) -> Obstacle | None:
        known, step = self._steps_known, self._presence.breaking_step
        if step <= known:
            return None
        return Obstacle(
            "schema",
            f"a newer Queen took step {step} of the schema; this version knows {known} steps and cannot work with it",
            "Upgrade this installation of queenmq.",
        )

    def _deliveries(self) -> Obstacle | None:
        if not self._presence.pop_paused:
            return None
        return Obstacle(
            "maintenance",
            "deliveries are paused for all servers: a pop gets nothing",
            'Resume them: POST /api/v1/system/maintenance/pop {"enabled": false}.',
        )

    def _upkeep(self) -> Obstacle | None:
        seconds = monotonic() - self._led_at
        if seconds <= LEADERLESS_SECONDS_MAX:
            return None
        return Obstacle(
            "upkeep",
            f"no process has done the upkeep for {seconds:.0f} s: what applications push in SQL is not delivered, "
            "and retention does not run",
            "Start a server with QUEEN_UPKEEP=true, or end the process that holds the leader's lock and does nothing.",
        )

    async def _look_at_leader(self) -> None:
        idle_seconds = await self._database.value(LEADER_IDLE_SECONDS)
        if idle_seconds is not None and idle_seconds <= LEADER_IDLE_SECONDS_MAX:
            self._led_at = monotonic()

    async def _look_at_disk(self) -> None:
        full = await self._database.run(_disk_is_full)
        self._disk = _no_room(full) if full is not None else None

    async def _look_at_standbys(self) -> None:
        try:
            await self._database.run(partial(await_standbys, seconds=ANSWER_SECONDS_MAX))
            self._standby = None
        except NotReplicated as error:
            self._standby = Obstacle("synchronous standby", error.message, error.hint or "")


async def _disk_is_full(connection: Connection) -> str | None:
    """Why PostgreSQL cannot write a file; None if it can."""
    try:
        await connection.execute(WRITE_TEMPORARY_FILE)
    except asyncpg.DiskFullError as error:
        return sentence(error)
    return None


def _no_room(message: str) -> Obstacle:
    return Obstacle(
        "disk",
        f"the disk of PostgreSQL is full: {message}",
        "Make room on it, or shorten the retention of the largest queues.",
    )


def _silent() -> Obstacle:
    return Obstacle(
        POSTGRESQL,
        f"PostgreSQL did not answer within {ANSWER_SECONDS_MAX:.0f} seconds",
        "Look at the machine of PostgreSQL and at the network to it.",
    )


def _away(cause: str | None) -> Obstacle:
    return Obstacle(
        POSTGRESQL,
        f"PostgreSQL is out of reach: {cause}",
        "Check that PostgreSQL runs and that QUEEN_DSN points to it.",
    )
