"""One client's connection: requests come in, answers go out, one after the other.

The only place that knows how HTTP looks on the wire. llhttp parses (`httptools`); what it refuses, what has too many
headers and what takes too long is answered like every other error. A request is answered in a task of its own, which
begins when all of it is there, or when what is missing is its body: who may not call need not send it. Requests that a
client sends without waiting for answers wait here for their turn, and no more of them are read.
"""

import asyncio
from collections import deque
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from time import time
from typing import TYPE_CHECKING, Any

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpRequestParser

from queenmq.broker.framing import addressee, check_transfer_encoding
from queenmq.broker.http import Request, Response, failure
from queenmq.broker.intake import WAIT_SECONDS_MAX
from queenmq.broker.refusals import HeadersTimeout, HeadersTooLarge, InvalidHttp
from queenmq.errors import BodyTimeout, Busy, QueenError

if TYPE_CHECKING:
    from queenmq.broker.listener import Listener

HEADERS_MAX = 100
HEAD_SECONDS_MAX = 10.0  # for an address and headers to arrive
STALLED_SECONDS = 3.0  # in which a client takes nothing of a large answer: too long if others wait for the room,
STALLED_TIMES_MAX = 10  # or if it happens so many times in a row
PIECE_BYTES = 256 << 10  # of an answer, written at once
GOODBYE_SECONDS = 1.0  # that a client has to read why it is sent away, before the connection is cut
CLOSE = (("connection", "close"),)
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Connection(asyncio.Protocol):
    """Parses requests, has them answered, writes the answers."""

    def __init__(self, listener: "Listener") -> None:
        self._listener = listener
        self._parser = HttpRequestParser(self)
        self._transport: Any = None
        self._target = b""
        self._headers: dict[bytes, bytes] = {}
        self._header_count = 0
        self._host_count = 0
        self._header_bytes = 0
        self._head_bytes = 0  # of an address and headers that are not complete
        self._in_head = False
        self._silent_bytes = 0  # of chunk extensions and trailers, since the headers or the last byte of a body
        self._incoming: Request | None = None  # the request whose body is on its way
        self._current: Request | None = None  # the one that is being answered
        self._waiting: deque[Request] = deque()
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._refusal: Response | None = None  # the last answer, when the client is to be sent away
        self._ended = False  # nothing that comes in counts any more
        self._writable = True
        self._rest: memoryview | None = None  # of an answer that is written in pieces
        self._keep = True  # the connection, after that
        self._stalled: asyncio.TimerHandle | None = None
        self._paused = False  # not reading what the client sends,
        self._held_back = False  # or not until there is room for it

    # -- what the event loop tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has connected; beyond the limit they are told so when they ask for something."""
        self._transport = transport
        if not self._listener.admit(self):
            transport.abort()  # type: ignore[attr-defined]
            return
        self._await(HEAD_SECONDS_MAX)

    def data_received(self, data: bytes) -> None:
        """Bytes have come in."""
        if self._ended:
            return
        self._silent_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:  # there is nothing to change to: what was asked is answered, and that is all
            self._ended = True
        except HttpParserError as error:
            self._refuse(_refusal(error))
            return
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > self._listener.header_bytes_max:
                self._refuse(self._too_large())
            elif self._timer is None:
                self._await(HEAD_SECONDS_MAX)
        elif self._incoming is not None and self._silent_bytes > self._listener.header_bytes_max:
            self._refuse(self._too_large())
        elif self._incoming is not None:
            if not self._incoming.begun:
                self._await(self._listener.body_seconds_max)
                self._begin(self._incoming)
            if not self._incoming.answered and not self._listener.intake.arrived(self._incoming, len(data), self):
                self._held_back = True
                self._transport.pause_reading()
                self._await(WAIT_SECONDS_MAX)

    def connection_lost(self, _: Exception | None) -> None:
        """The client has gone: a poll that waits for it ends, and so does a request that was not all there."""
        self._ended = True
        self._listener.forget(self)
        self._calm()
        if self._rest is not None:
            self._listener.room.give_back(len(self._rest))
            self._end_rest()
        for request in (*self._waiting, self._current, self._incoming):
            if request is not None:
                request.abandon()
                if not request.begun or request is not self._current:
                    self._listener.intake.release(request)
        current = self._current
        self._waiting.clear()
        if self._task is not None and current is not None and (current.waits_for_client or not current.complete):
            self._listener.intake.release(current)
            self._task.cancel()

    def pause_writing(self) -> None:
        """The client does not read what it is sent."""
        self._writable = False

    def resume_writing(self) -> None:
        """It has read most of it."""
        self._writable = True
        if self._rest is not None:
            self._write_rest()
        if self._current is None and self._rest is None:
            self._go_on()

    # -- what the parser tells

    def on_message_begin(self) -> None:
        """A request begins."""
        self._in_head = True
        self._target = b""
        self._headers = {}
        self._head_bytes = self._header_bytes = self._header_count = self._host_count = 0

    def on_url(self, target: bytes) -> None:
        """Some of the address, mostly all of it."""
        self._target += target

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header; trailers behind a body are ignored."""
        if not self._in_head:
            return
        name = name.lower()
        if name in self._headers:
            value = self._headers[name] + b", " + value
        self._headers[name] = value
        self._header_count += 1
        self._host_count += name == b"host"
        self._header_bytes += len(name) + len(value)

    def on_headers_complete(self) -> None:
        """Only the body may be missing now."""
        headers, listener = self._headers, self._listener
        if self._header_count > HEADERS_MAX or self._header_bytes + len(self._target) > listener.header_bytes_max:
            raise self._too_large()
        version = self._parser.get_http_version()
        target, host = addressee(self._target, headers.get(b"host", b""), self._host_count, version)
        if b"transfer-encoding" in headers:
            check_transfer_encoding(headers[b"transfer-encoding"], version)
        self._in_head = False
        self._silent_bytes = 0
        request = self._incoming = Request(self._parser.get_method().decode(), target, headers, listener.body_bytes_max)
        request.host = host
        request.admit = self._listener.intake.admit
        request.keep_alive = self._parser.should_keep_alive()
        if request.announces_too_much():
            request.keep_alive = False
        elif headers.get(b"expect", b"").strip().lower() == b"100-continue":
            request.invite = self._invite

    def on_body(self, data: bytes) -> None:
        """Some of the body."""
        assert self._incoming is not None
        self._silent_bytes = 0
        self._incoming.take(data)

    def on_message_complete(self) -> None:
        """All of a request is here."""
        request, self._incoming = self._incoming, None
        assert request is not None
        if self._timer is not None:
            self._calm()
        request.finish()
        self._listener.intake.arrived_whole(request)
        if not request.begun:
            self._begin(request)

    # -- answering

    def _begin(self, request: Request) -> None:
        request.begun = True
        if self._current is not None or not self._writable or self._rest is not None:
            self._waiting.append(request)
            self._paused = True
            self._transport.pause_reading()
            self._calm()  # a body that nobody reads is not late
        else:
            self._answer(request)

    def _answer(self, request: Request) -> None:
        self._current = request
        self._task = self._listener.loop.create_task(self._respond(request))

    def _invite(self) -> None:
        self._transport.write(CONTINUE)

    async def _respond(self, request: Request) -> None:
        if self._listener.is_full_for(self):
            request.keep_alive = False
            response = failure(Busy(f"the server has {self._listener.connections_max} connections already"))
        else:
            response = await self._listener.respond(request)
        self._listener.intake.release(request)
        self._current = None
        request.answered = True
        if request.invite is not None and not request.complete:
            request.keep_alive = False  # the client may send the body or leave it out: nobody knows what comes next
        if not request.is_abandoned():
            self._write(request, response)
            self._go_on()

    def _write(self, request: Request, response: Response) -> None:
        more = not self._ended or self._waiting or self._refusal is not None
        keep = self._keep = request.keep_alive and not self._listener.closing and bool(more)
        head = _framed_head(response, keep=keep)
        body = b"" if request.method == "HEAD" else response.body
        self._transport.write(head + body[:PIECE_BYTES])
        self._rest = memoryview(body)[PIECE_BYTES:]
        self._listener.room.take(len(self._rest))
        self._write_rest()

    def _write_rest(self) -> None:
        """Write on, a piece at a time, as far as the client takes it."""
        rest = self._rest
        while rest and self._writable:
            piece, rest = rest[:PIECE_BYTES], rest[PIECE_BYTES:]
            self._rest = rest
            self._listener.room.give_back(len(piece))
            self._transport.write(piece)
        self._end_rest()
        if rest:
            self._rest = rest
            self._stalled = self._listener.loop.call_later(STALLED_SECONDS, self._wait_for_client, 1)
        else:
            self._written()

    def _wait_for_client(self, times: int) -> None:
        """The client has taken nothing for a while."""
        if times >= STALLED_TIMES_MAX or self._listener.room.is_short:
            self._transport.abort()
        else:
            self._stalled = self._listener.loop.call_later(STALLED_SECONDS, self._wait_for_client, times + 1)

    def _end_rest(self) -> None:
        self._rest = None
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _written(self) -> None:
        if not self._keep:
            self._waiting.clear()
            self._hang_up(all_read=self._incoming is None and not self._in_head)

    def _go_on(self) -> None:
        """The next request, the last answer, or nothing to do."""
        if self._transport.is_closing() or not self._writable or self._rest is not None:
            return
        if self._waiting:
            request = self._waiting.popleft()
            self._answer(request)
            if not request.complete:
                self._await(self._listener.body_seconds_max)
                self._read_on()
        elif self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            self._transport.write(_framed_head(refusal, keep=False) + refusal.body)
            self._hang_up(all_read=False)
        else:
            self._read_on()

    def _read_on(self) -> None:
        if self._paused:
            self._paused = False
            if not self._held_back:
                self._transport.resume_reading()

    # -- what the intake tells

    def read_on(self) -> None:
        """There is room for more of the body."""
        self._held_back = False
        if not self._paused and not self._transport.is_closing():
            self._await(self._listener.body_seconds_max)
            self._transport.resume_reading()

    def give_up(self) -> None:
        """The body comes too slowly, while others wait for the room that it takes."""
        if not self._paused:
            self._late()

    # -- the end

    def _refuse(self, error: QueenError) -> None:
        """Say why, after what was asked before, and hang up."""
        self._ended = True
        incoming = self._incoming
        if incoming is not None and incoming.answered:
            self._hang_up(all_read=False)
            return
        if incoming is not None and incoming.begun:  # whoever answers it hears that the rest is missing
            incoming.keep_alive = False
            incoming.fail(error)
            self._listener.intake.forget(incoming)
            return
        self._refusal = failure(error)
        if self._current is None:
            self._go_on()

    def _too_large(self) -> HeadersTooLarge:
        return HeadersTooLarge(
            f"address and headers have more than {self._listener.header_bytes_max} bytes, or {HEADERS_MAX} lines"
        )

    def close(self) -> None:
        """The server stops: hang up as soon as what was asked is answered."""
        self._keep = False
        if self._current is None and not self._waiting and self._rest is None:
            self._ended = True
            self._transport.close()

    def _hang_up(self, *, all_read: bool) -> None:
        """Close, but not in the face of a client that is still sending: it would not read the answer."""
        self._ended = True
        if all_read or not self._transport.can_write_eof():
            self._transport.close()
            return
        self._transport.write_eof()
        self._await(GOODBYE_SECONDS)

    def _await(self, seconds: float) -> None:
        self._calm()
        self._timer = self._listener.loop.call_later(seconds, self._late)

    def _calm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        if self._ended:
            self._transport.abort()
        elif self._incoming is not None and self._held_back:
            self._refuse(Busy(f"no room for the body of this request became free in {WAIT_SECONDS_MAX:.0f} s"))
        elif self._incoming is not None:
            self._refuse(BodyTimeout("the body did not arrive in time"))
        elif self._in_head:
            self._refuse(HeadersTimeout(f"the headers did not arrive within {HEAD_SECONDS_MAX:.0f} seconds"))
        else:
            self._transport.close()  # connected, and never asked for anything


def _refusal(error: HttpParserError) -> QueenError:
    cause = error.__context__
    if isinstance(error, HttpParserCallbackError) and isinstance(cause, QueenError):
        return cause
    return InvalidHttp(f"the request is not HTTP: {error}")


@lru_cache(maxsize=256)
def _head(status: int, headers: tuple[tuple[str, str], ...], keep: bool) -> bytes:  # noqa: FBT001 (a cache's key)
    lines = "".join(f"{name}: {value}\r\n" for name, value in (*headers, *(() if keep else CLOSE)))
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{lines}".encode("latin-1")


@lru_cache(maxsize=2)
def _date(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode()


def _framed_head(response: Response, *, keep: bool) -> bytes:
    """What travels before the body of an answer."""
    head = _head(response.status, response.headers, keep)
    if response.status in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
        return b"%bdate: %b\r\n\r\n" % (head, _date(int(time())))
    return b"%bdate: %b\r\ncontent-length: %d\r\n\r\n" % (head, _date(int(time())), len(response.body))
