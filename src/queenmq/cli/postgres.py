"""The PostgreSQL that a command works on itself: yours, or a private one that is stopped at the end."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import asyncpg

from queenmq.config import Settings, masked
from queenmq.engine.postgres.embedded import EmbeddedPostgres
from queenmq.engine.postgres.pooling import check_session
from queenmq.engine.postgres.sessions import Connection
from queenmq.engine.postgres.sqlstates import sentence
from queenmq.errors import ConfigurationError, DatabaseUnavailable

__all__ = ["Connection", "Place", "connect", "postgres"]


class Place(NamedTuple):
    """A database, what people call it, and how to look into it."""

    name: str
    dsn: str
    psql: str


@contextmanager
def postgres(settings: Settings) -> Iterator[Place]:
    """The PostgreSQL of the DSN, or else the private one of the data directory."""
    if settings.dsn is not None:
        yield Place(masked(settings.dsn), settings.dsn, "psql")
        return
    private = EmbeddedPostgres(settings.data_dir)
    try:
        private.start()
    except OSError as error:
        raise ConfigurationError(f"{settings.data_dir} cannot be a data directory: {error.strerror}") from error
    try:
        dsn = asyncio.run(private.create_database())
        yield Place(f"a private PostgreSQL in {private.data_dir}", dsn, str(private.bin_dir / "psql"))
    finally:
        private.stop()


async def connect(dsn: str, settings: Settings) -> Connection:
    """A connection of our own, past a pooler of transactions. Raises DatabaseUnavailable."""
    dsn = settings.session_dsn or dsn
    try:
        await check_session(dsn)
        return await asyncpg.connect(dsn)
    except (OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise DatabaseUnavailable(f"{masked(dsn)} cannot be reached: {sentence(error)}") from error
