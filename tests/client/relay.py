"""A way to a server that loses answers, or makes its own.

relay.manner = "pass"       requests and answers go through
relay.manner = "lose"       the request is done; the answer never comes back
relay.manner = "hold"       the answer is kept until relay.let_go is set; relay.holds is set when there is one
relay.manner = "silence"    the request arrives nowhere, and nobody is told
relay.manner = b"HTTP/…"    this is the answer

relay.losses_max = 3        then it passes on what comes
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

CHUNK = 1 << 16


class Relay:
    """Listens on a port of its own and forwards to a server; counts the requests by what it did with them."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = (parts.hostname, parts.port)
        self.manner: str | bytes = "pass"
        self.losses_max = 10**9
        self.seen = 0
        self.holds, self.let_go = asyncio.Event(), asyncio.Event()
        self.url = ""
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, request by request."""
        upstream: Any = None
        while request := await reader.read(CHUNK):
            self.seen += 1
            if isinstance(self.manner, bytes) and self.losses_max > 0:
                self.losses_max -= 1
                writer.write(self.manner)
                return
            if self.manner == "silence":
                await reader.read()  # until the client gives up
                return
            upstream = upstream or await self._connect()
            upstream[1].write(request)
            answer = await upstream[0].read(CHUNK)
            if self.manner == "lose" and self.losses_max > 0:
                self.losses_max -= 1
                return
            if self.manner == "hold":
                self.holds.set()
                await self.let_go.wait()
            writer.write(answer)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*self._server)
        self.writers.append(writer)
        return reader, writer


@contextlib.asynccontextmanager
async def relay(url: str) -> AsyncIterator[Relay]:
    """A relay to a server."""
    between = Relay(url)
    guests: set[Any] = set()

    async def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        guests.add(asyncio.current_task())
        between.writers.append(writer)
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, asyncio.CancelledError):
            await between.serve(reader, writer)

    listener = await asyncio.start_server(welcome, "127.0.0.1", 0)
    between.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield between
    finally:
        listener.close()
        for guest in guests:
            guest.cancel()
        await asyncio.gather(*guests)
        for writer in between.writers:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in between.writers), return_exceptions=True)
