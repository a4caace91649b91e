"""One server process: an engine, the application, and a port.

Started by `server`, which hands over the settings as JSON on standard input and reads one line from standard
output: that the process is ready, or why it cannot be. SIGTERM: parked polls go home, what was accepted is
finished, then it exits.
"""

import asyncio
import gc
import logging
import os
import resource
import shutil
import signal
import sys
import threading
from pathlib import Path

import msgspec
import uvloop
from msgspec.structs import replace

from queenmq.broker import heap, logs
from queenmq.broker.broker import Broker
from queenmq.broker.dispatch import Application
from queenmq.broker.listener import Listener
from queenmq.broker.metrics import Metrics
from queenmq.broker.spool import spooling
from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.engine.availability import Presence
from queenmq.errors import QueenError

log = logging.getLogger(__name__)

READY = b"ready\n"
GARBAGE_OBJECTS = 20_000  # that may pile up before somebody looks for cycles among them

Given = tuple[Settings, int, Path]  # what a worker is told: the settings, the port, where workers leave their numbers


class Worker:
    """Serves until it is told to stop."""

    def __init__(self, settings: Settings, port: int, directory: Path) -> None:
        assert settings.dsn is not None
        self._settings = settings
        # One connection less for the engine: that of its presence.
        self._engine = Engine(settings.dsn, replace(settings, pool_size_max=settings.pool_size_max - 1))
        self._presence = Presence(self._engine.database, self._engine.waiting)
        self._port = port
        self._metrics = Metrics(self._engine, directory)
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Open, serve, close."""
        async with self._engine, spooling(self._engine, self._presence, self._settings) as spool:
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):  # not before: there is nothing to finish yet
                loop.add_signal_handler(number, self._stop.set)
            broker = Broker(self._engine, self._presence, spool, self._settings, self._metrics)
            listener = Listener(self._settings, Application(broker).respond, self._engine.room)
            _collect_rarely()
            heap.keep_large_blocks_out()
            await broker.readiness.look()
            await listener.open(self._port)
            beside = [asyncio.create_task(self._metrics.write()), asyncio.create_task(broker.readiness.watch())]
            os.write(1, READY)
            await self._stop.wait()
            await self._drain(listener)
            for task in beside:
                task.cancel()

    async def _drain(self, listener: Listener) -> None:
        """Send parked polls home, take no new connection, and let requests in flight finish."""
        self._engine.waiting.send_home()
        try:
            async with asyncio.timeout(self._settings.stop_seconds_max):
                await listener.close()
        except TimeoutError:
            log.warning("requests in flight took too long and were cut off")


def main() -> None:
    """Run with the settings from standard input; end with the parent."""
    given = msgspec.json.decode(sys.stdin.readline(), type=Given, dec_hook=_path)
    threading.Thread(target=_end_with_parent, args=(given[2],), daemon=True).start()
    logs.configure(given[0])
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a connection is a file, and parked polls are connections
    try:
        uvloop.run(Worker(*given).run())
    except QueenError as error:
        os.write(1, f"{error.code} {error.message}\n".encode())
        sys.exit(1)


def _collect_rarely() -> None:
    """Requests leave no cycles behind; what was made until now stays, and need not be looked at again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS, 20, 50)


def _path(kind: type, value: object) -> object:
    return Path(str(value)) if kind is Path else value


def _end_with_parent(directory: Path) -> None:
    """Standard input closes when the parent dies, however it dies; nobody else tidies up after it then."""
    while sys.stdin.readline():
        pass
    shutil.rmtree(directory, ignore_errors=True)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
