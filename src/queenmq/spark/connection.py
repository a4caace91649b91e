"""A conversation with PostgreSQL from Spark's processes, which are not asynchronous.

One connection per task, and one per running query in the driver: no pool, nothing shared, nothing left behind.
"""

import asyncio
import sys
import time
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self, TypeVar

import asyncpg

from queenmq.config import Settings, hand_on, masked
from queenmq.engine.postgres.database import LOST
from queenmq.engine.postgres.pooling import check_session
from queenmq.engine.postgres.replication import NotReplicated, await_standbys
from queenmq.engine.postgres.sessions import open_session, session_settings
from queenmq.engine.postgres.sqlstates import sentence, translate
from queenmq.errors import ConfigurationError, DatabaseUnavailable, QueenError

T = TypeVar("T")

APPLICATION = "queen spark"
TIMEOUTS = {
    "statement_timeout": "3600000",  # a full read may take long,
    "idle_in_transaction_session_timeout": "0",  # and Spark may be slower than PostgreSQL
}
STANDBY_SECONDS_MAX = 60.0
LOCK_SECONDS_MAX = 15.0  # PostgreSQL may take that long to notice that a killed process is gone
LOCK_PAUSE_SECONDS = 0.25
RECONNECT_PAUSE_SECONDS = 0.25
EPOCH_2000 = datetime(2000, 1, 1, tzinfo=UTC)  # where PostgreSQL begins to count


class Connection:
    """One session, used from one thread; every error is one of ours and tells its code and what to do.

    `known`: the address is known to lead to sessions, as that of a task whose driver has connected to it.
    """

    def __init__(
        self,
        dsn: str,
        settings: Settings | None = None,
        plans: Mapping[str, str] | None = None,
        *,
        known: bool = False,
    ) -> None:
        self._runner = asyncio.Runner()
        self._dsn = dsn
        try:
            if not known:
                self._run(check_session(dsn))
            self._session = self._run(self._open(dsn, session_settings(settings or Settings.load()), plans or {}))
        except BaseException:
            self._runner.close()
            raise

    async def _open(self, dsn: str, settings: dict[str, str], plans: Mapping[str, str]) -> Any:
        session = await open_session(dsn, settings | TIMEOUTS | dict(plans), APPLICATION)
        await session.set_type_codec(  # microseconds since 2000, not objects
            "timestamptz", schema="pg_catalog", encoder=_microseconds, decoder=_first, format="tuple"
        )
        for kind in ("pg_snapshot", "xid8"):
            await session.set_type_codec(kind, schema="pg_catalog", encoder=str, decoder=str, format="text")
        return session

    def rows(self, query: str, *arguments: object) -> list[Any]:
        """All rows of a statement."""
        found: list[Any] = self._run(self._session.fetch(query, *arguments))
        return found

    def row(self, query: str, *arguments: object) -> Any:
        """The only row, or None."""
        return self._run(self._session.fetchrow(query, *arguments))

    def value(self, query: str, *arguments: object) -> Any:
        """One value."""
        return self._run(self._session.fetchval(query, *arguments))

    def copy(self, table: str, columns: list[str], records: list[tuple[Any, ...]]) -> None:
        """Append rows to a table of ours, as fast as PostgreSQL can."""
        self._run(self._session.copy_records_to_table(table, schema_name="queen", columns=columns, records=records))

    def stream(self, query: str, *arguments: object, rows: int) -> Iterator[list[Any]]:
        """The rows of a statement, `rows` at a time."""
        with self.transaction():
            cursor = self._run(_cursor(self._session, query, arguments))
            while found := self._run(cursor.fetch(rows)):
                yield found

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is done inside, or nothing."""
        transaction = self._session.transaction()
        self._run(transaction.start())
        try:
            yield
        except BaseException:
            if not self._session.is_closed():
                self._run(transaction.rollback())
            raise
        self._run(transaction.commit())

    def await_standbys(self) -> None:
        """Wait until the synchronous standbys have all that this session has committed. Raises NotReplicated."""
        warnings: list[Any] = []
        self._session.add_log_listener(listener := lambda _, message: warnings.append(message))
        try:
            self._run(await_standbys(self._session, STANDBY_SECONDS_MAX))
        finally:
            self._session.remove_log_listener(listener)
        if warnings:
            raise NotReplicated("the wait for the synchronous standbys was cancelled")

    def lock(self, kind: int, key: int) -> bool:
        """Take a lock that ends with the session at the latest; False when somebody has it and keeps it."""
        deadline = time.monotonic() + LOCK_SECONDS_MAX
        while not self.value("select pg_try_advisory_lock($1, $2)", kind, key):
            if time.monotonic() > deadline:
                return False
            time.sleep(LOCK_PAUSE_SECONDS)
        return True

    def unlock(self, kind: int, key: int) -> None:
        """Give a lock back; where the session is gone, so is the lock."""
        if not self.closed:
            self.value("select pg_advisory_unlock($1, $2)", kind, key)

    def answers(self) -> bool:
        """Whether the session still lives; a session that waits does not notice that PostgreSQL has gone."""
        try:
            self.value("select 1")
        except DatabaseUnavailable:
            self.close()
            return False
        return True

    @property
    def closed(self) -> bool:
        """Whether PostgreSQL has gone, or we have."""
        closed: bool = self._session.is_closed()
        return closed

    def close(self) -> None:
        """End the session."""
        if not self._session.is_closed():
            self._session.terminate()  # politeness would need PostgreSQL to be there
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            # Not Runner.run: it sets a handler for Ctrl-C each time, whose text has all rows of the last answer in it.
            return self._runner.get_loop().run_until_complete(work)
        except asyncpg.exceptions.ClientConfigurationError as error:
            raise explained(ConfigurationError(f"{masked(self._dsn)} is no address of PostgreSQL: {error}")) from None
        except LOST as error:
            raise explained(
                DatabaseUnavailable(f"PostgreSQL at {masked(self._dsn)} cannot be reached: {sentence(error)}")
            ) from None
        except asyncpg.PostgresError as error:
            raise explained(_ours(error)) from None


def connect_within(seconds: float, dsn: str) -> Connection:
    """A new session; if no server takes it, it is tried again for some time."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return Connection(dsn)
        except DatabaseUnavailable:
            if time.monotonic() > deadline:
                raise
        time.sleep(RECONNECT_PAUSE_SECONDS)


