"""Long polls: parked here, woken when there may be something for them.

What wakes: a push, or a lease that ended with more to read, in this process at once (`Bell.ring`) and in others
through NOTIFY; the end of a lease, a delay or a retry pause, by a timer; and, should all of that fail, a poll
with growing pauses that asks for all parked polls in one call. One ring wakes as many polls as there are
partitions to take, not the herd; and none where others look anyway, as consumers do that have just acknowledged.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Iterator
from time import monotonic
from typing import Any

import asyncpg
import msgspec

from queenmq.config import Settings
from queenmq.engine.database import LOST, Database
from queenmq.engine.repeated_warning import RepeatedWarning
from queenmq.engine.sessions import Connection
from queenmq.errors import Busy, DatabaseUnavailable, QueenError
from queenmq.model import PopKind

log = logging.getLogger(__name__)

CHANNEL = "queen_wake"
NOTIFICATION_BYTES_MAX = 7_900  # PostgreSQL allows 8,000
RECONNECT_SECONDS = 1.0
SEND_SECONDS_MAX = 10.0
PAUSES = 4  # after a notification, for the time that it took
PAUSE_SECONDS_MAX = 0.02
FALLBACK_POLLS_MAX = 16  # woken at once by the fallback poll, which cannot tell how much there is
EVERY_QUEUE = "*"

PENDING = "select * from queen.has_pending_messages($1, $2, $3, $4, $5)"


class Kind:
    """The polls of one kind: how many there are, what it rang for, and those that are parked.

    It rings for so many partitions, and a poll that looks takes one of them upon itself. Those that are left when
    everybody had a turn are for parked polls.
    """

    __slots__ = ("parked", "polls", "rung", "taken")

    def __init__(self) -> None:
        self.polls = 0
        self.rung = 0  # for so many partitions, ever
        self.taken = 0  # of them, by polls that look, or looked in vain
        self.parked: deque[asyncio.Future[None]] = deque()

    def ring(self, count: int) -> None:
        """So many partitions may be ready."""
        self.rung += count
        self.wake_soon()

    def take(self) -> bool:
        """Look for one of them, if there is one."""
        if self.taken == self.rung:
            return False
        self.taken += 1
        return True

    def give_back(self) -> None:
        """Somebody else has to look."""
        self.taken -= 1
        self.wake_soon()

    def in_vain(self, rung: int) -> None:
        """A poll found nothing that began when it had rung for so many."""
        self.taken = max(self.taken, rung)

    def wake_soon(self) -> None:
        """Not at once: those who are being answered in this turn of the event loop look by themselves in the next."""
        if self.parked:
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._wake)

    def _wake(self) -> None:
        """The polls that have waited longest."""
        while self.parked and self.taken < self.rung:
            future = self.parked.popleft()
            if not future.done():
                future.set_result(None)
                self.taken += 1

    def send_home(self) -> None:
        """Wake all of them."""
        for future in self.parked:
            if not future.done():
                future.set_result(None)


class Waiting:
    """All long polls of this process."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.parked = 0
        self._closed = False
        self.checks_hit = 0  # fallback polls that found something, and that did not
        self.checks_missed = 0
        self._database = database
        self._settings = settings
        self._kinds: dict[PopKind, Kind] = {}
        self._new_kind = asyncio.Event()
        self._unpaused = asyncio.Event()
        self._unpaused.set()
        self._failed = RepeatedWarning(log, "the fallback poll failed")

    @property
    def paused(self) -> bool:
        """Whether nothing is to be delivered for the time being."""
        return not self._unpaused.is_set()

    def pause(self) -> None:
        """From now on polls wait, whatever there is for them."""
        if not self._closed:
            self._unpaused.clear()

    def resume(self) -> None:
        """Polls look again."""
        self._unpaused.set()

    async def unpaused(self, deadline: float) -> bool:
        """Wait while deliveries are paused; False when the deadline has come, or everybody was sent home."""
        if not self.paused:
            return True
        try:
            with self._parked():
                async with asyncio.timeout(deadline - monotonic()):
                    await self._unpaused.wait()
            return not self._closed
        except TimeoutError:
            return False

    @contextlib.contextmanager
    def _parked(self) -> Iterator[None]:
        if self.parked >= self._settings.waiters_max:
            raise Busy(f"{self.parked} polls are waiting already")
        self.parked += 1
        try:
            yield
        finally:
            self.parked -= 1

    @contextlib.contextmanager
    def poll(self, kind: PopKind) -> Iterator[Kind]:
        """A poll lasts from before its first look to its answer, so that no ring in between is missed."""
        entry = self._kinds.get(kind)
        if entry is None:
            entry = self._kinds[kind] = Kind()
        entry.polls += 1
        try:
            yield entry
        finally:
            entry.polls -= 1
            if entry.polls == 0:
                del self._kinds[kind]

    async def park(self, entry: Kind, deadline: float) -> bool:
        """Wait until there may be something to look for; False when the deadline has come, or all were sent home."""
        seconds = deadline - monotonic()
        if seconds <= 0 or self._closed:
            return False
        if entry.take():
            return True
        with self._parked():
            return await self._wait(entry, seconds)

    async def _wait(self, entry: Kind, seconds: float) -> bool:
        if not entry.parked:
            self._new_kind.set()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry.parked.append(future)
        try:
            async with asyncio.timeout(seconds):
                await future
            return not self._closed
        except TimeoutError:
            return future.done() and not future.cancelled()  # woken in the last moment: one more look
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                entry.give_back()  # woken, but going away
            raise
        finally:
            with contextlib.suppress(ValueError):
                entry.parked.remove(future)

    def ring(self, queue: str, count: int = 1) -> None:
        """Something may be ready in a queue; wake up to `count` polls of every kind that could take it."""
        for kind, entry in self._kinds.items():
            if kind[0] == queue or kind[0] is None or queue == EVERY_QUEUE:
                entry.ring(count)

    def ring_all(self) -> None:
        """Something may be ready anywhere."""
        self.ring(EVERY_QUEUE, FALLBACK_POLLS_MAX)

    def leased(self, entry: Kind) -> None:
        """A poll of this kind got a lease: those still parked want to know when it ends."""
        if entry.parked:
            self._new_kind.set()

    def send_home(self) -> None:
        """Wake every poll, for the last time; who comes later does not wait."""
        self._closed = True
        self._unpaused.set()
        for entry in self._kinds.values():
            entry.send_home()

    async def watch(self) -> None:
        """The fallback poll, for ever."""
        pause = self._settings.poll_interval_min_ms / 1000
        while True:
            if await self._first_of(pause):
                pause = self._settings.poll_interval_min_ms / 1000
                await asyncio.sleep(pause)  # kinds that come together are asked for together
            due = await self._check()
            pause = min(pause * 2, self._settings.poll_interval_max_ms / 1000, due)

    async def _first_of(self, seconds: float) -> bool:
        """True when a new kind was parked, False when the time is over."""
        try:
            async with asyncio.timeout(seconds):
                await self._new_kind.wait()
            self._new_kind.clear()
            return True
        except TimeoutError:
            return False

    async def _check(self) -> float:
        """Wake kinds that have something; answers the seconds until the next one will have."""
        kinds = [kind for kind, entry in self._kinds.items() if entry.parked]
        if not kinds:
            return float("inf")
        if not self._settings.pending_check:
            for kind in kinds:
                self._kinds[kind].ring(FALLBACK_POLLS_MAX)
            return float("inf")
        try:
            rows = await self._database.rows(PENDING, *map(list, zip(*kinds, strict=True)))
        except QueenError as error:
            self._failed.write(error)
            return float("inf")
        due = float("inf")
        for row in rows:
            entry = self._kinds.get(kinds[row["item"] - 1])
            if row["pending"]:
                self.checks_hit += 1
                due = self._settings.poll_interval_min_ms / 1000
                if entry is not None:
                    entry.ring(FALLBACK_POLLS_MAX)
            else:
                self.checks_missed += 1
                if row["next_ready_seconds"] is not None:
                    due = min(due, row["next_ready_seconds"] + 0.001)
        return due


