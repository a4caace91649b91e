"""Who does the upkeep: the process that holds the advisory lock, as long as its connection lives."""

import asyncio
import contextlib
import logging

import asyncpg

from queenmq.config import Settings
from queenmq.engine.postgres.database import LOST, Database
from queenmq.engine.postgres.repeated_warning import RepeatedWarning
from queenmq.engine.postgres.sessions import Connection
from queenmq.engine.upkeep.inbox import Inbox
from queenmq.engine.upkeep.service import Service
from queenmq.engine.upkeep.services import Calls, IdlePartitions, NewGroups, Retention, Stats, Ticks
from queenmq.engine.waiting import Bell
from queenmq.errors import QueenError

log = logging.getLogger(__name__)

CANDIDATE_SECONDS = 5.0  # how often the others ask whether the lock has become free

TRY_LEAD = "select pg_try_advisory_lock(20814, 0)"
REPAIR = "select queen.repair_slots()"


class Leader:
    """Waits to become the leader and then runs every service, until the connection is lost."""

    def __init__(self, database: Database, settings: Settings, bell: Bell) -> None:
        self.leading = asyncio.Event()
        self._database = database
        self._settings = settings
        self._bell = bell
        self._interrupted = RepeatedWarning(log, "upkeep is interrupted")

    async def run(self) -> None:
        """Candidate or leader, for ever."""
        while True:
            try:
                await self._stand()
            except (*LOST, asyncpg.PostgresError, QueenError) as error:
                self._interrupted.write(error)
            await asyncio.sleep(CANDIDATE_SECONDS)

    async def _stand(self) -> None:
        connection = await self._database.connect()
        try:
            while not await connection.fetchval(TRY_LEAD):
                self._database.calls += 1
                await asyncio.sleep(CANDIDATE_SECONDS)
            log.info("this process does the upkeep")
            self.leading.set()
            await self._database.value(REPAIR)
            await self._lead(connection)
        finally:
            self.leading.clear()
            with contextlib.suppress(*LOST):
                await connection.close(timeout=1)

    async def _lead(self, connection: Connection) -> None:
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        connection.add_termination_listener(lambda _: lost.cancel())
        tasks = [asyncio.create_task(service.run(), name=service.name) for service in self._services(connection)]
        try:
            await asyncio.wait([lost, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()  # a service that ended has failed: say how
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _services(self, connection: Connection) -> list[Service]:
        database, settings = self._database, self._settings
        return [
            Inbox(database, settings, self._bell, connection),
            Ticks(database, settings),
            NewGroups(database),
            Retention(database, settings),
            IdlePartitions(database, settings),
            Stats(database, settings),
            Calls(database, settings),
        ]