@contextmanager
def explanations() -> Iterator[None]:
    """Let our errors say their code and their hint in Spark's exception too, and nothing before their sentence.

    Spark asks the environment at the time of the error whether a traceback comes first. The error ends the worker, so
    those of other tasks keep their tracebacks.
    """
    try:
        yield
    except QueenError as error:
        if _is_worker():
            hand_on("SPARK_HIDE_TRACEBACK", "1")
        raise explained(error) from error.__cause__


def explained(error: QueenError) -> QueenError:
    """The error with its code and hint as a note; once."""
    note = f"[{error.code}] {error.hint or ''}".rstrip()
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    return error


def _is_worker() -> bool:
    """Whether Spark has started this process: it runs a module of PySpark's, and not a user's program."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")


def _ours(error: asyncpg.PostgresError) -> QueenError:
    if isinstance(error, asyncpg.InvalidAuthorizationSpecificationError | asyncpg.InvalidCatalogNameError):
        return ConfigurationError(f"PostgreSQL did not let us in: {sentence(error)}")
    if isinstance(error, asyncpg.InsufficientPrivilegeError):
        return ConfigurationError(f"PostgreSQL does not allow this to us: {sentence(error)}")
    if isinstance(error, asyncpg.InvalidSchemaNameError | asyncpg.UndefinedTableError | asyncpg.UndefinedFunctionError):
        return ConfigurationError(f"this database has no Queen of this version; run queen migrate: {sentence(error)}")
    return translate(error)


async def _cursor(session: Any, query: str, arguments: tuple[object, ...]) -> Any:
    return await session.cursor(query, *arguments)


def _first(value: tuple[Any, ...]) -> Any:
    return value[0]


def _microseconds(moment: datetime) -> tuple[int]:
    return ((moment - EPOCH_2000) // timedelta(microseconds=1),)
