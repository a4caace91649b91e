"""One place where PostgreSQL is called: the pool, time limits, retries, and errors in our own words.

A call is one statement and so one transaction, always at READ COMMITTED: the functions are written for it. What
another transaction made fail (deadlock, serialization failure) is repeated with growing pauses. When the
connection is lost, nobody knows whether the call happened: calls that may safely happen twice say so and are
repeated; for the others the caller gets `OutcomeUnknown` and finds out. Who knows that PostgreSQL is away says so
(`lose`), and nobody waits for it until it is back (`regain`).
"""

import asyncio
import contextlib
import logging
import math
import random
import socket
from collections.abc import Awaitable, Callable, Iterable
from time import monotonic
from typing import Any, TypeVar

import asyncpg

from queenmq.config import Settings
from queenmq.errors import (
    Closed,
    DatabaseUnavailable,
    InvalidArgument,
    QueenError,
    TimedOut,
    Unavailable,
    from_sqlstate,
)
from queenmq.model import FlushMark

log = logging.getLogger(__name__)

T = TypeVar("T")
Connection = Any  # asyncpg.Connection and its proxies have no annotations

PAUSE_SECONDS_MIN = 0.01
PAUSE_SECONDS_MAX = 2.0
CONNECT_SECONDS_MAX = 10.0
GRACE_SECONDS = 5.0  # beyond the statement timeout: then it is not PostgreSQL that is slow, but the way to it
WATCH_SECONDS = 1.0  # between two looks whether a call takes longer
CLOSE_SECONDS_MAX = 10.0
AT_HAND_MAX = 4  # connections that are kept between calls, beside the pool
SEND_BYTES = 1 << 20  # of a call that the system takes at once, so that PostgreSQL need not wait for our event loop

END_BACKEND = """
select pg_terminate_backend(pid) from pg_stat_activity
 where pid = $1 and application_name = 'queen' and usename = current_user and pid <> pg_backend_pid()
"""

LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # an idle connection was told of a shutdown, and is used before its end is seen
    OSError,
    TimeoutError,
)
CONFLICT = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)


class OutcomeUnknown(DatabaseUnavailable):
    """The connection was lost during the call; it may or may not have happened."""

    backend: int = 0  # the process that worked on it, which may be at it still
    mark: FlushMark | None = None  # of a push: how to find out later


