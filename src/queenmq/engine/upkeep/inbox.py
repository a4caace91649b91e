"""The sequencer: moves messages that applications pushed in their own transactions into their partitions.

An application's transaction must not pay for our attention, and NOTIFY is not free: it takes a global lock at
commit. So the sequencer holds an advisory lock exclusively while it sleeps, and only then. queen.push tries to
share that lock until its transaction ends: when it can, the sequencer is awake and cannot fall asleep before the
transaction has ended; when it cannot, it sends a notification. No wake-up is lost, and a busy inbox sends none.
"""

import asyncio
import logging
from typing import Any

from queenmq.config import Settings
from queenmq.engine.postgres.database import Database
from queenmq.engine.postgres.sessions import Connection
from queenmq.engine.upkeep.service import Service
from queenmq.engine.waiting import Bell

log = logging.getLogger(__name__)

CHANNEL = "queen_inbox"
SLEEP_SECONDS_MAX = 10.0
ANSWER_SECONDS_MAX = 5.0
LOOK_SECONDS_MIN = 0.005
LOOK_SECONDS_MAX = 0.1

SEQUENCE = "select * from queen.sequence_inbox($1)"
TRY_SLEEP = "select pg_try_advisory_lock(20814, 1)"
WAKE_UP = "select pg_advisory_unlock(20814, 1)"


class Inbox(Service):
    """Rounds of queen.sequence_inbox, and the sleep in between, on the leader's connection."""

    name = "inbox"

    def __init__(self, database: Database, settings: Settings, bell: Bell, connection: Connection) -> None:
        super().__init__(database, LOOK_SECONDS_MIN)
        self._limit = settings.upkeep_batch
        self._bell = bell
        self._connection = connection
        self._notified = asyncio.Event()

    async def run(self) -> None:
        """Listen, then rounds for ever."""
        await self._connection.add_listener(CHANNEL, self._heard)
        await super().run()

    async def run_once(self) -> bool:
        """Move up to a batch; ring for the queues where something arrived."""
        return bool((await self._sequence())["more"])

    async def _sequence(self) -> Any:
        row = await self.database.row(SEQUENCE, self._limit)
        for queue in row["queues"]:
            self._bell.ring(queue, len(row["woken"]) or 1)
        if row["set_aside"]:
            log.warning(
                "messages of the inbox set aside", extra={"messages": row["set_aside"], "see": "queen.set_aside"}
            )
        if row["moved"]:
            self.pause_seconds = LOOK_SECONDS_MIN
        return row

    async def pause(self) -> None:
        """Sleep until notified if nobody is about to commit; otherwise look again soon."""
        self.database.calls += 1
        if not await self._connection.fetchval(TRY_SLEEP, timeout=ANSWER_SECONDS_MAX):
            await asyncio.sleep(self.pause_seconds)
            self.pause_seconds = min(self.pause_seconds * 2, LOOK_SECONDS_MAX)
            return
        try:
            # From here on every push notifies; what was committed before the lock is looked for once more.
            if not (await self._sequence())["moved"]:
                await self._sleep()
        finally:
            self._notified.clear()
            self.pause_seconds = LOOK_SECONDS_MIN
            self.database.calls += 1
            await self._connection.fetchval(WAKE_UP, timeout=ANSWER_SECONDS_MAX)

    async def _sleep(self) -> None:
        try:
            async with asyncio.timeout(SLEEP_SECONDS_MAX):
                await self._notified.wait()
        except TimeoutError:
            pass

    def _heard(self, _connection: Connection, _sender: int, _channel: str, _payload: Any) -> None:
        self._notified.set()
