"""Over HTTP: one connection pool, several servers.

A call goes to the server that answered last. Where nothing was sent (refused, unreachable) the next one is asked; where
the answer was lost, too, if asking twice does no harm: reads, and pushes, whose messages all have a transaction id, so
that the second one finds the first. Everything else is for the caller to decide.

A pop that is called off may have been answered already: it is listened to for a moment longer, and what it brings is
given back.
"""

import asyncio
import logging
import os
import random
from collections.abc import Callable, Sequence
from io import BytesIO
from time import monotonic
from typing import Any, TypeVar

import aiohttp
import msgspec
from msgspec import Struct
from yarl import URL

from queenmq import __version__
from queenmq.api.call import Call
from queenmq.client.transports.exchange import Exchange, declared
from queenmq.client.transports.http_traffic import TRAFFIC
from queenmq.client.unavailable import ClientClosed, NotSent
from queenmq.config import Settings
from queenmq.errors import BY_CODE, ConfigurationError, InvalidArgument, QueenError, Refused, Unavailable

log = logging.getLogger(__name__)

A = TypeVar("A")

CONNECT_SECONDS_MAX = 5.0
PAUSE_SECONDS = 0.05  # before all servers are asked again; doubles
PAUSE_SECONDS_MAX = 2.0
CONNECTIONS_MAX = 1_000  # long polls hold one each
IDLE_SECONDS_MAX = 30.0
LATE_SECONDS_MAX = 0.5  # for an answer that nobody waits for any more
WHOLE_BYTES_MAX = 1 << 20  # a larger body is sent piece by piece, so that the event loop can do other things

NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
LOST = (aiohttp.ClientError, TimeoutError, OSError)


