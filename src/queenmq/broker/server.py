"""The server: a PostgreSQL of its own if none is given, and worker processes on one port.

A worker that dies is replaced; all of them end with the server, however it ends.
"""

import asyncio
import contextlib
import logging
import os
import shlex
import signal
import socket
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import msgspec

from queenmq.broker import logs, metrics, notices
from queenmq.broker.exposure import check_protection, exposure, is_exposed
from queenmq.broker.worker import READY, Given
from queenmq.config import Settings, masked
from queenmq.engine.postgres.database import Database
from queenmq.engine.postgres.embedded import EmbeddedPostgres
from queenmq.engine.postgres.embedded.supervisor import supervised
from queenmq.engine.retention import kept
from queenmq.errors import BY_CODE, ConfigurationError, QueenError

log = logging.getLogger(__name__)

RESTART_SECONDS = (0.1, 5.0)  # pause before a dead worker is replaced: at first, and at most


class Server:
    """Starts everything, keeps it running, stops it in order."""

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._say = say
        self._stop = asyncio.Event()
        self._workers = settings.workers or max(1, (os.cpu_count() or 1) // 2)

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        check_protection(self._settings)
        check_certificate(self._settings)
        port = free_port(self._settings.host, self._settings.port)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        with tempfile.TemporaryDirectory(prefix="queen-") as directory:  # where workers leave numbers for each other
            async with self._database(Path(directory)) as settings:
                await self._serve((settings, port, Path(directory)))
        self._say("Queen has stopped.")

    async def _serve(self, given: Given) -> None:
        ready = asyncio.Event()
        tasks = [asyncio.create_task(self._keep(number, given, ready)) for number in range(self._workers)]
        stopped = asyncio.create_task(self._stop.wait())
        started = asyncio.create_task(ready.wait())
        await asyncio.wait((*tasks, stopped, started), return_when=asyncio.FIRST_COMPLETED)
        if started.done():
            self._greet(given, await _retention(given[0]))
        await asyncio.wait((*tasks, stopped), return_when=asyncio.FIRST_COMPLETED)
        self._stop.set()
        started.cancel()
        await asyncio.wait(tasks)  # all of them, whatever the first has to complain about
        await asyncio.gather(*tasks)

    @contextlib.asynccontextmanager
    async def _database(self, directory: Path) -> AsyncIterator[Settings]:
        """The settings with a DSN: the given one, or that of a private PostgreSQL."""
        if self._settings.dsn is not None:
            yield self._settings
            return
        postgres = EmbeddedPostgres(self._settings.data_dir)
        async with supervised(postgres, partial(notices.write, directory)):
            yield msgspec.structs.replace(self._settings, dsn=await postgres.create_database())

    def _greet(self, given: Given, retention: str | None) -> None:
        port = given[1]
        scheme = "http" if self._settings.tls_cert is None else "https"
        url = f"{scheme}://{_in_url(self._settings.host)}:{port}"
        self._say(f"Queen listens at {url}")
        if self._settings.dsn is None:
            self._say(f"  data       {self._settings.data_dir} (a private PostgreSQL)")
        self._say(f"  database   {shlex.quote(masked(given[0].dsn or ''))}")
        if retention is not None:
            self._say(f"  retention  {retention}")
        self._say(f"  dashboard  {url}/")
        self._say(f"  try it     {url}/docs")
        self._say(f"  workers    {self._workers}")
        if is_exposed(self._settings):
            self._say(f"  warning    {exposure(self._settings)}")
        self._say("Ctrl-C stops it.")

    async def _keep(self, number: int, given: Given, ready: asyncio.Event) -> None:
        """Run one worker, and another when it dies."""
        pause = RESTART_SECONDS[0]
        while not self._stop.is_set():
            said = await self._work(given, ready)
            if self._stop.is_set():
                return
            if not ready.is_set():
                self._stop.set()
                code, _, reason = said.decode().strip().partition(" ")
                raise BY_CODE.get(code, ConfigurationError)(reason or "the server could not start: see above")
            log.error("a worker died and is replaced", extra={"worker": number, "said": said.decode().strip()})
            pause = RESTART_SECONDS[0] if said == READY else min(pause * 2, RESTART_SECONDS[1])
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stop.wait()

    async def _work(self, given: Given, ready: asyncio.Event) -> bytes:
        """Run one worker process to its end; answers what it said: that it was ready, or why not."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "queenmq.broker.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for us; we tell the workers
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(given, enc_hook=str) + b"\n")
        ended = asyncio.create_task(process.wait())
        stopped = asyncio.create_task(self._stop.wait())
        saying = asyncio.create_task(process.stdout.readline())
        try:
            await asyncio.wait((saying, stopped), return_when=asyncio.FIRST_COMPLETED)
            if saying.done() and saying.result() == READY:
                ready.set()
            await asyncio.wait((ended, stopped), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            if process.returncode is None:
                process.terminate()
                await self._end(process, ended)
            metrics.bury(given[2], process.pid)
        said = await saying
        await process.communicate(b"")  # the pipes end with the process, not with the loop
        return said

    async def _end(self, process: asyncio.subprocess.Process, ended: asyncio.Task[int]) -> None:
        """Give a worker the time it may take, and a little more."""
        done, _ = await asyncio.wait((ended,), timeout=self._settings.stop_seconds_max + 5)
        if not done:
            log.error("a worker did not stop in time and was killed")
            process.kill()
            await ended


async def _retention(settings: Settings) -> str | None:
    """What is kept, for the greeting; None if PostgreSQL has gone away since the workers were ready."""
    assert settings.dsn is not None
    database = Database(settings.dsn, settings)
    try:
        await database.open()
        try:
            return (await kept(database)).sentence
        finally:
            await database.close()
    except QueenError as error:
        log.warning("the retention of the queues could not be read", extra={"reason": str(error)})
        return None


def check_certificate(settings: Settings) -> None:
    """Refuse a certificate and a key that nobody could be served with."""
    if settings.tls_cert is None or settings.tls_key is None:
        return
    for name, path in (("TLS_CERT", settings.tls_cert), ("TLS_KEY", settings.tls_key)):
        try:
            path.read_bytes()
        except OSError as error:
            raise ConfigurationError(f"QUEEN_{name}: cannot read {path}: {error.strerror}") from None
    try:
        # An encrypted key would ask for its password at the terminal; an empty one does not fit.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.tls_cert, settings.tls_key, password="")
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error)
        raise ConfigurationError(
            f"QUEEN_TLS_CERT and QUEEN_TLS_KEY: {settings.tls_cert} and {settings.tls_key} are not a certificate and "
            f"its private key, not encrypted, in PEM ({reason.replace('_', ' ').lower()})"
        ) from None


def free_port(host: str, port: int) -> int:
    """The port to listen on; refuses one that somebody else has (workers share theirs, so they would not notice)."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ConfigurationError(f"cannot listen on {host} port {port}: {error.strerror}") from error
        found: int = probe.getsockname()[1]
        return found


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def serve(settings: Settings) -> int:
    """Run a server in this process until it is told to stop."""
    logs.configure(settings)
    asyncio.run(Server(settings, partial(print, flush=True)).run())
    return 0
