"""A keep-alive HTTP connection that costs little: the load generator shares the machine with the server."""

import asyncio
from collections.abc import Callable, Generator
from typing import Any

Answer = tuple[int, bytes]  # status and body
Talk = Generator[bytes, Answer, None]  # yields requests, is sent their answers

LENGTH = b"content-length: "  # as our server spells it


def get(path: str, token: str | None = None) -> bytes:
    return _head("GET", path, token) + b"\r\n"


def post(path: str, token: str | None = None) -> Callable[[bytes], bytes]:
    """What makes requests of bodies."""
    head = _head("POST", path, token)
    return lambda body: b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body)


def _head(method: str, path: str, token: str | None) -> bytes:
    return (
        f"{method} {path} HTTP/1.1\r\nhost: localhost\r\n" + (f"authorization: Bearer {token}\r\n" if token else "")
    ).encode()


class Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self) -> None:
        self._received = b""
        self._answered: Callable[[Answer], object] | None = None
        self._failed: Callable[[BaseException], object] | None = None
        self._transport: Any = None

    @classmethod
    async def open(cls, host: str, port: int) -> "Connection":
        _, connection = await asyncio.get_running_loop().create_connection(cls, host, port)
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._failed is not None:
            self._failed(exc or ConnectionError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        if self._received:
            data = self._received + data
        end = data.find(b"\r\n\r\n") + 4
        length = data.find(LENGTH, 0, end)
        if length > 0:
            length += len(LENGTH)
            rest = end + int(data[length : data.index(b"\r", length)])
        else:
            rest = end
        if end < 4 or len(data) < rest:
            self._received = data
            return
        self._received = b""
        if self._answered is not None:
            self._answered((int(data[9:12]), data[end:rest]))

    def ask(self, request: bytes) -> asyncio.Future[Answer]:
        """Send one request; its answer is awaited."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._answered, self._failed = answer.set_result, answer.set_exception
        self._transport.write(request)
        return answer

    def converse(self, talk: Talk) -> asyncio.Future[None]:
        """One request after the other, without a task for it."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def go_on(answer: Answer | None) -> None:
            try:
                self._transport.write(talk.send(answer))  # type: ignore[arg-type]
            except StopIteration:
                self._answered = self._failed = None
                over.set_result(None)
            except Exception as error:  # noqa: BLE001 (whoever waits hears of it)
                self._answered = self._failed = None
                over.set_exception(error)

        self._answered, self._failed = go_on, over.set_exception
        go_on(None)
        return over

    def close(self) -> None:
        self._answered = self._failed = None
        self._transport.close()
