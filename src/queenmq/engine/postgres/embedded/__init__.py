"""A private PostgreSQL in a data directory, for when nobody brought one.

It listens on a unix socket in a directory only its owner can enter, and nowhere else; inside, everyone is
trusted. A data directory that is already served by a running server is used as it is, and not stopped.

    <data_dir>/pgdata               the cluster: its files, its socket and server.log
    <data_dir>/postgresql-<version> the programs, only where the server's account cannot reach the originals
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import asyncpg

from queenmq.errors import ConfigurationError, DatabaseUnavailable

from .account import Account
from .binaries import has_lz4, major_version, runnable_bin_dir, wheel_bin_dir
from .local import DATABASE, PORT, SUPERUSER, socket_dsn
from .postmaster import Postmaster, end_orphans

__all__ = ["PORT", "SUPERUSER", "EmbeddedPostgres"]

SOCKET_PATH_BYTES_MAX = 100  # the system allows 104 to 108, its terminator included
LOG_BYTES_MAX = 16 * 1024 * 1024
START_SECONDS_MAX = 60
SHARED_MEMORY_SECONDS_MAX = 10

DEFAULTS: Mapping[str, str] = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "log_checkpoints": "off",
    "cluster_name": "queenmq",
}


class EmbeddedPostgres:
    """A cluster in a directory: `with EmbeddedPostgres(directory) as postgres: postgres.dsn()`."""

    def __init__(
        self, data_dir: Path, *, bin_dir: Path | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        self.data_dir = data_dir.absolute()
        self.pgdata = self.data_dir / "pgdata"
        self.log_path = self.pgdata / "server.log"
        self.started_here = False
        self._wanted_bin_dir = bin_dir
        self._settings = {**DEFAULTS, **(settings or {})}
        self._socket_dir: Path | None = None
        self._temporary_socket_dir: Path | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, *, create: bool = True) -> None:
        """Have the cluster running; make it if there is none, or with `create=False` raise DatabaseUnavailable."""
        if not create and not self.pgdata.exists():
            raise DatabaseUnavailable(f"{self.pgdata} does not exist any more")
        self._prepare_data_dir()
        with _exclusive(self.data_dir / ".lock"):
            for half_made in self.data_dir.glob(".new-*"):  # by a process that was killed at it
                shutil.rmtree(half_made, ignore_errors=True)
            self._account = Account(self.pgdata)
            self._refuse_unreachable()
            self.bin_dir = runnable_bin_dir(self._wanted_bin_dir or wheel_bin_dir(), self._account, self.data_dir)
            if not self.pgdata.exists():
                self._initdb()
            self._refuse_other_version()
            running = Postmaster.of(self.pgdata, wait_seconds=START_SECONDS_MAX)
            if running is not None:
                self._socket_dir = running.socket_dir
                return
            self._launch()

    def is_running(self) -> bool:
        """Whether there is a server process for this directory, ready or not."""
        return Postmaster.of(self.pgdata, wait_seconds=0) is not None

    def stop(self) -> None:
        """Stop what was started here; a server that was found running stays."""
        if not self.started_here:
            return
        with _exclusive(self.data_dir / ".lock"):  # a process that needs it starts it again, but not meanwhile
            if self.is_running():  # otherwise it has crashed
                self._run("pg_ctl", "stop", "-D", str(self.pgdata), "-m", "fast", "-w", "-t", str(START_SECONDS_MAX))
        self.started_here = False
        if self._temporary_socket_dir is not None:
            shutil.rmtree(self._temporary_socket_dir, ignore_errors=True)
            self._temporary_socket_dir = None

    def dsn(self, database: str = "postgres") -> str:
        """How to connect to a database of this cluster."""
        if self._socket_dir is None:
            raise DatabaseUnavailable(f"the PostgreSQL in {self.data_dir} was not started")
        return socket_dsn(self._socket_dir, database)

    async def create_database(self, database: str = DATABASE) -> str:
        """Have a database of this name, and say how to connect to it."""
        connection = await asyncpg.connect(self.dsn())
        try:
            await connection.execute('create database "{}"'.format(database.replace('"', '""')))
        except asyncpg.DuplicateDatabaseError:
            pass
        finally:
            await connection.close()
        return self.dsn(database)

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of the server's log."""
        if not self.log_path.exists():
            return ""
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    def _prepare_data_dir(self) -> None:
        if not self.data_dir.exists():
            self.data_dir.mkdir(parents=True)
            self.data_dir.chmod(0o711)  # to be passed through; what is inside has its own, stricter mode

    def _refuse_unreachable(self) -> None:
        obstacle = self._account.obstacle(self.data_dir)
        if obstacle is not None:
            raise ConfigurationError(
                f"PostgreSQL does not run as root, and the account lent to it cannot enter {obstacle}: "
                f"set QUEEN_DATA_DIR to a directory outside of it"
            )

    def _refuse_other_version(self) -> None:
        made_by = (self.pgdata / "PG_VERSION").read_text().strip()
        ours = major_version(self.bin_dir)
        if made_by != str(ours):
            raise ConfigurationError(
                f"{self.pgdata} was made by PostgreSQL {made_by}, and {self.bin_dir} is version {ours}: "
                f"run pg_upgrade, or choose another QUEEN_DATA_DIR"
            )

    def _initdb(self) -> None:
        """Make the cluster beside its final place, so that one half made is never taken for a whole one."""
        scratch = Path(tempfile.mkdtemp(prefix=".new-", dir=self.data_dir))
        self._account.give(scratch)
        builtin = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        self._run(
            *("initdb", "-D", str(scratch), "-U", SUPERUSER, "--auth=trust", "-E", "UTF8", "--locale=C"),
            *(builtin if major_version(self.bin_dir) >= 17 else []),
            *(["--no-sync"] if self._settings.get("fsync") == "off" else []),
        )
        with (scratch / "postgresql.conf").open("a") as conf:
            conf.write("\ninclude_if_exists 'queen.conf'    # written at each start; settings below it win\n")
        scratch.rename(self.pgdata)

    def _launch(self) -> None:
        self._socket_dir = self._prepare_socket_dir()
        self._write_conf()
        if self.log_path.exists() and self.log_path.stat().st_size > LOG_BYTES_MAX:
            self.log_path.replace(self.log_path.with_suffix(".log.1"))
        self.started_here = True  # also if it takes longer than we wait for it
        deadline = time.monotonic() + SHARED_MEMORY_SECONDS_MAX
        while True:
            try:
                self._run(
                    *("pg_ctl", "start", "-D", str(self.pgdata), "-l", str(self.log_path)),
                    *("-w", "-t", str(START_SECONDS_MAX)),
                )
                break
            except DatabaseUnavailable as error:
                # The backends of a postmaster that was killed hold the memory until they have ended.
                if "pre-existing shared memory block" not in str(error) or time.monotonic() > deadline:
                    raise
                end_orphans(self.pgdata)
                time.sleep(0.1)

    def _prepare_socket_dir(self) -> Path:
        """Where the socket is: after a restart where it was before, because clients know the DSN."""
        if len(os.fsencode(self.pgdata / f".s.PGSQL.{PORT}")) <= SOCKET_PATH_BYTES_MAX:
            return self.pgdata
        if self._socket_dir is None:
            self._socket_dir = Path(tempfile.mkdtemp(prefix="queen-"))
        elif not self._socket_dir.exists():
            self._socket_dir.mkdir(mode=0o700)
        elif self._socket_dir.stat().st_uid != self._account.uid:
            raise ConfigurationError(f"{self._socket_dir} now belongs to another account: restart the server")
        self._account.give(self._socket_dir)
        self._temporary_socket_dir = self._socket_dir
        return self._socket_dir

    def _write_conf(self) -> None:
        settings = {
            "unix_socket_directories": str(self._socket_dir),
            "port": str(PORT),
            "wal_compression": "lz4" if has_lz4(self.bin_dir) else "on",
            **self._settings,
        }
        lines = ("{} = '{}'\n".format(name, value.replace("'", "''")) for name, value in settings.items())
        conf = self.pgdata / "queen.conf"
        conf.write_text("".join(lines))
        self._account.give(conf)

    def _run(self, program: str, *arguments: str) -> None:
        """Run a PostgreSQL program as the account, in a clean environment: PGDATA and its like mislead it."""
        kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        done = subprocess.run(  # noqa: S603
            [self.bin_dir / program, *arguments],
            **self._account.run_as(),
            env={**kept, "LC_ALL": "C"},
            cwd="/",  # the current directory may be closed to the account
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise DatabaseUnavailable(
                f"{program} failed in {self.data_dir}:\n{done.stdout.strip()}\n{self.log_tail()}".strip()
            )


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """One process at a time: two that start together must not both make the cluster."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
