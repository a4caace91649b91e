"""Ways in which a database loses its newest commits, or keeps them all."""

import json

from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.model import Outgoing

LOSSES = ("promoted", "restored", "recovered")  # an asynchronous standby, an older copy of the files, a backup


class Going:
    """`keep` what is there, write more, and `lose` all that was written after `keep`."""

    def __init__(self, replication, kind):
        self._replication, self._kind = replication, kind
        self._primary = replication.primary
        self._standby = self._copy = self._point = None
        self.dsn = ""

    async def prepare(self):
        if self._kind in ("promoted", "synchronous"):
            self._standby = await self._replication.standby(synchronous=self._kind == "synchronous")
        elif self._kind == "recovered":
            self._copy = await self._replication.backup(self._primary)
        nodes = [self._primary] if self._standby is None else [self._primary, self._standby]
        self.dsn = self._replication.dsn("postgres", *nodes)
        return self

    async def keep(self):
        if self._kind == "promoted":
            await self._replication.caught_up(self._standby)
            await self._replication.detach(self._standby)
        elif self._kind == "restored":
            self._copy = await self._replication.cold_copy(self._primary)
        elif self._kind == "recovered":
            self._point = await self._replication.restore_point(self._primary)

    async def lose(self):
        if self._standby is not None:
            await self._primary.stop("kill")
            await self._standby.promote()
        elif self._kind == "restored":
            await self._primary.restore(self._copy)
        else:
            await self._primary.recover(self._copy, self._point)


async def push(dsn, *values, queue="orders", partition="ann"):
    """Push each value alone, and take a tick after each."""
    async with Engine(dsn, Settings.load({}, upkeep="false")) as engine:
        for value in values:
            await engine.push([Outgoing(queue, json.dumps(value).encode(), partition)])
            await engine.database.value("select queen.take_tick()")
