"""A SPARK_HOME whose Python workers import PySpark as it is installed.

Spark tells its workers to import PySpark from a zip file in its home. There Python keeps nothing that it has compiled,
so every worker compiles all of it anew, which takes longer than everything else before its first row.
"""

import atexit
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

from queenmq.config import hand_on, inherited


def ensure_home() -> None:
    """Make sure that workers need not compile PySpark; whoever brings a Spark has chosen what its workers import."""
    if inherited("SPARK_HOME") is None and (_package("pyspark") / "python" / "lib").is_dir():
        hand_on("SPARK_HOME", str(linked_home()))


def linked_home() -> Path:
    """A SPARK_HOME over the installed PySpark, made anew for this process and gone with it."""
    home = Path(tempfile.mkdtemp(prefix="queen-spark-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    installed = _package("pyspark")
    for part in ("bin", "jars", "sbin"):
        (home / part).symlink_to(installed / part)
    for zipped in (installed / "python" / "lib").glob("*.zip"):  # pyspark and py4j: a directory serves as well
        name = zipped.name.partition("-")[0].removesuffix(".zip")
        (place := home / "python" / "lib" / zipped.name).mkdir(parents=True)
        (place / name).symlink_to(_package(name))
    return home


def _package(name: str) -> Path:
    """Where a package is."""
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
