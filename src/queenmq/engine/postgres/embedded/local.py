"""Find the PostgreSQL that a server on this machine uses, without starting one."""

from pathlib import Path
from urllib.parse import quote

from queenmq.config import Settings
from queenmq.errors import DatabaseUnavailable

from .postmaster import Postmaster

SUPERUSER = "postgres"
PORT = 5432  # only a part of the socket's name: nothing listens on it
DATABASE = "queen"  # of the private PostgreSQL: where Queen's schema is


class NotRunning(DatabaseUnavailable):
    """No private PostgreSQL runs in the data directory."""

    hint = "Start a server with `queen serve`, or set QUEEN_DSN, or QUEEN_DATA_DIR if a server uses another directory."


def local_dsn(settings: Settings) -> str:
    """How to connect to the PostgreSQL of QUEEN_DSN, or else to the private one. Raises NotRunning."""
    if settings.dsn is not None:
        return settings.dsn
    try:
        server = Postmaster.running(settings.data_dir.absolute() / "pgdata")
    except PermissionError as error:
        raise NotRunning(f"{error.filename} is closed to this account: use the one that started the server") from error
    if server is None:
        raise NotRunning(f"no private PostgreSQL runs in {settings.data_dir}")
    return socket_dsn(server.socket_dir, DATABASE)


def session_dsn(settings: Settings) -> str:
    """The same, past a pooler of transactions (QUEEN_SESSION_DSN)."""
    return settings.session_dsn or local_dsn(settings)


def socket_dsn(socket_dir: Path, database: str) -> str:
    """The address of a database behind a socket."""
    return f"postgresql://{SUPERUSER}@/{quote(database)}?host={quote(str(socket_dir))}&port={PORT}"
