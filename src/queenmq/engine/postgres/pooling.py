"""What stands between us and PostgreSQL: nothing, a pooler of sessions, or a pooler of transactions.

A pooler in transaction mode gives every statement to whichever server process is free. LISTEN, advisory locks and SET
do not work there, and what they leave behind meets other clients of the pooler. So an address is examined before
anything is set.

Without a pooler, the process id that PostgreSQL announces when a connection begins is that of the process which
answers. A pooler announces a number of its own. Behind it, the process of one connection is watched while other
connections hold transactions: in transaction mode one of these gets the process, or another client of the pooler
does, or the watched connection gets another process.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from secrets import randbits, token_hex
from types import TracebackType
from typing import Self

import asyncpg
from msgspec import Struct

from queenmq.engine.postgres.sessions import CONNECT_SECONDS_MAX, NAMED, Connection
from queenmq.errors import ConfigurationError

log = logging.getLogger(__name__)

HOLDERS_MAX = 5  # connections that hold transactions; with an idle pooler the first of them gets the process
HOLD_SECONDS_MAX = 3.0  # longest wait for a process; a session that wants one has it at once
EXAMINE_SECONDS_MAX = 30.0
CLOSE_SECONDS_MAX = 1.0

STATEMENT_MODE = "statement pooling mode"  # in which PgBouncer refuses transactions, with these words
REFUSAL = (
    "{} leads to a pooler that pools transactions, where LISTEN, advisory locks and migrations do not work: "
    "set QUEEN_SESSION_DSN to the address of PostgreSQL itself, or let the pooler pool sessions"
)

PID = "select pg_backend_pid()"
BROUGHT_ALONG = """
select current_setting('default_transaction_isolation') as isolation,
       current_setting('client_min_messages') as messages, quote_ident(session_user) as role
"""
SERVED_ANOTHER = """
select state <> 'disabled' and strpos(query, $2) = 0 from pg_stat_activity where pid = $1 and usename = session_user
"""
LOCK = "select pg_advisory_lock($1)"
LOCKED = """
select exists (select from pg_locks where locktype = 'advisory' and objsubid = 1 and granted
                  and database = (select oid from pg_database where datname = current_database())
                  and classid = ($1::bigint >> 32)::oid and objid = ($1::bigint & 4294967295)::oid)
