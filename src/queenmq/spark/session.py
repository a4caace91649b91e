"""A Spark session that knows Queen: with a Java, with the package on every executor, with sane defaults."""

import atexit
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pyspark.sql import SparkSession

from queenmq.config import PREFIX, SECRETS, Settings, hand_on, inherited
from queenmq.spark.home import ensure_home
from queenmq.spark.java import ensure_java
from queenmq.spark.source import QueenDataSource

PACKAGE = Path(__file__).parents[1]
HANDED_ON = ("dsn", "session_dsn", "encryption_keys")  # what executors need of the environment

DEFAULTS = {
    "spark.sql.python.filterPushdown.enabled": "true",  # the option pushFilters needs it
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|queen_dsn|session_dsn|queen_encryption_keys",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Between the JVM and its Python: half the processor time of TCP, and a tenth of the system calls. Buffers of half a
    # megabyte are too large for a region of a small heap, and Java collects garbage because of them.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.pandas.udf.buffer.size": str(1 << 18),
    "spark.buffer.size": str(1 << 18),
}
LOCAL_DEFAULTS = {
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
    # Checkpoints on this machine's disks. Left alone, Hadoop starts twelve programs for each file: readlink, chmod.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


def session(
    master: str | None = None, *, name: str = "queen", ui: bool = False, config: Mapping[str, str] | None = None
) -> SparkSession:
    """The running session, or a new one, with `format("queen")` registered.

    Without a master it is that of spark-submit, or this machine: `local[*]`.
    Java comes from JAVA_HOME, from PATH or, where there is none from 17 on, from a wheel. QUEEN_DSN,
    QUEEN_SESSION_DSN and QUEEN_ENCRYPTION_KEYS of this process reach the executors and are hidden in Spark's pages;
    `config` wins over every default.
    """
    submitted = inherited("PYSPARK_GATEWAY_PORT") is not None  # spark-submit has started a JVM already
    if not submitted:
        ensure_java()
        master = master or "local[*]"
    if inherited("PYSPARK_PYTHON") is None:
        hand_on("PYSPARK_PYTHON", sys.executable)
    local = master is not None and (master.startswith("local[") or master == "local")
    if local and not submitted:
        ensure_home()
    chosen = DEFAULTS | (LOCAL_DEFAULTS if local else {}) | _environment() | {"spark.ui.enabled": str(ui).lower()}
    chosen |= {} if master is None else {"spark.master": master}
    builder = SparkSession.builder.appName(name)
    for key, value in (chosen | dict(config or {})).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if not local:
        spark.sparkContext.addPyFile(str(_zipped()))
    return register(spark)


def register(spark: SparkSession) -> SparkSession:
    """Make `format("queen")` known to a session whose driver has queenmq as a zip file only. No setting changes."""
    spark.dataSource.register(QueenDataSource)
    return spark


def _environment() -> dict[str, str]:
    settings = Settings.load()
    found = {name: getattr(settings, name) for name in HANDED_ON}
    assert set(found) <= SECRETS
    return {f"spark.executorEnv.{PREFIX}{name.upper()}": value for name, value in found.items() if value}


@cache
def _zipped() -> Path:
    """The package as executors import it, for as long as this process lives."""
    directory = Path(tempfile.mkdtemp(prefix="queen-spark-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    path = directory / "queenmq.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(PACKAGE.rglob("*.py")):
            archive.write(file, Path(PACKAGE.name) / file.relative_to(PACKAGE))
    return path
