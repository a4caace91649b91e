"""A request as routes see it, a response as they make it; the only place that knows granian's protocol objects."""

import asyncio
from datetime import datetime
from functools import lru_cache
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct

from queenmq.errors import (
    BodyTimeout,
    BodyTooLarge,
    InvalidArgument,
    InvalidJson,
    InvalidTimestamp,
    MethodNotAllowed,
    QueenError,
    QueueFull,
    Unauthorized,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from queenmq.broker.routing import Role, Route

T = TypeVar("T")

JSON = ("content-type", "application/json")
LATE = "the body is late"
TRUE, FALSE = frozenset({"true", "1", "yes", "on"}), frozenset({"false", "0", "no", "off"})

encode = msgspec.json.Encoder().encode


class Response(Struct, frozen=True):
    """Status, body and headers; an empty body is sent as none."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = (JSON,)


EMPTY = Response(204, headers=())


def answer(value: object, status: int = 200) -> Response:
    """A value as JSON."""
    return Response(status, encode(value))


def failure(error: QueenError) -> Response:
    """An error as every client reads it: `error` is a sentence, `code` is stable, `hint` says what to do."""
    headers = [JSON]
    body: dict[str, object] = {"error": error.message, "code": error.code, "hint": error.hint}
    if error.http_status in (429, 503):
        headers.append(("retry-after", "1"))
    if isinstance(error, Unauthorized):
        headers.append(("www-authenticate", error.challenge))
    if isinstance(error, MethodNotAllowed) and error.detail is not None:
        headers.append(("allow", error.detail))
    if isinstance(error, QueueFull):
        body |= {"queue": error.queue, "depth": error.depth, "limit": error.limit}
    return Response(error.http_status, encode(body), tuple(headers))


class Request:
    """One request: where it goes, what it asks, and who asks."""

    __slots__ = ("_body_bytes_max", "_body_seconds_max", "_protocol", "_query", "headers", "method",
                 "parked_seconds", "path", "path_parameters", "phases", "producer", "query_string", "roles", "route",
                 "started")  # fmt: skip

    def __init__(self, scope: Any, protocol: Any, body_bytes_max: int, body_seconds_max: float) -> None:
        self.method: str = scope.method
        self.path: str = scope.path
        self.query_string: str = scope.query_string
        self.headers: Mapping[str, str] = scope.headers
        self.path_parameters: dict[str, str] = {}
        self.producer: str | None = None  # who pushes, as authentication knows it
        self.roles: frozenset[Role] | None = None  # what the token allows; None where nobody is asked for one
        self.route: Route | None = None
        self.phases: dict[str, float] = {}  # what took how many seconds, for the log of slow requests
        self.parked_seconds = 0.0  # spent waiting because the client asked to
        self.started = perf_counter()
        self._protocol = protocol
        self._query: Mapping[str, str] | None = None
        self._body_bytes_max = body_bytes_max
        self._body_seconds_max = body_seconds_max

    async def gone(self) -> None:
        """Return when the client has closed the connection."""
        await self._protocol.client_disconnect()

    # -- the body

    async def body(self) -> bytes:
        """All of it, unless it is larger or slower than allowed."""
        # As asyncio.timeout does it, at a tenth of its cost: this is done for every push and ack.
        task = asyncio.current_task()
        assert task is not None
        late = asyncio.get_running_loop().call_later(self._body_seconds_max, task.cancel, LATE)
        try:
            return await self._read()
        except asyncio.CancelledError as cancelled:
            if cancelled.args != (LATE,) or task.uncancel():
                raise
            raise BodyTimeout(f"the body did not arrive within {self._body_seconds_max:.0f} seconds") from None
        finally:
            late.cancel()

    async def _read(self) -> bytes:
        length = self.headers.get("content-length")
        if length is not None and length.isdigit() and int(length) <= self._body_bytes_max:
            return bytes(await self._protocol())
        chunks, size = [], 0
        async for chunk in self._protocol:
            size += len(chunk)
            if size <= self._body_bytes_max:
                chunks.append(chunk)
            else:
                chunks.clear()  # and read on: who is still sending would not hear the answer
        if size > self._body_bytes_max:
            raise BodyTooLarge(f"the body has {size} bytes; {self._body_bytes_max} is the most")
        return b"".join(chunks)

    async def json(self, decoder: "msgspec.json.Decoder[T]") -> T:
        """The body, decoded and checked."""
        return decode(await self.body(), decoder)

    # -- the query

    @property
    def query(self) -> "Mapping[str, str]":
        """The query's parameters; the last one wins."""
        if self._query is None:
            try:
                self._query = _parsed(self.query_string)
            except (UnicodeDecodeError, ValueError):
                raise InvalidArgument("the query is not UTF-8") from None
        return self._query

    def text(self, name: str) -> str | None:
        """A parameter, or None where it is missing or empty."""
        return self.query.get(name) or None

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number within its range."""
        value = self.query.get(name)
        if value is None:
            return default
        if not (value.isascii() and value.lstrip("-").isdigit() and len(value) < 20) or not least <= int(value) <= most:
            raise InvalidArgument(f"{name} is a whole number from {least} to {most}, not {value[:40]!r}")
        return int(value)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """True or false."""
        value = self.query.get(name)
        if value is None:
            return default
        if value.lower() not in TRUE | FALSE:
            raise InvalidArgument(f"{name} is true or false, not {value[:40]!r}")
        return value.lower() in TRUE

    def moment(self, name: str) -> datetime | None:
        """A timestamp with a time zone."""
        value = self.text(name)
        return None if value is None else moment(value, name)


@lru_cache(maxsize=1_000)  # consumers ask the same again and again
def _parsed(query: str) -> "Mapping[str, str]":
    return dict(parse_qsl(query, keep_blank_values=True, errors="strict"))


def moment(value: str, name: str) -> datetime:
    """A timestamp with a time zone; refused where it has none."""
    try:
        parsed = msgspec.convert(value, datetime)
    except msgspec.ValidationError:
        raise InvalidTimestamp(f"{name} is not a timestamp: {value[:40]!r}") from None
    if parsed.tzinfo is None:
        raise InvalidTimestamp(f"{name} has no time zone: {value[:40]!r}")
    return parsed


def decode(body: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """JSON into what a route expects."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"the body is not what this call takes: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidJson(f"the body is not JSON: {error}") from None
