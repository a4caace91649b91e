"""The running server of a data directory, as its postmaster.pid tells, checked against the process itself."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True)
class Postmaster:
    """A server process, where its socket is, and whether it takes connections already."""

    pid: int
    socket_dir: Path
    is_ready: bool

    @classmethod
    def of(cls, pgdata: Path, *, wait_seconds: float) -> Self | None:
        """The server that runs on this directory; waits for one that is just starting or stopping."""
        deadline = time.monotonic() + wait_seconds
        while (found := cls._read(pgdata)) is not None:
            if not _lives(found.pid):
                return None  # PostgreSQL looks after what a crash has left
            if _works_elsewhere(found.pid, pgdata):
                # The number is a zombie's or went to another process since: PostgreSQL would take it for a
                # server and refuse to start. Whether backends are left it finds out by the shared memory.
                for stale in [pgdata / "postmaster.pid", *pgdata.glob(".s.PGSQL.*.lock")]:
                    stale.unlink(missing_ok=True)
                return None
            if found.is_ready or time.monotonic() > deadline:
                return found
            time.sleep(0.05)
        return None

    @classmethod
    def running(cls, pgdata: Path) -> Self | None:
        """The server that runs on this directory and takes connections. Changes nothing; raises PermissionError."""
        found = cls._read(pgdata)
        ready = found is not None and found.is_ready and _lives(found.pid) and not _works_elsewhere(found.pid, pgdata)
        return found if ready else None

    @classmethod
    def _read(cls, pgdata: Path) -> Self | None:
        """Of the file's lines: the process, the socket directory (fifth) and the state (eighth)."""
        try:
            lines = (pgdata / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return None
        if not lines or not lines[0].isdigit():
            return None
        lines += [""] * 8  # it is written in steps
        return cls(pid=int(lines[0]), socket_dir=Path(lines[4]), is_ready=lines[7].strip() == "ready")


def end_orphans(pgdata: Path) -> None:
    """End the processes of a postmaster that was killed, as it would have done itself before a restart.

    They end by themselves as soon as they wait for something; a long calculation may keep one for hours. Only Linux
    tells which processes these are; elsewhere the next attempts to start find out when they have ended.
    """
    for process in Path("/proc").glob("[0-9]*"):
        try:
            of_postgres = (process / "exe").readlink().name.split(" ")[0] == "postgres"
            if of_postgres and (process / "cwd").readlink() == pgdata.resolve():
                os.kill(int(process.name), signal.SIGQUIT)
        except OSError:  # it has ended, or is none of ours
            continue


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):  # someone else's process is not the server of our directory
        return False
    return True


def _works_elsewhere(pid: int, pgdata: Path) -> bool:
    """Whether the process is surely not a server of this directory, where every server keeps its own."""
    try:
        return Path(f"/proc/{pid}/cwd").readlink() != pgdata.resolve()
    except FileNotFoundError:  # a zombie, which nobody has reaped yet, works nowhere
        return Path("/proc/self").exists()
    except OSError:  # no permission to look
        return False
