"""The one place where PostgreSQL is called: the pool, time limits, retries, and errors in Queen's own words.

A call is one statement, and so one transaction, always at READ COMMITTED: the functions are written for that. If
another transaction made a call fail (deadlock, serialization failure), it is repeated with growing pauses. If the
connection is lost, it is unknown whether the call happened. Calls that may safely happen twice are repeated. For the
others the caller gets `OutcomeUnknown` and finds out. A caller that notices that PostgreSQL is away says so (`lose`);
then calls are refused at once until it is back (`regain`).
"""

import asyncio
import contextlib
import logging
import math
import random
import weakref
from collections.abc import Awaitable, Callable, Iterable
from time import monotonic
from typing import Any, TypeVar

import asyncpg

from queenmq.config import Settings
from queenmq.engine.histogram import SECONDS, Histogram
from queenmq.engine.postgres import sessions
from queenmq.engine.postgres.outcome import OutcomeUnknown
from queenmq.engine.postgres.pooling import SESSIONS, find_way
from queenmq.engine.postgres.repeated_warning import RepeatedWarning
from queenmq.engine.postgres.replication import NotReplicated, await_standbys
from queenmq.engine.postgres.sessions import Connection, open_session, session_settings
from queenmq.engine.postgres.sqlstates import sentence, translate
from queenmq.errors import Closed, DatabaseUnavailable, QueenError, TimedOut, Unavailable

log = logging.getLogger(__name__)

T = TypeVar("T")

PAUSE_SECONDS_MIN = 0.01
PAUSE_SECONDS_MAX = 2.0
GRACE_SECONDS = 5.0  # beyond the statement timeout: then it is not PostgreSQL that is slow, but the way to it
WATCH_SECONDS = 1.0  # between two looks whether a call takes longer
CLOSE_SECONDS_MAX = 10.0
LEAVE_SECONDS = 1.0  # between two attempts to find a server that takes writes
STATEMENTS_MAX = 100  # kept prepared by one connection
AT_HAND_MAX = 4  # connections that are kept between calls, beside the pool

ABANDON = "select queen.abandon_call($1)"

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


