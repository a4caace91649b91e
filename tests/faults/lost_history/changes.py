"""The ways in which PostgreSQL's history changes under running servers.

change = Kind(replication)
await change.prepare()      before the servers start
await change.keep()         what was written so far survives, where anything does
await change.happen()       what was written since is lost, where anything is
"""

import contextlib

import asyncpg

from queenmq.engine.postgres.migrate import migrate
from tests.fixtures.replication import Node, Replication

DATABASE = "queen"


class Change:
    """One way; the servers connect to `dsn`, and `node` is the PostgreSQL that they use."""

    loses = True  # what was written after `keep`
    keeps = True  # what was written before `keep`

    def __init__(self, replication: Replication) -> None:
        self.replication = replication
        self.node = replication.primary

    @property
    def dsn(self) -> str:
        return self.node.dsn(DATABASE)

    async def prepare(self) -> None:
        await self.node.execute(f"create database {DATABASE}")
        await self._migrate()

    async def keep(self) -> None:
        """Nothing has to be done for it, unless a kind says otherwise."""

    async def happen(self) -> None:
        raise NotImplementedError

    async def _migrate(self) -> None:
        connection = await asyncpg.connect(self.node.dsn(DATABASE))
        await migrate(connection)
        await connection.close()


class Promotion(Change):
    """A standby takes over; servers find it by themselves, as their DSN names both."""

    synchronous = False

    async def prepare(self) -> None:
        await super().prepare()
        self.standby: Node = await self.replication.standby(synchronous=self.synchronous)
        self.nodes = self.node, self.standby

    @property
    def dsn(self) -> str:
        return self.replication.dsn(DATABASE, *self.nodes)

    async def happen(self) -> None:
        await self.node.stop("kill")
        await self.standby.promote()
        self.node = self.standby


class AsynchronousPromotion(Promotion):
    """The standby has stopped to receive."""

    async def keep(self) -> None:
        await self.replication.caught_up(self.standby)
        await self.replication.detach(self.standby)


class SynchronousPromotion(Promotion):
    """The primary has waited for the standby at every commit: nothing is lost."""

    synchronous = True
    loses = False


class Restore(Change):
    """A base backup is restored under the same address, on the same timeline."""

    async def keep(self) -> None:
        self.copy = await self.replication.backup(self.node)

    async def happen(self) -> None:
        await self.node.restore(self.copy)


class ColdRestore(Restore):
    """The same with files that were copied while PostgreSQL was stopped."""

    async def keep(self) -> None:
        self.copy = await self.replication.cold_copy(self.node)


class PointInTimeRecovery(Change):
    """A base backup is restored and the archive is replayed up to a moment: a new timeline."""

    async def prepare(self) -> None:
        await super().prepare()
        self.copy = await self.replication.backup(self.node)

    async def keep(self) -> None:
        self.point = await self.replication.restore_point(self.node)

    async def happen(self) -> None:
        await self.node.recover(self.copy, self.point)


class RecreatedDatabase(Change):
    """The database is dropped and made again, empty."""

    keeps = False

    async def happen(self) -> None:
        await self.node.execute(f"drop database {DATABASE} with (force)")
        await self.node.execute(f"create database {DATABASE}")
        await self._migrate()


class RecreatedSchema(Change):
    """The schema is dropped and made again; connections stay."""

    keeps = False

    async def happen(self) -> None:
        dropped = False
        while not dropped:  # a deadlock with the servers' calls may end either side
            with contextlib.suppress(asyncpg.DeadlockDetectedError):
                await self.node.execute("drop schema queen cascade", DATABASE)
                dropped = True
        await self._migrate()


class Restart(Change):
    """PostgreSQL crashes and comes back: nothing is lost."""

    loses = False

    async def happen(self) -> None:
        await self.node.stop("kill")
        await self.node.start()


KINDS = [
    AsynchronousPromotion,
    SynchronousPromotion,
    Restore,
    ColdRestore,
    PointInTimeRecovery,
    RecreatedDatabase,
    RecreatedSchema,
    Restart,
]
