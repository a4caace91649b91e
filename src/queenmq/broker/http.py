"""A request as routes see it, a response as they make it; `connection` has what they look like on the wire."""

import asyncio
import io
from datetime import datetime
from functools import lru_cache
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct

from queenmq.broker.intake import queue_in_body, queue_in_path
from queenmq.broker.refusals import UnexpectedBody, UnsupportedEncoding
from queenmq.errors import (
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
    from collections.abc import Awaitable, Callable, Mapping

    from queenmq.api.call import Role

T = TypeVar("T")

JSON = ("content-type", "application/json")
PLAIN = frozenset({b"", b"identity"})  # content encodings that change nothing
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
    """An error as every client reads it: `error` is a sentence, `code` is stable, `hint` says what else can be done."""
    headers = [JSON]
    body: dict[str, object] = {"error": error.message, "code": error.code}
    if error.hint is not None:
        body["hint"] = error.hint
    if error.http_status in (429, 503):
        headers.append(("retry-after", "1"))
    if isinstance(error, Unauthorized):
        headers.append(("www-authenticate", error.challenge))
    if isinstance(error, UnsupportedEncoding):
        headers.append(("accept-encoding", "identity"))
    if isinstance(error, MethodNotAllowed) and error.detail is not None:
        headers.append(("allow", error.detail))
    if isinstance(error, QueueFull):
        body |= {"queue": error.queue, "depth": error.depth, "limit": error.limit}
    return Response(error.http_status, encode(body), tuple(headers))


class Request:
    """One request: where it goes, what it asks, and who asks."""

    __slots__ = ("_arrival", "_body", "_body_bytes_max", "_body_size", "_gone", "_query", "_queue", "admit", "answered",
                 "begun", "complete", "headers", "host", "invite", "keep_alive", "method", "parked_seconds",
                 "path", "path_parameters", "phases", "producer", "query_string", "roles", "started",
                 "waits_for_client")  # fmt: skip

    def __init__(self, method: str, target: bytes, headers: dict[bytes, bytes], body_bytes_max: int) -> None:
        self.method = method
        self.path, _, self.query_string = target.decode(errors="replace").partition("?")  # as sent, not decoded
        self.headers = headers  # by name in small letters; values of the same name are joined with commas
        self.host = ""  # the server's own name and port, as the client knows them
        self.path_parameters: Mapping[str, str] = {}
        self.producer: str | None = None  # who pushes, as authentication knows it
        self.roles: frozenset[Role] | None = None  # what the token allows; None where nobody is asked for one
        self.phases: dict[str, float] = {}  # what took how many seconds, for the log of slow requests
        self.parked_seconds = 0.0  # spent waiting because the client asked to
        self.started = perf_counter()
        self.keep_alive = True
        self.begun = False  # somebody is answering it, or about to
        self.complete = False  # all of the body is here
        self.waits_for_client = False  # answering makes no sense without the client
        self.answered = False
        self.invite: Callable[[], None] | None = None  # tells a client that waits for it to send the body
        self.admit: Callable[[Request, str, bytes], Awaitable[None]] | None = (
            None  # waits until there is room for the body
        )
        self._gone = False
        self._query: Mapping[str, str] | None = None
        self._body_bytes_max = body_bytes_max
        self._body = io.BytesIO()  # hands out what was written without copying it
        self._body_size = 0
        self._queue: str | None = None
        self._arrival: asyncio.Future[None] | None = None

    def abandon(self) -> None:
        """The client has gone."""
        self._gone = True

    def is_abandoned(self) -> bool:
        """Whether the client has gone."""
        return self._gone

    # -- the body

    def take(self, chunk: bytes) -> None:
        """Some of the body has come; what is too large is not kept, but counted."""
        self._body_size += len(chunk)
        if self._body_size <= self._body_bytes_max and not self.answered:
            self._body.write(chunk)
        else:
            self._body = io.BytesIO()  # and read on: who is still sending would not hear the answer

    def finish(self) -> None:
        """All of the body is here."""
        self.complete = True
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def fail(self, error: QueenError) -> None:
        """The rest of the body will not come."""
        self.complete = True
        if self._arrival is None:
            self._arrival = asyncio.get_running_loop().create_future()
        if not self._arrival.done():
            self._arrival.set_exception(error)
            self._arrival.exception()  # whoever asks for the body gets it; perhaps nobody does

    @property
    def announced_bytes(self) -> int:
        """How large the client says that the body is; 0 if it does not say."""
        length = self.headers.get(b"content-length", b"")
        return int(length) if length.isdigit() else 0

    @property
    def queue(self) -> str:
        """The queue that is named first, as `intake` sees it."""
        if self._queue is None:
            self._queue = queue_in_path(self.path) or queue_in_body(self._body.getvalue())
        return self._queue

    def announces_too_much(self) -> bool:
        """Whether the client says, before it sends it, that the body is larger than allowed."""
        if self.announced_bytes > self._body_bytes_max:
            self._body_size = self.announced_bytes
            self.complete = True  # nobody waits for the rest of it
        return self.complete

    def check_size(self) -> None:
        """Refuse a body that is known to be too large, also where nobody reads it."""
        if self._body_size > self._body_bytes_max:
            raise BodyTooLarge(f"the body has {self._body_size} bytes; {self._body_bytes_max} is the most")

    async def body(self) -> bytes:
        """All of it, unless it is larger or slower than allowed; it is handed out once."""
        encoding = self.headers.get(b"content-encoding")
        if encoding is not None and encoding.strip().lower() not in PLAIN:
            raise UnsupportedEncoding(f"the body is encoded with {encoding[:100].decode('latin-1')!r}")
        if self._arrival is None and not self.complete:
            self._arrival = asyncio.get_running_loop().create_future()
            if self.invite is not None:
                self.invite()
                self.invite = None
        if self._arrival is not None:
            await self._arrival
        self.check_size()
        body = self._body.getvalue()
        if self.admit is not None and body:
            queue, self._body = self.queue, io.BytesIO()
            await self.admit(self, queue, body)
        return body

    async def json(self, decoder: "msgspec.json.Decoder[T]") -> T:
        """The body, decoded and checked."""
        return decode(await self.body(), decoder)

    async def json_or(self, default: T, decoder: "msgspec.json.Decoder[T]") -> T:
        """The same where a body may be left out."""
        body = await self.body()
        return decode(body, decoder) if body else default

    # -- the query

    @property
    def query(self) -> "Mapping[str, str]":
        """The query's parameters; the last one wins."""
        if self._query is None:
            try:
                self._query = _parsed(self.query_string)
            except ValueError:
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
        number = whole_number(value)
        if number is None or not least <= number <= most:
            raise InvalidArgument(f"{name} is a whole number from {least} to {most}, not {value[:40]!r}")
        return number

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


def whole_number(text: str) -> int | None:
    """The whole number that a text is, unless it is another text or too long."""
    return int(text) if text.isascii() and text.removeprefix("-").isdigit() and len(text) < 20 else None


@lru_cache(maxsize=1_000)  # consumers ask the same again and again
def _parsed(query: str) -> "Mapping[str, str]":
    if "\ufffd" in query:  # what stands for bytes that are no text
        raise ValueError(query)
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
        raise UnexpectedBody(f"the body is not what this call takes: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidJson(f"the body is not JSON: {error}") from None