class Bell:
    """Rings here at once and, coalesced, in all other processes on the same database.

    The pause between two notifications grows with what they take, so that a busy server is not busy with them.
    """

    def __init__(self, database: Database, settings: Settings, waiting: Waiting) -> None:
        self._database = database
        self._interval = settings.notify_interval_ms / 1000
        self._waiting = waiting
        self._unsent: dict[str, int] = {}
        self._something = asyncio.Event()
        self._own = 0  # the server process that sends our notifications; behind a pooler only that process knows
        self._interrupted = RepeatedWarning(log, "wake-ups from other servers are interrupted")

    def ring(self, queue: str, count: int = 1) -> None:
        """Something may be ready in a queue."""
        self._waiting.ring(queue, count)
        self._unsent[queue] = self._unsent.get(queue, 0) + count
        self._something.set()

    async def listen(self) -> None:
        """Send and receive, for ever; a lost connection is made anew, and everybody looks once."""
        while True:
            try:
                await self._exchange()
            except (*LOST, asyncpg.PostgresError, QueenError) as error:
                self._interrupted.write(error)
                await asyncio.sleep(RECONNECT_SECONDS)

    async def _exchange(self) -> None:
        connection = await self._database.connect()
        try:
            await connection.execute("set synchronous_commit = off")  # a notification need not survive a crash
            self._own = await connection.fetchval("select pg_backend_pid()")
            await connection.add_listener(CHANNEL, self._heard)
            connection.add_termination_listener(lambda _: self._something.set())
            self._something.set()  # for what could not be sent before
            self._waiting.ring_all()
            while True:
                await self._something.wait()
                self._something.clear()
                if connection.is_closed():
                    raise DatabaseUnavailable("the connection for wake-ups was lost")
                if self._unsent:
                    started = monotonic()
                    await self._send(connection)
                    longer = min(PAUSES * (monotonic() - started), PAUSE_SECONDS_MAX)
                    await asyncio.sleep(max(self._interval, longer))
        finally:
            with contextlib.suppress(*LOST):
                await connection.close(timeout=1)

    async def _send(self, connection: Connection) -> None:
        unsent, self._unsent = self._unsent, {}
        self._database.calls += 1
        try:
            await connection.execute(
                "select pg_notify($1, $2)", CHANNEL, _notification(unsent), timeout=SEND_SECONDS_MAX
            )
        except BaseException:
            self._unsent = {queue: unsent.get(queue, 0) + self._unsent.get(queue, 0) for queue in unsent | self._unsent}
            raise

    def _heard(self, _connection: Connection, sender: int, _channel: str, payload: Any) -> None:
        if sender != self._own:
            for queue, count in msgspec.json.decode(payload, type=dict[str, int]).items():
                self._waiting.ring(queue, count)


def _notification(unsent: dict[str, int]) -> str:
    text = msgspec.json.encode(unsent)
    if len(text) > NOTIFICATION_BYTES_MAX:
        text = msgspec.json.encode({EVERY_QUEUE: sum(unsent.values())})
    return text.decode()
