"""The queue as a library: everything a broker, an SDK or a test does with Queen goes through an Engine."""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from datetime import datetime
from time import monotonic
from types import TracebackType
from typing import Self
from uuid import UUID

from queenmq.config import Settings
from queenmq.engine.ack.acker import Acker
from queenmq.engine.ack.transaction import Transactor
from queenmq.engine.administration import Administration
from queenmq.engine.crypto import Cipher
from queenmq.engine.diagnosis import Diagnosis
from queenmq.engine.figures import Figures
from queenmq.engine.memory import History
from queenmq.engine.pop.popper import CALL_BYTES_MAX, Popped, Popper
from queenmq.engine.postgres.database import Database
from queenmq.engine.postgres.migrate import migrate
from queenmq.engine.push.pusher import Pusher
from queenmq.engine.push.spooled import Spooled
from queenmq.engine.reading import Reader
from queenmq.engine.room import Room
from queenmq.engine.segments import SegmentCache
from queenmq.engine.statistics import Statistics
from queenmq.engine.upkeep import Leader
from queenmq.engine.waiting import Bell, Waiting
from queenmq.errors import Closed, InvalidArgument, QueenError
from queenmq.model import Ack, Acked, Outgoing, PopRequest, Pushed

log = logging.getLogger(__name__)

WAIT_SECONDS_MAX = 3_600.0
REFRESH_SECONDS = 10.0  # how long a queue's changed settings may go unnoticed by a pusher
NOTHING = Popped((), ())


class Engine:
    """Push, pop, ack and wait on one PostgreSQL database.

    async with Engine("postgresql://…") as engine:
        await engine.push([Outgoing("orders", b'{"id": 7}')])
        popped = await engine.pop(PopRequest(queue="orders"), wait_seconds=30)
        await engine.ack([Ack.of(message) for message in popped.messages])
    """

    def __init__(self, dsn: str, settings: Settings | None = None) -> None:
        settings = settings or Settings()
        self.database = Database(dsn, settings)
        self._settings = settings
        cipher = Cipher(settings.key_ring())
        self.waiting = Waiting(self.database, settings)
        self.history = History(self.database, settings, cipher, self.waiting)
        self._bell = Bell(self.database, settings, self.waiting)
        self.admin = Administration(self.database, settings, cipher, self._bell)
        self.statistics = Statistics(self.database)
        self.figures = Figures(self.database)
        self.diagnosis = Diagnosis(self.database)
        self.pusher = Pusher(self.database, settings, cipher, self.history, self._bell)
        self.reader = Reader(self.database, settings, self.history)
        self.room = Room(CALL_BYTES_MAX)
        self.popper = Popper(self.database, settings, self.history, self._bell, self.room)
        self.acker = Acker(self.database, settings, self._bell)
        self._transactor = Transactor(self.database, self.history, self.pusher, self._bell)
        self.spooled = Spooled(self.database, self.history, self.pusher, self._bell)
        self.leader = Leader(self.database, settings, self._bell)
        self._background: list[asyncio.Task[None]] = []
        self._closing = False

    @property
    def segments(self) -> SegmentCache:
        """The segments that are in memory."""
        return self.history.memory.segments

    async def open(self) -> None:
        """Connect, bring the schema up to date, start the background work."""
        await self.database.open()
        try:
            await self._prepare()
        except BaseException:
            await self.database.close()
            raise
        work = [self.waiting.watch(), self._bell.listen(), self._refresh()]
        if self._settings.upkeep:
            work.append(self.leader.run())
        self._background = [asyncio.create_task(each) for each in work]

    async def _prepare(self) -> None:
        connection = await self.database.connect()
        try:
            await migrate(connection)
        finally:
            await connection.close()
        await self.history.open()

    async def close(self) -> None:
        """Finish what was accepted, send parked polls home, stop the background work, disconnect."""
        self._closing = True
        self.waiting.send_home()
        parts = (self._transactor, self.pusher.batcher, self.popper, self.acker.batcher, self.acker.renewals)
        for part in parts:
            await part.close()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self.database.close()
        self.history.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def push(self, messages: Sequence[Outgoing]) -> Sequence[Pushed]:
        """Append messages to their partitions, all or none; answers in their order."""
        self._check_open()
        return await self.pusher.push(messages)

    async def pop(self, request: PopRequest, wait_seconds: float = 0.0, count: int = 1) -> Popped:
        """Lease what is ready; with `wait_seconds`, wait that long for something to become ready.

        With `count`, as so many pops at once, each with a lease of its own: what is ready for some of them is answered.
        """
        self._check_open()
        if not 0 <= wait_seconds <= WAIT_SECONDS_MAX:
            raise InvalidArgument(f"a poll waits between 0 and {WAIT_SECONDS_MAX:.0f} seconds")
        self.popper.check(request, count)
        if not wait_seconds:
            return NOTHING if self.waiting.paused else await self.popper.pop(request, count)
        return await self._poll(request, monotonic() + wait_seconds, count)

    async def _poll(self, request: PopRequest, deadline: float, count: int) -> Popped:
        with self.waiting.poll(request.kind) as kind:
            look = await self.waiting.unpaused(deadline)
            if look:
                kind.take()
            while look:
                rung = kind.rung
                try:
                    popped = await self.popper.pop(request, count)
                except asyncio.CancelledError:
                    kind.ring(1)  # what this one was to look for
                    raise
                if popped.runs:
                    self.waiting.leased(kind)
                    return popped
                kind.in_vain(rung)
                look = await self.waiting.park(kind, deadline) and await self.waiting.unpaused(deadline)
        return NOTHING

    async def ack(self, acks: Sequence[Ack]) -> list[Acked]:
        """Say what became of leased messages; every ack gets its own answer, in order."""
        self._check_open()
        return await self.acker.ack(acks)

    async def complete(self, partition_id: int, group_id: int, lease_id: UUID, offsets: list[int]) -> list[Acked]:
        """The same for messages of one lease on one partition that are done, without a struct for each."""
        self._check_open()
        return await self.acker.complete((partition_id, group_id, lease_id), offsets)

    async def renew(self, lease_id: UUID, seconds: float | None = None) -> datetime:
        """Keep a lease for longer; answers when it now expires. Raises LeaseGone."""
        self._check_open()
        return await self.acker.renew(lease_id, seconds)

    async def renew_many(self, renewals: Sequence[tuple[UUID, float | None]]) -> list[datetime | None]:
        """Keep leases, each for so many seconds; answers when they now expire, None for those that are gone."""
        self._check_open()
        return await self.acker.renew_many(renewals)

    async def release(self, lease_id: UUID) -> bool:
        """Give a lease back untouched, as if the pop had not happened."""
        self._check_open()
        return await self.acker.release(lease_id)

    async def transaction(
        self,
        acks: Sequence[Ack] = (),
        messages: Sequence[Outgoing] = (),
        required_leases: Sequence[UUID] = (),
    ) -> Sequence[Pushed]:
        """Acknowledge and push together, all or nothing. Raises LeaseGone, NotInLease and what push raises."""
        self._check_open()
        if not acks and not messages:
            raise InvalidArgument("a transaction needs an ack or a message")
        return await self._transactor.run(acks, messages, required_leases)

    def _check_open(self) -> None:
        if self._closing:
            raise Closed()

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            with contextlib.suppress(QueenError):  # the next push will say it better
                await self.history.run(lambda memory: memory.partitions.refresh())
