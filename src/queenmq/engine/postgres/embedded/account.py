"""Who runs the server process: PostgreSQL refuses to run as root, so root lends it another account."""

import os
import pwd
import stat
from pathlib import Path
from typing import TypedDict

from queenmq.errors import ConfigurationError

CANDIDATES = ("postgres", "nobody")


class RunAs(TypedDict, total=False):
    """The arguments of subprocess.run that switch to an account; none when there is nothing to switch."""

    user: int
    group: int
    extra_groups: list[int]


class Account:
    """The account that owns the data directory and runs the server."""

    def __init__(self, pgdata: Path) -> None:
        self.switches = os.geteuid() == 0
        self.uid, self.gid = _owner(pgdata) if self.switches else (os.geteuid(), os.getegid())

    def run_as(self) -> RunAs:
        """What subprocess.run needs to become this account."""
        return RunAs(user=self.uid, group=self.gid, extra_groups=[]) if self.switches else RunAs()

    def give(self, path: Path) -> None:
        """Make a path the account's own."""
        if self.switches:
            os.chown(path, self.uid, self.gid)

    def obstacle(self, path: Path) -> Path | None:
        """The first directory on the way to a path, or the path itself, that this account cannot enter."""
        if not self.switches:
            return None
        way = [*reversed(path.absolute().parents), path]
        return next((step for step in way if not self._may_enter(step.stat())), None)

    def _may_enter(self, entry: os.stat_result) -> bool:
        if entry.st_uid == self.uid:
            return bool(entry.st_mode & stat.S_IXUSR)
        if entry.st_gid == self.gid:
            return bool(entry.st_mode & stat.S_IXGRP)
        return bool(entry.st_mode & stat.S_IXOTH)


def _owner(pgdata: Path) -> tuple[int, int]:
    """Whoever owns the data directory already; for a new one, an account that systems bring along."""
    if pgdata.exists():
        entry = pgdata.stat()
        if entry.st_uid != 0:
            return entry.st_uid, entry.st_gid
    for name in CANDIDATES:
        try:
            account = pwd.getpwnam(name)
        except KeyError:
            continue
        return account.pw_uid, account.pw_gid
    raise ConfigurationError(
        "PostgreSQL does not run as root, and there is neither an account postgres nor nobody to lend it: "
        "run as another user, or set QUEEN_DSN"
    )
