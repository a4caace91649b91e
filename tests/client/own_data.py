"""An application's own connections and pools, of every driver there is an SDK for."""

from contextlib import AsyncExitStack, asynccontextmanager

import asyncpg
import psycopg
import psycopg_pool
import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as sa_asyncio
from sqlalchemy.pool import NullPool

POOLS = ("asyncpg", "psycopg", "sqlalchemy engine", "sqlalchemy sessions")
BLOCKING_POOLS = ("psycopg blocking", "sqlalchemy blocking engine", "sqlalchemy blocking sessions")


def url(dsn: str, driver: str) -> str:
    return dsn.replace("postgresql://", f"postgresql+{driver}://", 1)


@asynccontextmanager
async def pool(name: str, dsn: str):
    """A pool by its name."""
    async with AsyncExitStack() as opened:
        match name:
            case "asyncpg":
                yield await opened.enter_async_context(asyncpg.create_pool(dsn, min_size=1, max_size=4))
            case "psycopg":
                yield await opened.enter_async_context(
                    psycopg_pool.AsyncConnectionPool(dsn, min_size=1, max_size=4, open=False)
                )
            case "sqlalchemy engine" | "sqlalchemy sessions":
                engine = sa_asyncio.create_async_engine(url(dsn, "asyncpg"), poolclass=NullPool)
                opened.push_async_callback(engine.dispose)
                yield engine if name.endswith("engine") else sa_asyncio.async_sessionmaker(engine)
            case "psycopg blocking":
                yield opened.enter_context(psycopg_pool.ConnectionPool(dsn, min_size=1, max_size=4, open=False))
            case "sqlalchemy blocking engine" | "sqlalchemy blocking sessions":
                engine = sa.create_engine(url(dsn, "psycopg"), poolclass=NullPool)
                opened.callback(engine.dispose)
                yield engine if name.endswith("engine") else orm.sessionmaker(engine)


async def connection(opened: AsyncExitStack, name: str, dsn: str):
    """A connection by its name, in a transaction or ready to begin one; with what commits and what rolls back."""
    match name:
        case "asyncpg":
            made = await asyncpg.connect(dsn)
            opened.push_async_callback(made.close)
            transaction = made.transaction()
            await transaction.start()
            return made, transaction.commit, transaction.rollback
        case "psycopg":
            made = await opened.enter_async_context(await psycopg.AsyncConnection.connect(dsn))
        case "psycopg blocking":
            made = opened.enter_context(psycopg.connect(dsn))
        case "sqlalchemy connection" | "sqlalchemy session":
            engine = sa_asyncio.create_async_engine(url(dsn, "psycopg"), poolclass=NullPool)
            opened.push_async_callback(engine.dispose)
            kind = engine.connect if name.endswith("connection") else sa_asyncio.async_sessionmaker(engine)
            made = await opened.enter_async_context(kind())
        case "sqlalchemy blocking connection" | "sqlalchemy blocking session":
            engine = sa.create_engine(url(dsn, "psycopg"), poolclass=NullPool)
            opened.callback(engine.dispose)
            made = opened.enter_context(engine.connect() if name.endswith("connection") else orm.Session(engine))
    return made, made.commit, made.rollback


CONNECTIONS = ("asyncpg", "psycopg", "sqlalchemy connection", "sqlalchemy session")
BLOCKING_CONNECTIONS = ("psycopg blocking", "sqlalchemy blocking connection", "sqlalchemy blocking session")