class Database:
    """A pool of connections and the way to call through it."""

    def __init__(self, dsn: str, settings: Settings) -> None:
        self.dsn = dsn
        self.calls = 0  # database calls made, for the metrics
        self.call_seconds = Histogram(SECONDS)  # what calls of the pool took
        self.return_seconds_max = 0.0  # how long a call waits for a PostgreSQL that is away, before it fails
        self._present = asyncio.Event()  # PostgreSQL is not away, as far as we were told
        self._present.set()
        self._settings = settings
        self._apart = 1 + settings.upkeep  # connections outside the pool: for wake-ups, and for the leader
        self._patience = settings.statement_timeout_ms / 1000 + GRACE_SECONDS
        self._way = SESSIONS
        self._pool: Any = None
        self._attempts: dict[asyncio.Timeout, float] = {}  # calls in flight, and their deadlines
        self._watch: asyncio.TimerHandle | None = None  # one timer for all calls: a timer for each would cost more
        self._at_hand: list[Connection] = []  # taken from the pool, and used again without giving them back
        self._asking = 0  # calls that wait for the pool
        self._outside: weakref.WeakSet[Connection] = weakref.WeakSet()  # sessions outside the pool
        self._left_at = -math.inf
        self._warned: set[Connection] = set()  # connections on which PostgreSQL has sent a warning during a call
        self._returns: set[asyncio.Task[None]] = (
            set()
        )  # connections whose call is being cancelled, on their way back to the pool
        self._repeated = RepeatedWarning(log, "a database call failed and is repeated")

    @property
    def away(self) -> bool:
        """Whether PostgreSQL is known to be away."""
        return not self._present.is_set()

    async def open(self) -> None:
        """Connect; raises DatabaseUnavailable when PostgreSQL cannot be reached."""
        try:
            self._way = await find_way(self.dsn, self._settings.session_dsn)
            self._pool = await asyncpg.create_pool(
                self.dsn,
                min_size=0,  # otherwise the pool reconnects by itself during an outage, and logs a traceback each time
                max_size=self._settings.pool_size_max - self._apart,
                max_inactive_connection_lifetime=300,
                timeout=sessions.CONNECT_SECONDS_MAX,
                init=self._prepare,
                reset=_keep_session,
                server_settings=sessions.NAMED,
                statement_cache_size=STATEMENTS_MAX if self._way.carries_statements else 0,
            )
            await self._pool.release(await self._pool.acquire())
        except (*LOST, asyncpg.PostgresError) as error:
            raise DatabaseUnavailable(f"PostgreSQL cannot be reached: {sentence(error)}") from error

    async def close(self) -> None:
        """Let running calls finish, and disconnect; within a limited time even if the network is dead."""
        if self._watch is not None:
            self._watch.cancel()
        self._present.set()  # calls that wait for PostgreSQL to return find the pool closed
        if self._pool is not None:
            with contextlib.suppress(*LOST):
                async with asyncio.timeout(CLOSE_SECONDS_MAX):
                    while self._at_hand:
                        await self._release(self._at_hand.pop())
                    await self._pool.close()

    async def connect(self) -> Connection:
        """Open a session outside the pool, not through a pooler of transactions. The caller closes it."""
        dsn = self._settings.session_dsn or self.dsn
        connection = await open_session(dsn, session_settings(self._settings))
        self._outside.add(connection)
        return connection

    async def _prepare(self, connection: Connection) -> None:
        """Prepare a new connection of the pool. If other clients share its process, nothing is set there."""
        sessions.widen(connection)
        if self._way.shared:
            # asyncpg would switch off jit while it looks up types, and perhaps not find the process again.
            connection._server_caps = connection._server_caps._replace(jit=False)  # noqa: SLF001
        else:
            await sessions.tell(connection, session_settings(self._settings))

    async def leave(self) -> None:
        """Close all connections: their server takes no writes any more, and the DSN may lead to another one."""
        if monotonic() < self._left_at + LEAVE_SECONDS:
            return
        self._left_at = monotonic()
        for connection in list(self._outside):
            connection.terminate()  # its user connects again
        await self._pool.expire_connections()
        while self._at_hand:
            await self._release(self._at_hand.pop())

    def lose(self) -> None:
        """Note that PostgreSQL is away: end the calls in flight, and refuse others at once."""
        self._present.clear()
        self._end(self._attempts)

    def regain(self) -> None:
        """Note that PostgreSQL is back."""
        self._present.set()

    def _end(self, attempts: Iterable[asyncio.Timeout]) -> None:
        now = asyncio.get_running_loop().time()
        for attempt in attempts:
            with contextlib.suppress(RuntimeError):  # it has ended already
                attempt.reschedule(now)

    def _keep_watch(self) -> None:
        if self._watch is None:
            self._watch = asyncio.get_running_loop().call_later(WATCH_SECONDS, self._look)

    def _look(self) -> None:
        """End the calls that are past their deadline."""
        self._watch = None
        now = monotonic()
        self._end([attempt for attempt, until in self._attempts.items() if until <= now])
        if self._attempts:
            self._keep_watch()

    async def rows(self, query: str, *arguments: object, repeatable: bool = True) -> list[Any]:
        """Call, and return all rows."""
        return await self._call(lambda c: c.fetch(query, *arguments), repeatable)

    async def row(self, query: str, *arguments: object, repeatable: bool = True) -> Any:
        """Call, and return the only row, or None."""
        return await self._call(lambda c: c.fetchrow(query, *arguments), repeatable)

    async def value(self, query: str, *arguments: object, repeatable: bool = True) -> Any:
        """Call, and return one value."""
        return await self._call(lambda c: c.fetchval(query, *arguments), repeatable)

    async def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do some work on one connection; it may be repeated."""
        return await self._call(work, True)

    async def once(self, call: Callable[[int], Awaitable[T]], outcome: Callable[[], Awaitable[T | None]]) -> T:
        """Make a call that must not happen twice (`repeatable=False`), also if its answer is lost.

        `call` passes its argument, the id of the attempt, to queen.begin_call. If the answer is lost, and the attempt
        has ended or can no longer begin, `outcome` returns what it did, or None if it did nothing. Then the call is
        made again. Raises OutcomeUnknown if `outcome` could not be asked.
        """
        attempt = 0
        while True:
            call_id = random.getrandbits(63)
            try:
                return await call(call_id)
            except NotReplicated:
                raise  # the call has happened
            except OutcomeUnknown as lost:
                lost.call_id = call_id
                try:
                    await self.abandon(call_id)
                    answer = await outcome()
                except Unavailable as error:
                    raise lost from error
                if answer is not None:
                    return answer
                attempt += 1
                if attempt > self._settings.retry_attempts_max:
                    raise

    async def abandon(self, call_id: int) -> None:
        """Wait until a call whose answer was lost has ended, or can no longer begin: then its outcome is decided.

        Raises TimedOut if the call runs for longer than any call may.
        """
        attempt = 0
        deadline = monotonic() + self._patience
        while not await self.value(ABANDON, call_id):
            if monotonic() > deadline:
                raise TimedOut("PostgreSQL still works on a call whose connection was lost")
            attempt += 1
            await asyncio.sleep(pause_seconds(attempt))

    async def _call(self, run: Callable[[Connection], Awaitable[T]], repeatable: bool) -> T:  # noqa: FBT001 (ours alone)
        """Call. If PostgreSQL is away, wait for its return, up to `return_seconds_max`."""
        until = monotonic() + self.return_seconds_max
        waited = False
        while True:
            try:
                # An earlier attempt may have committed something that only the primary has.
                return await self._call_now(run, repeatable, doubtful=waited and repeatable)
            except OutcomeUnknown:
                raise
            except DatabaseUnavailable as error:
                seconds = until - monotonic()
                if seconds <= 0 or not (self.away or isinstance(error.__cause__, LOST)):
                    raise
            waited = True
            if not self.away:  # the server has not noticed yet
                await asyncio.sleep(min(seconds, PAUSE_SECONDS_MIN))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._present.wait()

    async def _call_now(self, run: Callable[[Connection], Awaitable[T]], repeatable: bool, *, doubtful: bool) -> T:  # noqa: FBT001
        if self._pool is None:
            raise Closed("the engine was not opened")
        attempt = 0
        deadline = monotonic() + self._patience
        while True:
            sent = False
            try:
                async with asyncio.timeout(None) as timeout:
                    self._attempts[timeout] = math.inf  # `lose` ends it
                    try:
                        connection = await self._connection()
                        sent = True
                        self._attempts[timeout] = monotonic() + self._patience
                        self._keep_watch()
                        self.calls += 1
                        began = monotonic()
                        try:
                            return await self._run(connection, run, timeout, doubtful)
                        finally:
                            self.call_seconds.note(monotonic() - began)
                    finally:
                        del self._attempts[timeout]
            except CONFLICT as error:
                failure: QueenError = TimedOut(f"PostgreSQL could not untangle this from other work: {sentence(error)}")
                cause: Exception = error
            except LOST as error:
                if self._pool.is_closing():
                    raise Closed() from error
                failure = DatabaseUnavailable(f"PostgreSQL is away: {sentence(error)}")
                if sent and not repeatable:
                    raise OutcomeUnknown(f"PostgreSQL went away during the call: {sentence(error)}") from error
                doubtful = doubtful or sent
                cause = error
            except asyncpg.ReadOnlySQLTransactionError as error:
                failure, cause = translate(error), error
                await self.leave()
            except asyncpg.PostgresError as error:
                raise translate(error) from error
            attempt += 1
            if self.away or attempt > self._settings.retry_attempts_max or monotonic() > deadline:
                raise failure from cause
            self._repeated.write(cause)
            await asyncio.sleep(pause_seconds(attempt))

    async def _connection(self) -> Connection:
        """A connection at hand, or one from the pool. Refused while PostgreSQL is away."""
        self._check_present()
        while self._at_hand:
            connection = self._at_hand.pop()
            with contextlib.suppress(asyncpg.InterfaceError):  # it was lost, and the pool has dropped it
                if not connection.is_closed():
                    return connection
                await self._release(connection)
        self._asking += 1
        try:
            connection = await self._pool.acquire()
        finally:
            self._asking -= 1
        connection.add_log_listener(self._hear)
        try:
            self._check_present()  # PostgreSQL may have been lost while this waited for the pool
        except DatabaseUnavailable:
            await self._release(connection)
            raise
        return connection

    def _hear(self, connection: Connection, message: asyncpg.PostgresLogMessage) -> None:
        """Note a warning. It may say, in any language, that the wait for the standbys was cancelled."""
        if message.severity_en == "WARNING":
            self._warned.add(connection)

    def _check_present(self) -> None:
        if self.away:
            raise DatabaseUnavailable("PostgreSQL is away")

    async def _run(
        self,
        connection: Connection,
        run: Callable[[Connection], Awaitable[T]],
        timeout: asyncio.Timeout,  # noqa: ASYNC109 (the caller's, by which it is told apart who has ended the call)
        doubtful: bool,  # noqa: FBT001 (ours alone)
    ) -> T:
        try:
            answer = await run(connection)
            if doubtful or (self._warned and connection in self._warned):
                await self._confirm(connection)
        except BaseException as error:
            if self._attempts[timeout] <= monotonic() and not self.away:
                self._return_later(connection)
                raise
            if isinstance(error, TimeoutError | asyncio.CancelledError | asyncpg.InternalClientError):
                connection.terminate()  # otherwise asyncpg waits until PostgreSQL has confirmed the cancellation
            await self._release(connection)
            raise
        if self._asking or len(self._at_hand) >= AT_HAND_MAX or self._pool.is_closing():
            await self._release(connection)
        else:  # to give it back would take a task of asyncpg's, and the caller would wait for it
            self._at_hand.append(connection)
        return answer

    async def _confirm(self, connection: Connection) -> None:
        """Wait until the synchronous standbys have what this session has seen. Raises NotReplicated."""
        while True:
            self._warned.discard(connection)
            await await_standbys(connection, GRACE_SECONDS)
            if connection not in self._warned:
                return

    def _return_later(self, connection: Connection) -> None:
        """Let asyncpg cancel an overdue call. Without that, a session that waits for a standby waits on."""
        task = asyncio.create_task(self._return(connection))
        self._returns.add(task)
        task.add_done_callback(self._returns.discard)

    async def _return(self, connection: Connection) -> None:
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await self._release(connection)
        except (*LOST, asyncpg.PostgresError):
            with contextlib.suppress(asyncpg.InterfaceError):  # the pool has dropped it
                connection.terminate()

    async def _release(self, connection: Connection) -> None:
        self._warned.discard(connection)
        with contextlib.suppress(asyncpg.InterfaceError):  # it was lost, and the pool has dropped it
            connection.remove_log_listener(self._hear)
        await self._pool.release(connection)


def pause_seconds(attempt: int) -> float:
    """A pause that doubles with each attempt, up to a limit, with jitter, so that callers do not all come at once."""
    longest: float = min(PAUSE_SECONDS_MAX, PAUSE_SECONDS_MIN * 2**attempt)
    return longest * random.uniform(0.5, 1.0)


async def _keep_session(_connection: Connection) -> None:
    """Do nothing: calls leave nothing behind in a session that would have to be reset."""
