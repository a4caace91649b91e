"""The server's end of its port: takes connections, counts them, and lets go of them in order."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable

from queenmq.broker.connection import Connection
from queenmq.broker.http import Request, Response
from queenmq.broker.intake import Intake
from queenmq.config import Settings
from queenmq.engine.room import Room
from queenmq.errors import ConfigurationError

BACKLOG = 1024
SURPLUS_MAX = 100  # connections beyond the limit that are told so; more are cut off
HANDSHAKE_SECONDS_MAX = 10.0

Respond = Callable[[Request], Awaitable[Response]]


class Listener:
    """Listens on a port together with other processes."""

    def __init__(self, settings: Settings, respond: Respond, room: Room) -> None:
        self.respond = respond
        self.room = room  # for answers that are not sent yet
        self.loop = asyncio.get_running_loop()
        self.closing = False
        self.header_bytes_max = settings.header_bytes_max
        self.body_bytes_max = settings.body_bytes_max
        self.intake = Intake(settings)
        self.body_seconds_max = settings.body_timeout_ms / 1000
        self.connections_max = settings.connections_max
        self._settings = settings
        self._connections: set[Connection] = set()
        self._surplus: set[Connection] = set()
        self._all_gone = asyncio.Event()
        self._server: asyncio.Server | None = None

    async def open(self, port: int) -> None:
        """Begin to listen."""
        try:
            self._server = await self.loop.create_server(
                lambda: Connection(self),
                self._settings.host,
                port,
                reuse_port=True,
                backlog=BACKLOG,
                ssl=_tls(self._settings),
                ssl_handshake_timeout=HANDSHAKE_SECONDS_MAX if self._settings.tls_cert is not None else None,
            )
        except OSError as error:
            raise ConfigurationError(f"cannot listen on {self._settings.host} port {port}: {error}") from error

    def admit(self, connection: Connection) -> bool:
        """Count a connection; False when there are even too many that are to be sent away."""
        if len(self._connections) < self.connections_max:
            self._connections.add(connection)
            return True
        if len(self._surplus) < SURPLUS_MAX:
            self._surplus.add(connection)
            return True
        return False

    def is_full_for(self, connection: Connection) -> bool:
        """Whether a connection came when there were enough of them."""
        return connection in self._surplus

    def forget(self, connection: Connection) -> None:
        """A connection has ended."""
        self._connections.discard(connection)
        self._surplus.discard(connection)
        if not self._connections and not self._surplus:
            self._all_gone.set()

    async def close(self) -> None:
        """Take no new connection; return when what was asked on the others is answered."""
        self.closing = True
        if self._server is not None:
            self._server.close()
        for connection in [*self._connections, *self._surplus]:
            connection.close()
        if self._connections or self._surplus:
            self._all_gone.clear()
            await self._all_gone.wait()


def _tls(settings: Settings) -> ssl.SSLContext | None:
    if settings.tls_cert is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(settings.tls_cert, settings.tls_key)
    return context
