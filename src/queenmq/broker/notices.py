"""What the server process tells its workers about the private PostgreSQL: a file, while PostgreSQL does not run."""

from pathlib import Path

NAME = "private-postgres"


def write(directory: Path, notice: str | None) -> None:
    """Replace the notice, or remove it; no worker sees half of one."""
    path = directory / NAME
    if notice is None:
        path.unlink(missing_ok=True)
        return
    new = path.with_suffix(".new")
    new.write_text(notice)
    new.replace(path)


def read(directory: Path) -> str | None:
    """The notice, if there is one."""
    try:
        return (directory / NAME).read_text()
    except FileNotFoundError:
        return None
