"""The shape of all background work: a name, a pause, and one round."""

import asyncio
import logging
from typing import ClassVar

from queenmq.engine.postgres.database import Database
from queenmq.engine.postgres.repeated_warning import RepeatedWarning
from queenmq.errors import QueenError

log = logging.getLogger(__name__)


class Service:
    """Does its round, pauses, and does it again; a round that leaves work behind is followed at once."""

    name: ClassVar[str]

    def __init__(self, database: Database, pause_seconds: float) -> None:
        self.database = database
        self.pause_seconds = pause_seconds
        self._failed = RepeatedWarning(log, f"a round of upkeep failed: {self.name}")

    async def run_once(self) -> bool:
        """One bounded round; True when there is more to do."""
        raise NotImplementedError

    async def pause(self) -> None:
        """What happens between rounds."""
        await asyncio.sleep(self.pause_seconds)

    async def run(self) -> None:
        """Rounds, for ever. A failed round is logged; the next one comes all the same."""
        while True:
            try:
                if await self.run_once():
                    continue
            except QueenError as error:
                self._failed.write(error)
            await self.pause()
