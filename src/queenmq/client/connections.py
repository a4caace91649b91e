"""An application's own connections and pools: statements of ours in transactions of theirs.

asyncpg, psycopg 3 and SQLAlchemy are known by the names of their classes, so none of them is imported for the sake of
an application that does not use it. Statements have `{}` where an argument goes; all arguments are text.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any, TypeVar

from queenmq.errors import BY_SQLSTATE, InvalidArgument, QueenError

T = TypeVar("T")
Arguments = Sequence[str | None]

KNOWN = "asyncpg, psycopg 3 and SQLAlchemy are known"


async def execute_in(connection: Any, statement: str, arguments: Arguments) -> None:
    """Run a statement on an application's connection, in its transaction. Raises what our functions refuse."""
    run = _look_up(connection, ASYNCHRONOUS) or _look_up(connection, BLOCKING)  # that blocks, as its owner knows
    if run is None:
        raise InvalidArgument(f"a {type(connection).__name__} is no connection to push on: {KNOWN}")
    try:
        running = run(connection, statement, arguments)
        if isinstance(running, Awaitable):
            await running
    except Exception as error:
        raise _ours(error) from error


def execute_in_blocking(connection: Any, statement: str, arguments: Arguments) -> None:
    """The same on a connection that blocks."""
    run = _look_up(connection, BLOCKING)
    if run is None:
        raise InvalidArgument(f"a {type(connection).__name__} is no blocking connection: {KNOWN}")
    try:
        run(connection, statement, arguments)
    except Exception as error:
        raise _ours(error) from error


def transaction(pool: Any) -> AbstractAsyncContextManager[Any]:
    """A connection of a pool and a transaction on it, which ends with the block."""
    return _opener(pool, POOLS, "pool for coroutine functions")(pool)


def transaction_blocking(pool: Any) -> AbstractContextManager[Any]:
    """The same for threads."""
    return _opener(pool, BLOCKING_POOLS, "pool for plain functions")(pool)


def check_pool(pool: Any, *, asynchronous: bool) -> None:
    """Refuse what handlers cannot get connections from."""
    if asynchronous:
        _opener(pool, POOLS, "pool for coroutine functions")
    else:
        _opener(pool, BLOCKING_POOLS, "pool for plain functions")


def _look_up(thing: Any, table: Mapping[str, T]) -> T | None:
    """What a table says of a class or one it is made of, by the name of its package and its own."""
    names = (f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(thing).__mro__)
    return next((table[name] for name in names if name in table), None)


def _opener(pool: Any, table: Mapping[str, Callable[[Any], T]], what: str) -> Callable[[Any], T]:
    found = _look_up(pool, table)
    if found is None:
        raise InvalidArgument(f"a {type(pool).__name__} is no {what}: {', '.join(table)} are")
    return found


def _ours(error: Exception) -> Exception:
    """What our functions refuse, as our error with its detail; everything else as it is.

    SQLAlchemy keeps the driver's error in `orig`; that of asyncpg is the cause of an error of SQLAlchemy's there.
    The text of a driver's error has lines like "DETAIL: …" in it, so the parts are read one by one.
    """
    theirs: Any = getattr(error, "orig", error)
    cause: Any = theirs.__cause__
    if hasattr(cause, "sqlstate"):
        theirs = cause
    kind: type[QueenError] | None = BY_SQLSTATE.get(getattr(theirs, "sqlstate", None) or "")
    if kind is None:
        return error
    if hasattr(theirs, "diag"):  # psycopg
        return kind(theirs.diag.message_primary, detail=theirs.diag.message_detail)
    return kind(theirs.args[0], detail=theirs.detail)


# -- statements


def _asyncpg(connection: Any, statement: str, arguments: Arguments) -> Any:
    return connection.execute(statement.format(*(f"${n}" for n in range(1, len(arguments) + 1))), *arguments)


def _psycopg(connection: Any, statement: str, arguments: Arguments) -> Any:
    return connection.execute(statement.format(*("%s" for _ in arguments)), arguments)


def _sqlalchemy(connection: Any, statement: str, arguments: Arguments) -> Any:
    from sqlalchemy import text  # noqa: PLC0415 (whose connection it is, has it)

    names = [f"p{n}" for n in range(len(arguments))]
    filled = statement.format(*(f":{name}" for name in names))
    return connection.execute(text(filled), dict(zip(names, arguments, strict=True)))


Run = Callable[[Any, str, Arguments], Any]

ASYNCHRONOUS: Mapping[str, Run] = {
    "asyncpg.Connection": _asyncpg,
    "asyncpg.PoolConnectionProxy": _asyncpg,
    "psycopg.AsyncConnection": _psycopg,
    "sqlalchemy.AsyncConnection": _sqlalchemy,
    "sqlalchemy.AsyncSession": _sqlalchemy,
    "sqlalchemy.async_scoped_session": _sqlalchemy,
}
BLOCKING: Mapping[str, Run] = {
    "psycopg.Connection": _psycopg,
    "sqlalchemy.Connection": _sqlalchemy,
    "sqlalchemy.Session": _sqlalchemy,
    "sqlalchemy.scoped_session": _sqlalchemy,
}


# -- transactions


@asynccontextmanager
async def _asyncpg_transaction(pool: Any) -> AsyncIterator[Any]:
    async with pool.acquire() as connection, connection.transaction():
        yield connection


@asynccontextmanager
async def _psycopg_transaction(pool: Any) -> AsyncIterator[Any]:
    async with pool.connection() as connection, connection.transaction():
        yield connection


@contextmanager
def _psycopg_blocking(pool: Any) -> Iterator[Any]:
    with pool.connection() as connection, connection.transaction():
        yield connection


def _sqlalchemy_transaction(pool: Any) -> Any:
    return pool.begin()


POOLS: Mapping[str, Callable[[Any], AbstractAsyncContextManager[Any]]] = {
    "asyncpg.Pool": _asyncpg_transaction,
    "psycopg_pool.AsyncConnectionPool": _psycopg_transaction,
    "sqlalchemy.AsyncEngine": _sqlalchemy_transaction,
    "sqlalchemy.async_sessionmaker": _sqlalchemy_transaction,
}
BLOCKING_POOLS: Mapping[str, Callable[[Any], AbstractContextManager[Any]]] = {
    "psycopg_pool.ConnectionPool": _psycopg_blocking,
    "sqlalchemy.Engine": _sqlalchemy_transaction,
    "sqlalchemy.sessionmaker": _sqlalchemy_transaction,
}
