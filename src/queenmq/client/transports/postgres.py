"""Straight to PostgreSQL: an engine in this process, no server."""

import asyncio
from collections.abc import Sequence
from typing import TypeVar, cast

from queenmq.api.call import Call, check
from queenmq.api.diagnosis import Check
from queenmq.client.transports.postgres_traffic import TRAFFIC
from queenmq.client.unavailable import ClientClosed
from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.engine.availability import Presence
from queenmq.engine.postgres.embedded.local import local_dsn
from queenmq.service import SERVICES

__all__ = ["PostgresTransport", "local_dsn"]

A = TypeVar("A")

RETURN_SECONDS_MAX = 5.0  # for which a call waits for a PostgreSQL that is away: about as long as a restart takes


class PostgresTransport:
    """Does what calls ask for with an engine, which is opened by the first of them."""

    def __init__(self, dsn: str, settings: Settings) -> None:
        self.engine = Engine(dsn, settings)
        self.settings = settings
        if settings.retry_attempts_max > 0:
            self.engine.database.return_seconds_max = RETURN_SECONDS_MAX
        self.presence = Presence(self.engine.database, self.engine.waiting)
        self._opening: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._closed = False

    async def open(self) -> None:
        """Connect, and bring the schema up to date; once, however many calls wait for it."""
        if self._closed:
            raise ClientClosed("this client was closed")
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
        try:
            await asyncio.shield(self._opening)
        except Exception:
            self._opening = None  # so that the next call tries again
            raise

    async def _open(self) -> None:
        await self.engine.open()
        await self.presence.ask()
        self._watch = asyncio.create_task(self.presence.watch())

    async def call(self, call: Call[A]) -> A:
        """Do it."""
        if self._watch is None or self._closed:
            await self.open()
        kind = type(call)
        if kind in TRAFFIC:
            return cast("A", await TRAFFIC[kind](self, call))
        check(call)
        return cast("A", await SERVICES[kind](self, call))

    async def buffered(self) -> tuple[int, int, int]:
        """Nothing: without a server there is no spool."""
        return 0, 0, 0

    def own_checks(self) -> tuple[Sequence[Check], Sequence[Check]]:
        """Nothing: without a server there is nothing to examine but PostgreSQL."""
        return (), ()

    async def close(self) -> None:
        """Finish what was accepted, and disconnect."""
        self._closed = True
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait([self._watch])
            await self.engine.close()
