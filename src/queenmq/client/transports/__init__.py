"""Two ways to a queue: over HTTP to a server, or straight to PostgreSQL with an engine in this process."""

from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from queenmq.api.call import Call
from queenmq.config import Settings, masked
from queenmq.errors import ConfigurationError

A = TypeVar("A")
T = TypeVar("T")

DEFAULT_URL = "http://127.0.0.1:6632"


class AsyncTransport(Protocol):
    """Sends calls and brings their answers."""

    async def open(self) -> None:
        """Connect; done by the first call otherwise."""

    async def call(self, call: Call[A]) -> A:
        """Ask, and wait for the answer."""

    async def close(self) -> None:
        """Finish what was begun, and disconnect."""


SERVING: ContextVar[AsyncTransport | None] = ContextVar("SERVING", default=None)  # whose messages a handler has


def find_address(address: str | None, settings: Settings) -> str:
    """The address that was given, or QUEEN_URL, or QUEEN_DSN, or that of a server on this machine."""
    return address or settings.url or settings.dsn or DEFAULT_URL


def open_transport(address: str | None, token: str | None, settings: Settings | None) -> AsyncTransport:
    """The transport for an address, see find_address."""
    settings = settings or Settings.load()
    address = find_address(address, settings)
    scheme = urlsplit(address.strip()).scheme
    if scheme in ("http", "https"):
        from queenmq.client.transports.http import HttpTransport  # noqa: PLC0415 (aiohttp takes a while to import)

        return HttpTransport(address, token or settings.token, settings)
    if scheme in ("postgresql", "postgres"):
        from queenmq.client.transports.postgres import PostgresTransport  # noqa: PLC0415 (so does the engine)

        return PostgresTransport(address, settings)
    raise ConfigurationError(f"an address begins with http://, https:// or postgresql://, not {masked(address)[:60]!r}")


def local_address(settings: Settings) -> str:
    """The address of the PostgreSQL that a server on this machine uses. Raises DatabaseUnavailable if none runs."""
    from queenmq.client.transports.postgres import local_dsn  # noqa: PLC0415 (only the direct way needs the engine)

    return local_dsn(settings)


async def run_with(transport: AsyncTransport, work: Callable[[AsyncTransport], Coroutine[Any, Any, T]]) -> T:
    """Do work that makes many calls; transports.blocking has the twin, which does it on the loop of its thread."""
    return await work(transport)
