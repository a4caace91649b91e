"""A keep-alive HTTP connection that costs little: the load generator shares the machine with the server."""

import asyncio
from typing import Any


class Connection(asyncio.Protocol):
    """One request at a time; answers status and body."""

    def __init__(self, token: str | None = None) -> None:
        self._head = "host: queen\r\n" + (f"authorization: Bearer {token}\r\n" if token else "")
        self._received = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._transport: Any = None

    @classmethod
    async def open(cls, host: str, port: int, token: str | None = None) -> "Connection":
        _, connection = await asyncio.get_running_loop().create_connection(lambda: cls(token), host, port)
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, _ = self._received.partition(b"\r\n\r\n")
        if not separator:
            return
        length = 0
        for line in bytes(head).lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line[15:])
        end = len(head) + 4 + length
        if len(self._received) >= end and self._answer is not None:
            body = bytes(self._received[len(head) + 4 : end])
            del self._received[:end]
            answer, self._answer = self._answer, None
            answer.set_result((int(head[9:12]), body))

    def get(self, path: str) -> asyncio.Future[tuple[int, bytes]]:
        return self._send(f"GET {path} HTTP/1.1\r\n{self._head}\r\n".encode())

    def post(self, path: str, body: bytes) -> asyncio.Future[tuple[int, bytes]]:
        head = f"POST {path} HTTP/1.1\r\n{self._head}content-length: {len(body)}\r\n\r\n"
        return self._send(head.encode() + body)

    def _send(self, request: bytes) -> asyncio.Future[tuple[int, bytes]]:
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def close(self) -> None:
        self._answer = None
        self._transport.close()