class Database:
    """A pool of connections and the way to call through it."""

    def __init__(self, dsn: str, settings: Settings) -> None:
        self.dsn = dsn
        self.calls = 0  # database calls made, for the metrics
        self.away = False  # PostgreSQL, as far as we were told
        self._settings = settings
        self._apart = 1 + settings.upkeep  # connections outside the pool: for wake-ups, and for the leader
        self._patience = settings.statement_timeout_ms / 1000 + GRACE_SECONDS
        self._pool: Any = None
        self._attempts: dict[asyncio.Timeout, float] = {}  # calls in flight, and until when
        self._watch: asyncio.TimerHandle | None = None  # one for all of them: to begin and end one takes a while
        self._at_hand: list[Connection] = []  # taken from the pool, and used again without asking it
        self._asking = 0  # calls that wait for the pool

    async def open(self) -> None:
        """Connect; raises DatabaseUnavailable when PostgreSQL cannot be reached."""
        try:
            self._pool = await asyncpg.create_pool(
                self.dsn,
                min_size=1,
                max_size=self._settings.pool_size_max - self._apart,
                max_inactive_connection_lifetime=300,
                timeout=CONNECT_SECONDS_MAX,
                init=_widen,
                reset=_keep_session,
                server_settings=session_settings(self._settings),
            )
        except (*LOST, asyncpg.PostgresError) as error:
            raise DatabaseUnavailable(f"PostgreSQL cannot be reached: {error}") from error

    async def close(self) -> None:
        """Let running calls finish and disconnect; not even a dead network keeps us from it."""
        if self._watch is not None:
            self._watch.cancel()
        if self._pool is not None:
            with contextlib.suppress(*LOST):
                async with asyncio.timeout(CLOSE_SECONDS_MAX):
                    while self._at_hand:
                        await self._pool.release(self._at_hand.pop())
                    await self._pool.close()

    async def connect(self) -> Connection:
        """A connection of one's own, outside the pool; the caller closes it."""
        return await asyncpg.connect(
            self.dsn, timeout=CONNECT_SECONDS_MAX, server_settings=session_settings(self._settings)
        )

    def lose(self) -> None:
        """PostgreSQL is away: end the calls in flight, and refuse others at once."""
        self.away = True
        self._end(self._attempts)

    def regain(self) -> None:
        """PostgreSQL is back."""
        self.away = False

    def _end(self, attempts: Iterable[asyncio.Timeout]) -> None:
        now = asyncio.get_running_loop().time()
        for attempt in attempts:
            with contextlib.suppress(RuntimeError):  # it is ending already
                attempt.reschedule(now)

    def _keep_watch(self) -> None:
        if self._watch is None:
            self._watch = asyncio.get_running_loop().call_later(WATCH_SECONDS, self._look)

    def _look(self) -> None:
        """End the calls whose time is over."""
        self._watch = None
        now = monotonic()
        self._end([attempt for attempt, until in self._attempts.items() if until <= now])
        if self._attempts:
            self._keep_watch()

    async def rows(self, query: str, *arguments: object, repeatable: bool = True) -> list[Any]:
        """Call and answer all rows."""
        return await self._call(lambda c: c.fetch(query, *arguments), repeatable)

    async def row(self, query: str, *arguments: object, repeatable: bool = True) -> Any:
        """Call and answer the only row, or None."""
        return await self._call(lambda c: c.fetchrow(query, *arguments), repeatable)

    async def value(self, query: str, *arguments: object, repeatable: bool = True) -> Any:
        """Call and answer one value."""
        return await self._call(lambda c: c.fetchval(query, *arguments), repeatable)

    async def once(self, call: Callable[[], Awaitable[T]], outcome: Callable[[], Awaitable[T | None]]) -> T:
        """Make a call that must not happen twice (`repeatable=False`), and again if its answer was lost.

        `outcome` is asked in between, when the lost call has ended: what did it do? None stands for nothing.
        Raises OutcomeUnknown when it could not be asked.
        """
        attempt = 0
        while True:
            try:
                return await call()
            except OutcomeUnknown as lost:
                try:
                    await self.end_backend(lost.backend)
                    answer = await outcome()
                except Unavailable as error:
                    raise lost from error
                if answer is not None:
                    return answer
                attempt += 1
                if attempt > self._settings.retry_attempts_max:
                    raise

    async def end_backend(self, backend: int) -> None:
        """Make sure that the process behind a lost connection has ended: then its outcome is decided."""
        attempt = 0
        while await self.value(END_BACKEND, backend):
            attempt += 1
            await asyncio.sleep(pause_seconds(attempt))

    async def _call(self, run: Callable[[Connection], Awaitable[T]], repeatable: bool) -> T:  # noqa: FBT001 (ours alone)
        if self._pool is None:
            raise Closed("the engine was not opened")
        attempt = 0
        deadline = monotonic() + self._patience
        while True:
            backend = 0
            try:
                async with asyncio.timeout(None) as timeout:
                    self._attempts[timeout] = math.inf  # which `lose` ends
                    try:
                        connection = await self._connection()
                        backend = connection.get_server_pid()
                        self._attempts[timeout] = monotonic() + self._patience
                        self._keep_watch()
                        self.calls += 1
                        return await self._run(connection, run)
                    finally:
                        del self._attempts[timeout]
            except CONFLICT as error:
                failure: QueenError = TimedOut(f"PostgreSQL could not untangle this from other work: {error}")
                cause: Exception = error
            except LOST as error:
                if self._pool.is_closing():
                    raise Closed() from error
                failure = DatabaseUnavailable(f"PostgreSQL is away: {error}")
                if backend and not repeatable:
                    unknown = OutcomeUnknown(f"PostgreSQL went away during the call: {error}")
                    unknown.backend = backend
                    raise unknown from error
                cause = error
            except asyncpg.PostgresError as error:
                raise translate(error) from error
            attempt += 1
            if self.away or attempt > self._settings.retry_attempts_max or monotonic() > deadline:
                raise failure from cause
            log.warning("database call repeated", extra={"attempt": attempt, "cause": repr(cause)})
            await asyncio.sleep(pause_seconds(attempt))

    async def _connection(self) -> Connection:
        """One that is at hand, or one from the pool; not while PostgreSQL is away."""
        self._check_present()
        while self._at_hand:
            connection = self._at_hand.pop()
            with contextlib.suppress(asyncpg.InterfaceError):  # it was lost, and the pool has let go of it
                if not connection.is_closed():
                    return connection
                await self._pool.release(connection)
        self._asking += 1
        try:
            connection = await self._pool.acquire()
        finally:
            self._asking -= 1
        try:
            self._check_present()  # who was told so while we waited would not tell the call
        except DatabaseUnavailable:
            await self._pool.release(connection)
            raise
        return connection

    def _check_present(self) -> None:
        if self.away:
            raise DatabaseUnavailable("PostgreSQL is away")

    async def _run(self, connection: Connection, run: Callable[[Connection], Awaitable[T]]) -> T:
        try:
            answer = await run(connection)
        except BaseException as error:
            if isinstance(error, TimeoutError | asyncio.CancelledError | asyncpg.InternalClientError):
                connection.terminate()  # asyncpg would wait until PostgreSQL has said that it heard of it
            await self._pool.release(connection)
            raise
        if self._asking or len(self._at_hand) >= AT_HAND_MAX or self._pool.is_closing():
            await self._pool.release(connection)
        else:  # the pool would make a task of it, and whoever waits for the answer would wait for that
            self._at_hand.append(connection)
        return answer


