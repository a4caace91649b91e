"""Whether PostgreSQL is there, and whether this installation is in maintenance: asked all the time.

A connection of its own asks every half second. As soon as it cannot, or gets no answer for a while, all calls are
told (`Database.lose`): those in flight end, others are refused at once instead of each finding out for itself. The
same question brings the maintenance switches, which all servers of a database share; while PostgreSQL is away, what
they were last counts.
"""

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

import asyncpg

from queenmq.engine.postgres.database import LOST, Database
from queenmq.engine.postgres.sqlstates import sentence
from queenmq.engine.waiting import Waiting

if TYPE_CHECKING:
    from uuid import UUID

    from queenmq.engine.postgres.sessions import Connection

log = logging.getLogger(__name__)

ASK_SECONDS = 0.5  # between two questions: how long a switch may go unnoticed
AWAY_SECONDS = 0.2  # the same while PostgreSQL is away
ANSWER_SECONDS_MAX = 5.0  # without an answer for so long it counts as away

STATE = """
select s.id, s.push_paused, s.pop_paused, pg_is_in_recovery() as in_recovery,
       current_setting('transaction_read_only')::boolean as read_only,
       (select max(version) from queen.schema_version where breaking) as breaking_step
  from queen.system_state s
"""
SET_PUSH = "update queen.system_state set push_paused = $1"
SET_POP = "update queen.system_state set pop_paused = $1"


class Presence:
    """What is known of PostgreSQL and of the maintenance switches."""

    def __init__(self, database: Database, waiting: Waiting) -> None:
        self.installation: UUID | None = None  # which database this is
        self.push_paused = False
        self.in_recovery = False  # a standby that was not promoted
        self.read_only = False
        self.breaking_step = 0  # newest step of the schema that earlier versions of Queen cannot work with
        self.away_because: str | None = None  # what kept us from asking, while PostgreSQL is away
        self._database = database
        self._waiting = waiting
        self._connection: Connection = None
        self._sooner = asyncio.Event()
        self._asked = asyncio.Event()  # set when the question that is under way, or the next one, has ended
        self._lock = asyncio.Lock()  # an old answer must not undo a switch

    @property
    def pop_paused(self) -> bool:
        """Whether deliveries are paused."""
        return self._waiting.paused

    async def watch(self) -> None:
        """Ask, for ever."""
        try:
            while True:
                await self.ask()
                self._asked.set()
                self._asked = asyncio.Event()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(AWAY_SECONDS if self._database.away else ASK_SECONDS):
                        await self._sooner.wait()
                self._sooner.clear()
        finally:
            self._disconnect()

    def doubt(self) -> None:
        """Somebody could not reach PostgreSQL: ask now."""
        if not self._database.away:
            self._sooner.set()

    async def renew(self) -> None:
        """Have the watch ask now, and wait until it has, whatever came of it."""
        asked = self._asked
        self._sooner.set()
        await asked.wait()

    async def ask(self) -> None:
        """Ask once; a connection that broke is replaced before that says anything about PostgreSQL."""
        async with self._lock:
            try:
                await self._ask_again()
            except asyncpg.TooManyConnectionsError:  # it is there, only not for us
                self._disconnect()
            except (*LOST, asyncpg.PostgresError) as error:
                self._disconnect()
                if not self._database.away:
                    log.warning("PostgreSQL is away", extra={"cause": repr(error)})
                self.away_because = sentence(error) or repr(error)
                self._database.lose()

    async def set_push_paused(self, *, paused: bool) -> None:
        """Have all servers keep pushes in their spools, or store them again."""
        async with self._lock:
            await self._database.rows(SET_PUSH, paused)
            self.push_paused = paused

    async def set_pop_paused(self, *, paused: bool) -> None:
        """Have all servers deliver nothing, or deliver again."""
        async with self._lock:
            await self._database.rows(SET_POP, paused)
            self._switch_pop(paused=paused)

    async def _ask_again(self) -> None:
        try:
            await self._ask()
        except TimeoutError:
            raise
        except LOST:
            self._disconnect()
            await self._ask()

    async def _ask(self) -> None:
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            if self._connection is None:
                self._connection = await self._database.connect()
            row = await self._connection.fetchrow(STATE)
        if self._database.away:
            log.warning("PostgreSQL is back")
            self._database.regain()
        self.in_recovery, self.read_only = row["in_recovery"], row["read_only"]
        if self.in_recovery or self.read_only:
            await self._database.leave()
        self.breaking_step = row["breaking_step"] or 0
        self.installation = row["id"]
        self.push_paused = row["push_paused"]
        self._switch_pop(paused=row["pop_paused"])

    def _switch_pop(self, *, paused: bool) -> None:
        if paused:
            self._waiting.pause()
        else:
            self._waiting.resume()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
