"""Where the private PostgreSQL keeps its files, unless QUEEN_DATA_DIR names a directory."""

import os
import stat
from pathlib import Path

DATA_OF_ROOT = Path("/var/lib/queenmq")


def default_data_dir(xdg_data_home: str | None) -> Path:
    """A checkout's own `.queen`; for an installed package, the data directory of the user.

    PostgreSQL does not run as root, so root lends it another account. If that account cannot enter the checkout, or if
    root uses an installed package, the data is in /var/lib.
    """
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    checkout = _checkout()
    if checkout is not None and (not root or _others_may_enter(checkout)):
        return checkout / ".queen"
    if xdg_data_home:
        return Path(xdg_data_home) / "queenmq"
    return DATA_OF_ROOT if root else Path.home() / ".local/share/queenmq"


def _checkout() -> Path | None:
    """The directory of the project, if this file is in its `src` and not in a place where packages are installed."""
    package = Path(__file__).resolve().parent
    project = package.parents[1] / "pyproject.toml"
    if package.parent.name != "src" or not project.is_file() or 'name = "queenmq"' not in project.read_text():
        return None
    return project.parent


def _others_may_enter(directory: Path) -> bool:
    return all(step.stat().st_mode & stat.S_IXOTH for step in (directory, *directory.parents))