def translate(error: asyncpg.PostgresError) -> QueenError:
    """Their error in our words."""
    if isinstance(error, asyncpg.QueryCanceledError | asyncpg.LockNotAvailableError):
        return TimedOut(f"PostgreSQL gave up: {error}")
    if isinstance(error, asyncpg.DataError):  # a value that its type cannot hold, noticed by asyncpg or by PostgreSQL
        return InvalidArgument(str(error))
    ours = from_sqlstate(error.sqlstate, str(error), error.detail)
    return ours or QueenError(f"PostgreSQL refused the call: {error} ({error.sqlstate})")


def pause_seconds(attempt: int) -> float:
    """Exponential, capped, with jitter, so that many callers do not come back at once."""
    longest: float = min(PAUSE_SECONDS_MAX, PAUSE_SECONDS_MIN * 2**attempt)
    return longest * random.uniform(0.5, 1.0)


def session_settings(settings: Settings) -> dict[str, str]:
    """What every connection of ours is told."""
    return {
        "application_name": "queen",
        "default_transaction_isolation": "read committed",
        "statement_timeout": str(settings.statement_timeout_ms),
        "lock_timeout": str(settings.lock_timeout_ms),
        "idle_in_transaction_session_timeout": str(settings.statement_timeout_ms),
        "jit": "off",
        "search_path": "pg_catalog",
        "timezone": "UTC",
    }


async def _widen(connection: Connection) -> None:
    """Let a whole call leave at once: the rest of it would go when whatever is made ready meanwhile is ready.

    Over TCP the system sees to that itself, unless it is told a size.
    """
    way = connection._transport.get_extra_info("socket")  # noqa: SLF001 (asyncpg has no other way to it)
    if way.family == getattr(socket, "AF_UNIX", None):  # not everywhere
        with contextlib.suppress(OSError):  # some systems refuse what is more than they give
            way.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)


async def _keep_session(_connection: Connection) -> None:
    """Our calls leave nothing behind in a session, so nothing needs resetting between them."""