class HttpTransport:
    """Sends calls to a server, or to the next one."""

    def __init__(self, addresses: str, token: str | None, settings: Settings) -> None:
        self._addresses = [_address(each.strip()) for each in addresses.split(",") if each.strip()]
        self._current = 0
        self._settings = settings
        self._headers = {"user-agent": f"queenmq/{__version__}", "content-type": "application/json"}
        if token is not None:
            self._headers["authorization"] = f"Bearer {token}"
        self._seconds_max = settings.request_timeout_ms / 1000
        self._session: aiohttp.ClientSession | None = None  # belongs to an event loop: the first call's
        self._closed = False
        self._returns: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Nothing: connections are made when they are needed."""

    async def close(self) -> None:
        """Close the connections."""
        self._closed = True
        if self._returns:
            await asyncio.wait(self._returns)
        if self._session is not None:
            await self._session.close()

    async def call(self, call: Call[A]) -> A:
        """Ask a server; when the caller goes away meanwhile, leave nothing behind."""
        exchange = _exchange(call)
        if exchange.unclaimed is None:
            return await self._send(exchange)
        sending = asyncio.create_task(self._send(exchange))
        try:
            return await asyncio.shield(sending)
        except asyncio.CancelledError:
            task = asyncio.create_task(self._give_back(sending, exchange.unclaimed))
            self._returns.add(task)
            task.add_done_callback(self._returns.discard)
            raise

    async def _give_back(self, sending: asyncio.Task[A], unclaimed: Callable[[A], Sequence[Exchange[Any]]]) -> None:
        """Undo what was done for a caller who has gone; should it fail, the lease expires."""
        await asyncio.wait([sending], timeout=LATE_SECONDS_MAX)
        sending.cancel()
        await asyncio.wait([sending])
        if sending.cancelled() or sending.exception() is not None:
            return
        for exchange in unclaimed(sending.result()):
            try:
                await self._ask(self._addresses[self._current], exchange)
            except QueenError as error:
                log.warning("an unused lease could not be given back", extra={"cause": repr(error)})

    async def _send(self, exchange: Exchange[A]) -> A:
        """Ask a server; where it does no harm, ask another one."""
        tries = len(self._addresses) * (1 + self._settings.retry_attempts_max)
        deadline = monotonic() + self._seconds_max + exchange.wait_seconds
        arrived = False  # a request was sent, and its answer was lost
        for number in range(1, tries + 1):
            if self._closed:
                raise ClientClosed("this client was closed")
            place = self._current
            try:
                return await self._ask(self._addresses[place], exchange)
            except Unavailable as error:
                if self._closed:
                    raise ClientClosed("this client was closed meanwhile") from error
                if self._current == place:  # else somebody else found out
                    self._current = (place + 1) % len(self._addresses)
                harmless = exchange.repeatable or isinstance(error, NotSent)
                arrived = arrived or not isinstance(error, NotSent)
                if not harmless or number == tries or monotonic() > deadline:
                    if arrived and isinstance(error, NotSent):
                        raise Unavailable(f"{error.message}; an earlier try may have arrived") from error
                    raise
            if number % len(self._addresses) == 0:
                await asyncio.sleep(_pause(number // len(self._addresses)))
        raise AssertionError("the last try answers or raises")

    async def _ask(self, address: str, exchange: Exchange[A]) -> A:
        timeout = aiohttp.ClientTimeout(
            sock_connect=CONNECT_SECONDS_MAX, sock_read=self._seconds_max + exchange.wait_seconds
        )
        target = f"{address}{exchange.path}?{exchange.query}" if exchange.query else address + exchange.path
        try:
            async with self._opened().request(
                exchange.method,
                URL(target, encoded=True),  # names are quoted already, as they must arrive
                data=_data(exchange.body),
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                body = await response.read()
        except NOT_SENT as error:
            raise NotSent(f"no server answers at {address}: {_reason(error)}") from error
        except LOST as error:
            raise Unavailable(f"the answer of {address} was lost: {str(error) or type(error).__name__}") from error
        if not 200 <= response.status < 300:
            raise _error(response, body)
        try:
            return exchange.read(body)
        except msgspec.MsgspecError as error:
            raise UnknownAnswer(f"{address} does not answer as a server of Queen does: {error}") from error

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                headers=self._headers,
                connector=aiohttp.TCPConnector(limit=CONNECTIONS_MAX, keepalive_timeout=IDLE_SECONDS_MAX),
                cookie_jar=aiohttp.DummyCookieJar(),
                middlewares=[_once],
            )
        return self._session


def _exchange(call: Call[A]) -> Exchange[A]:
    """The call as it travels, if what it was given can."""
    try:
        return TRAFFIC.get(type(call), declared)(call)
    except (TypeError, ValueError, OverflowError) as error:  # of another type, not UTF-8, too large a number
        raise InvalidArgument(f"this call cannot be sent: {error}") from error


def _data(body: bytes | None) -> bytes | BytesIO | None:
    return BytesIO(body) if body is not None and len(body) > WHOLE_BYTES_MAX else body


async def _once(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Send a request once: aiohttp would repeat a GET whose connection breaks, and a pop is a GET."""
    try:
        return await send(request)
    except NOT_SENT:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise aiohttp.ClientPayloadError(str(error)) from error  # which it does not repeat


class UnknownAnswer(QueenError):
    """The answer cannot be read."""

    hint = "Check the address: another program, or another version of Queen, may answer there."


class _Refusal(Struct):
    error: str
    code: str = ""


def _error(response: aiohttp.ClientResponse, body: bytes) -> QueenError:
    """The error that a server answered, as the class it was raised as."""
    try:
        refusal = msgspec.json.decode(body, type=_Refusal)
    except msgspec.MsgspecError:
        refusal = _Refusal(f"{response.url.host} answered {response.status} {response.reason}")
    kind = BY_CODE.get(refusal.code)
    if kind is None:
        kind = Refused if 400 <= response.status < 500 else Unavailable if response.status > 500 else QueenError
    return kind(refusal.error, detail=body.decode(errors="replace"))


def _reason(error: Exception) -> str:
    """Why there is no connection, in the words of the operating system where it has some."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return os.strerror(cause.errno) if isinstance(cause, OSError) and cause.errno and cause.errno > 0 else str(cause)


def _address(text: str) -> str:
    try:
        parts = URL(text)
    except ValueError:
        parts = URL()
    if parts.scheme not in ("http", "https") or not parts.host or parts.query_string or parts.fragment:
        raise ConfigurationError(f"a server's address looks like http://host:6632, not {text[:60]!r}")
    return text.rstrip("/")


def _pause(round_number: int) -> float:
    """Longer from round to round, and a little different for each client."""
    return float(min(PAUSE_SECONDS * 2 ** (round_number - 1), PAUSE_SECONDS_MAX) * random.uniform(0.5, 1))
