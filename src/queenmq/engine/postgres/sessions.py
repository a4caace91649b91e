"""Sessions with PostgreSQL as Queen needs them: opened with no startup parameter that a pooler refuses.

A pooler accepts `application_name` in every mode, and PgBouncer refuses nearly everything else. So a session gets its
settings by one statement after it has connected.
"""

import contextlib
import socket
from collections.abc import Mapping
from typing import Any

import asyncpg

from queenmq.config import Settings

Connection = Any  # asyncpg.Connection and its proxies have no annotations

CONNECT_SECONDS_MAX = 10.0
SEND_BYTES = 1 << 20  # of a call that the system takes at once, so that PostgreSQL need not wait for our event loop
APPLICATION = "queen"
NAMED = {"application_name": APPLICATION}  # the only startup parameter


def session_settings(settings: Settings) -> dict[str, str]:
    """What every session of ours is told."""
    return {
        "default_transaction_isolation": "read committed",
        "client_min_messages": "warning",  # a warning is how PostgreSQL says that a commit may not be on the standbys
        "statement_timeout": str(settings.statement_timeout_ms),
        "lock_timeout": str(settings.lock_timeout_ms),
        "idle_in_transaction_session_timeout": str(settings.statement_timeout_ms),
        "jit": "off",
        "search_path": "pg_catalog",
        "timezone": "UTC",
    }


async def tell(connection: Connection, values: Mapping[str, str]) -> None:
    """Set what a session is told, in one round trip; `values` are ours and need no escaping."""
    calls = (f"set_config('{name}', '{value}', false)" for name, value in values.items())
    await connection.execute(f"select {', '.join(calls)}")


async def open_session(dsn: str, values: Mapping[str, str], application: str = APPLICATION) -> Connection:
    """A session of one's own, which the caller closes; `dsn` must lead to one that stays (see `pooling`)."""
    connection = await asyncpg.connect(
        dsn, timeout=CONNECT_SECONDS_MAX, server_settings={"application_name": application}
    )
    try:
        await tell(connection, values)
    except BaseException:
        connection.terminate()
        raise
    return connection


def widen(connection: Connection) -> None:
    """Let a whole call leave at once: the rest of it would go when whatever is made ready meanwhile is ready.

    Over TCP the system sees to that itself, unless it is told a size.
    """
    way = connection._transport.get_extra_info("socket")  # noqa: SLF001 (asyncpg has no other way to it)
    if way.family == getattr(socket, "AF_UNIX", None):  # not everywhere
        with contextlib.suppress(OSError):  # some systems refuse what is more than they give
            way.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
