"""What a type checker must know of handlers, and of the application's own connections and pools.

A handler takes the message or its payload, then perhaps the message (of a batch: all of them), then with a pool a
connection. Plain functions answer nothing; coroutine functions are for AsyncQueen. At run time `handler` reads the
signature of a function, and `connections` knows pools by their classes.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol, TypeVar

from queenmq.client.answers import Acked
from queenmq.model import AckStatus

M = TypeVar("M")  # a message

Handler = Callable[[Any], None] | Callable[[Any, M], None] | Callable[[Any, list[M]], None]
AsyncHandler = (
    Handler[M]  # in threads
    | Callable[[Any], Awaitable[None]]
    | Callable[[Any, M], Awaitable[None]]
    | Callable[[Any, list[M]], Awaitable[None]]
)

HandlerWithin = (
    Callable[[Any, Any], None]
    | Callable[[Any, M, Any], None]
    | Callable[[Any, list[M], Any], None]
    | Callable[[Any, Any, M], None]
    | Callable[[Any, Any, list[M]], None]
)
AsyncHandlerWithin = (
    Callable[[Any, Any], Awaitable[None]]
    | Callable[[Any, M, Any], Awaitable[None]]
    | Callable[[Any, list[M], Any], Awaitable[None]]
    | Callable[[Any, Any, M], Awaitable[None]]
    | Callable[[Any, Any, list[M]], Awaitable[None]]
)


OnAck = Callable[[M, AckStatus, Acked], object]


class AsyncConnection(Protocol):
    """A connection to push on: asyncpg's, psycopg's, SQLAlchemy's or a session of it, for asyncio or without."""

    def execute(self, statement: Any, /, *arguments: Any, **options: Any) -> Any:
        """Run a statement."""


class Connection(AsyncConnection, Protocol):
    """The same without asyncio: psycopg's, SQLAlchemy's or a session of it."""

    def commit(self) -> None:
        """End the transaction, at once."""


class _Acquiring(Protocol):
    def acquire(self) -> AbstractAsyncContextManager[AsyncConnection]: ...


class _AsyncConnecting(Protocol):
    def getconn(self) -> Any: ...
    def connection(self) -> AbstractAsyncContextManager[AsyncConnection]: ...


class _AsyncBeginning(Protocol):
    def begin(self) -> AbstractAsyncContextManager[AsyncConnection]: ...


class _Connecting(Protocol):
    def getconn(self) -> Any: ...
    def connection(self) -> AbstractContextManager[Connection]: ...


class _Beginning(Protocol):
    def begin(self) -> AbstractContextManager[Connection]: ...


AsyncPool = _Acquiring | _AsyncConnecting | _AsyncBeginning
Pool = _Connecting | _Beginning
