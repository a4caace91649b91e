"""Long polls: they are parked here, and woken when there may be messages for them.

Three things wake them:
- a push, or a lease that ended with more to read: at once in this process (`Bell.ring`), and through NOTIFY in others;
- the end of a lease, a delay or a retry pause: by a timer;
- if all of that fails, the fallback poll: one call for all parked polls, with growing pauses.

A ring wakes as many polls as there are ready partitions, not all of them. It wakes none if active polls take these
partitions anyway, for example consumers that have just sent an ack.
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
from queenmq.engine.postgres.database import LOST, Database
from queenmq.engine.postgres.repeated_warning import RepeatedWarning
from queenmq.engine.postgres.sessions import Connection
from queenmq.errors import Busy, DatabaseUnavailable, QueenError
from queenmq.model import PopKind

log = logging.getLogger(__name__)

CHANNEL = "queen_wake"
NOTIFICATION_BYTES_MAX = 7_900  # PostgreSQL allows 8,000
RECONNECT_SECONDS = 1.0
SEND_SECONDS_MAX = 10.0
PAUSES = 4  # after a notification, for the time that it took
PAUSE_SECONDS_MAX = 0.02
FALLBACK_POLLS_MAX = 16  # that one fallback poll wakes, because it cannot tell how many partitions are ready
EVERY_QUEUE = "*"

PENDING = "select * from queen.has_pending_messages($1, $2, $3, $4, $5)"


class Kind:
    """The polls of one kind, and the wake-ups that none of them has claimed yet.

    A ring adds pending wake-ups, one for each partition that may be ready. Each active poll claims one pending
    wake-up. Those that are left in the next turn of the event loop wake parked polls.
    """

    __slots__ = ("parked", "polls", "rung", "taken")

    def __init__(self) -> None:
        self.polls = 0
        self.rung = 0  # wake-ups, since the beginning
        self.taken = 0  # wake-ups that active polls have claimed, or that led to nothing
        self.parked: deque[asyncio.Future[None]] = deque()

    def ring(self, count: int) -> None:
        """Add wake-ups for so many partitions."""
        self.rung += count
        self.wake_soon()

    def take(self) -> bool:
        """Claim a pending wake-up, if there is one."""
        if self.taken == self.rung:
            return False
        self.taken += 1
        return True

    def give_back(self) -> None:
        """Give back a claimed wake-up, so that another poll looks."""
        self.taken -= 1
        self.wake_soon()

    def in_vain(self, rung: int) -> None:
        """A poll that began at this count of wake-ups found nothing, so these wake-ups are used up."""
        self.taken = max(self.taken, rung)

    def wake_soon(self) -> None:
        """Wake parked polls in the turn after next: polls that are answered in this turn look again in the next one."""
        if self.parked:
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._wake)

    def _wake(self) -> None:
        """Wake the polls that have waited longest."""
        while self.parked and self.taken < self.rung:
            future = self.parked.popleft()
            if not future.done():
                future.set_result(None)
                self.taken += 1

    def send_home(self) -> None:
        """Wake all parked polls, so that they return empty."""
        for future in self.parked:
            if not future.done():
                future.set_result(None)


class Waiting:
    """All long polls of this process."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.parked = 0
        self._closed = False
        self.checks_hit = 0  # kinds of polls for which the fallback poll found messages, and for which it did not
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
        """Whether deliveries are paused."""
        return not self._unpaused.is_set()

    def pause(self) -> None:
        """Let polls wait, also if there are messages for them."""
        if not self._closed:
            self._unpaused.clear()

    def resume(self) -> None:
        """Let polls look for messages again."""
        self._unpaused.set()

    async def unpaused(self, deadline: float) -> bool:
        """Wait while deliveries are paused. Returns False at the deadline, and if the engine closes."""
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
        """Count a poll from before its first look until its answer, so that it misses no ring."""
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
        """Wait for a wake-up. Returns False at the deadline, and if the engine closes."""
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
            return future.done() and not future.cancelled()  # it was woken in the last moment, and looks once more
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                entry.give_back()  # it was woken, but is cancelled
            raise
        finally:
            with contextlib.suppress(ValueError):
                entry.parked.remove(future)

    def ring(self, queue: str, count: int = 1) -> None:
        """Wake up to `count` polls of each kind that could take partitions of this queue."""
        for kind, entry in self._kinds.items():
            if kind[0] == queue or kind[0] is None or queue == EVERY_QUEUE:
                entry.ring(count)

    def ring_all(self) -> None:
        """Wake polls of all kinds."""
        self.ring(EVERY_QUEUE, FALLBACK_POLLS_MAX)

    def leased(self, entry: Kind) -> None:
        """Let the fallback poll find out when a new lease of this kind ends, if polls are still parked."""
        if entry.parked:
            self._new_kind.set()

    def send_home(self) -> None:
        """Wake every poll for the last time. Polls that come later do not wait."""
        self._closed = True
        self._unpaused.set()
        for entry in self._kinds.values():
            entry.send_home()

    async def watch(self) -> None:
        """Run the fallback poll, for ever."""
        pause = self._settings.poll_interval_min_ms / 1000
        while True:
            if await self._first_of(pause):
                pause = self._settings.poll_interval_min_ms / 1000
                await asyncio.sleep(pause)  # polls that are parked together are asked for in one call
            due = await self._check()
            pause = min(pause * 2, self._settings.poll_interval_max_ms / 1000, due)

    async def _first_of(self, seconds: float) -> bool:
        """Wait until polls of a new kind are parked. Returns False if none came in time."""
        try:
            async with asyncio.timeout(seconds):
                await self._new_kind.wait()
            self._new_kind.clear()
            return True
        except TimeoutError:
            return False

    async def _check(self) -> float:
        """Wake the kinds for which there are messages. Returns the seconds until the next one has some."""
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
    """Wakes polls of this process at once, and those of other processes through notifications.

    One notification carries all rings since the last one. If notifications take long, the pauses between them grow.
    """

    def __init__(self, database: Database, settings: Settings, waiting: Waiting) -> None:
        self._database = database
        self._interval = settings.notify_interval_ms / 1000
        self._waiting = waiting
        self._unsent: dict[str, int] = {}
        self._something = asyncio.Event()
        self._own = (
            0  # the process id of PostgreSQL for our own notifications; behind a pooler, only that process knows it
        )
        self._interrupted = RepeatedWarning(log, "wake-ups from other servers are interrupted")

    def ring(self, queue: str, count: int = 1) -> None:
        """Wake polls of a queue, here and in other processes."""
        self._waiting.ring(queue, count)
        self._unsent[queue] = self._unsent.get(queue, 0) + count
        self._something.set()

    async def listen(self) -> None:
        """Send and receive notifications, for ever. If the connection is lost, connect again and wake all polls."""
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
            self._something.set()  # sends what could not be sent before
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