"""


class Way(Struct, frozen=True):
    """What is known of an address."""

    shared: bool = False  # statements of one connection go to several server processes
    carries_statements: bool = True  # named statements can be used wherever they were prepared


SESSIONS = Way()


async def find_way(dsn: str, session_dsn: str | None) -> Way:
    """What the address of traffic leads to. Raises ConfigurationError where one of the addresses cannot be used."""
    way = await examine(dsn)
    if session_dsn is None:
        if way.shared:
            raise ConfigurationError(REFUSAL.format("QUEEN_DSN"))
        return way
    await check_session(session_dsn, "QUEEN_SESSION_DSN")
    await _check_same_database(dsn, session_dsn)
    if way.shared:
        await _check_role(dsn)
        log.info("a pooler of transactions is used", extra={"carries_statements": way.carries_statements})
    return way


async def check_session(dsn: str, setting: str = "QUEEN_DSN") -> None:
    """Raise ConfigurationError when an address does not lead to sessions that stay."""
    if (await examine(dsn)).shared:
        raise ConfigurationError(REFUSAL.format(setting))


async def examine(dsn: str) -> Way:
    """Find out what an address leads to; nothing is left behind there that other clients could notice."""
    async with asyncio.timeout(EXAMINE_SECONDS_MAX), _connected(dsn) as watched:
        if await watched.fetchval(PID) == watched.get_server_pid():
            return SESSIONS
        # Some poolers keep a connection on its process once something was set, as every session of ours does.
        await watched.execute("select set_config('queen.session', 'examined', false)")
        try:
            if not await _is_shared(dsn, watched):
                return SESSIONS
        except asyncpg.PostgresError as error:
            if STATEMENT_MODE not in str(error):
                raise
            return Way(shared=True, carries_statements=False)
        return Way(shared=True, carries_statements=await _carries_statements(dsn, watched))


async def _check_same_database(dsn: str, session_dsn: str) -> None:
    """Take a lock through one address, and look for it through the other."""
    key = randbits(63)
    async with _connected(session_dsn) as session, _connected(dsn) as other:
        await session.execute(LOCK, key)
        if not await other.fetchval(LOCKED, key):
            raise ConfigurationError(
                "QUEEN_SESSION_DSN leads to another database than QUEEN_DSN: "
                "set it to the address of the same database without the pooler"
            )


async def _check_role(dsn: str) -> None:
    """Nothing can be set behind a pooler of transactions: what must be so there, the role has to bring along."""
    async with _connected(dsn) as connection:
        found = await connection.fetchrow(BROUGHT_ALONG)
    if found["isolation"] != "read committed":
        raise _unusable(found["role"], "default_transaction_isolation", found["isolation"], "read committed")
    if found["messages"] == "error":  # only this one hides warnings; a warning says that standbys do not have a commit
        raise _unusable(found["role"], "client_min_messages", found["messages"], "warning")


def _unusable(role: str, setting: str, value: str, needed: str) -> ConfigurationError:
    return ConfigurationError(
        f"{setting} is {value} behind the pooler, and Queen needs {needed}: run "
        f"ALTER ROLE {role} SET {setting} = '{needed}', and have the pooler reconnect"
    )


async def _is_shared(dsn: str, watched: Connection) -> bool:
    """Whether the process of a connection serves others too."""
    mark = token_hex(8)
    look = f"{PID} /* {mark} */"
    pid = await watched.fetchval(look)
    async with _Holders(dsn) as holders:
        while (held := await holders.hold()) is not None:
            if held == pid or await holders.newest.fetchval(SERVED_ANOTHER, pid, mark):
                return True
            try:
                async with asyncio.timeout(HOLD_SECONDS_MAX):
                    if await watched.fetchval(look) != pid:
                        return True
            except TimeoutError:  # a session has a process, and need not wait for one
                return True
    return False


async def _carries_statements(dsn: str, watched: Connection) -> bool:
    """Whether a statement can be executed by another process than the one that prepared it.

    False if nobody can tell, because the connection got the same process again and again, or no other at all.
    """
    try:
        statement = await watched.prepare(PID, name=f"queen_{token_hex(8)}")
        pid = await statement.fetchval()
        async with _Holders(dsn) as holders:
            while await holders.hold() is not None:
                async with asyncio.timeout(HOLD_SECONDS_MAX):
                    if await statement.fetchval() != pid:
                        return True
    except (asyncpg.InvalidSQLStatementNameError, TimeoutError):
        return False
    return False


class _Holders:
    """Connections that hold transactions, and so the processes that serve them, until the end of the block."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._opened: list[Connection] = []

    @property
    def newest(self) -> Connection:
        """The connection that was opened last."""
        return self._opened[-1]

    async def hold(self) -> int | None:
        """Hold one more process, and say which; None when there are enough, or when none is free."""
        if len(self._opened) == HOLDERS_MAX:
            return None
        connection = await _connect(self._dsn)
        self._opened.append(connection)
        try:
            async with asyncio.timeout(HOLD_SECONDS_MAX):
                await connection.execute("begin")
                pid: int = await connection.fetchval(PID)
        except TimeoutError:
            return None
        return pid

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._opened:
            await _close(connection)


@asynccontextmanager
async def _connected(dsn: str) -> AsyncIterator[Connection]:
    connection = await _connect(dsn)
    try:
        yield connection
    finally:
        await _close(connection)


async def _connect(dsn: str) -> Connection:
    return await asyncpg.connect(dsn, timeout=CONNECT_SECONDS_MAX, server_settings=NAMED, statement_cache_size=0)


async def _close(connection: Connection) -> None:
    """Close in peace where possible: a pooler throws a process away whose client left in a transaction."""
    with suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
        async with asyncio.timeout(CLOSE_SECONDS_MAX):
            if connection.is_in_transaction():
                await connection.execute("rollback")
            await connection.close()
    connection.terminate()
