"""One server process: an engine, the application, and granian in between.

Started by `server`, which hands over the settings as JSON on standard input and reads one line from standard
output when the process is ready. SIGTERM: parked polls go home, what was accepted is finished, then it exits.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
from pathlib import Path

import msgspec
import uvloop
from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings
from granian.server.embed import Server

from queenmq.broker.app import Application, Broker
from queenmq.config import Settings
from queenmq.engine import Engine

log = logging.getLogger(__name__)

READY = b"ready\n"
HEADER_BYTES_MAX = 64 << 10


class Worker:
    """Serves until it is told to stop."""

    def __init__(self, settings: Settings, port: int) -> None:
        assert settings.dsn is not None
        self._settings = settings
        self._engine = Engine(settings.dsn, settings)
        self._port = port
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Open, serve, close."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        async with self._engine:
            application = Application(Broker(self._engine, self._settings))
            server = Server(
                application,
                address=self._settings.host,
                port=self._port,
                interface=Interfaces.RSGI,
                http=HTTPModes.http1,
                http1_settings=HTTP1Settings(max_buffer_size=HEADER_BYTES_MAX, header_read_timeout=10_000),
                websockets=False,
                backlog=1024,
                backpressure=self._settings.connections_max,
                ssl_cert=self._settings.tls_cert,
                ssl_key=self._settings.tls_key,
                ssl_protocol_min=SSLProtocols.tls12,
                log_enabled=False,
            )
            serving = asyncio.create_task(server.serve())
            os.write(1, READY)
            await self._stop.wait()
            await self._drain(application)
            server.stop()  # type: ignore[no-untyped-call]
            await serving

    async def _drain(self, application: Application) -> None:
        """Send parked polls home and let requests in flight finish."""
        self._engine.waiting.send_home()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.stop_seconds_max):
                await application.idle()


def main() -> None:
    """Run with the settings from standard input; end with the parent."""
    settings, port = msgspec.json.decode(sys.stdin.readline(), type=tuple[Settings, int], dec_hook=_path)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    logging.basicConfig(level=logging.INFO)
    uvloop.run(Worker(settings, port).run())


def _path(kind: type, value: object) -> object:
    return Path(str(value)) if kind is Path else value


def _end_with_parent() -> None:
    """Standard input closes when the parent dies, however it dies."""
    while sys.stdin.readline():
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
