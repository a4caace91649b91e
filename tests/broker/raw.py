"""A client that sends bytes as they are: what it says need not be HTTP."""

import asyncio
import contextlib
from urllib.parse import urlsplit

import httpx

SECONDS_MAX = 60


class Raw:
    """`async with Raw.connected(server) as client: client.send(b"…"); answer = await client.answer()`."""

    def __init__(self, reader, writer):
        self._reader = reader
        self._writer = writer

    @classmethod
    @contextlib.asynccontextmanager
    async def connected(cls, server):
        url = urlsplit(server.url)
        reader, writer = await asyncio.open_connection(url.hostname, url.port)
        try:
            async with asyncio.timeout(SECONDS_MAX):
                yield cls(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    def send(self, data):
        self._writer.write(data)

    def pause(self):
        """Take nothing of what the server sends; the system's own buffers still do."""
        self._writer.transport.pause_reading()

    async def sent(self):
        """Let what was sent go out before more is."""
        await self._writer.drain()

    async def answer(self, *, body=True):
        """The next answer, as httpx would have read it."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").rstrip().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        content = await self._reader.readexactly(int(headers.get("content-length", 0))) if body else b""
        return httpx.Response(int(status.split()[1]), headers=headers, content=content)

    async def closed(self):
        """Whether the server hangs up, and says nothing more."""
        return await self._reader.read() == b""
