"""The same jobs on a cluster: a standalone master with two workers, from the PySpark package."""

import re
import sys
from pathlib import Path

import pyspark
import pytest

from tests.spark.jobs import digest, finished, kill, launch

CLASS = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
HOST = ("--host", "127.0.0.1", "--webui-port", "0")
PIPELINES = Path(__file__).parent / "pipelines_job.py"


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    """Where two workers leave what they have done."""
    return [tmp_path_factory.mktemp(name) for name in ("one", "two")]


@pytest.fixture(scope="module")
def cluster_of_two(workers):
    """A master on a free port and two workers of one core; answers its address."""
    started = [launch(CLASS, "org.apache.spark.deploy.master.Master", *HOST, "--port", "0")]
    url = next(found[0] for line in started[0].stdout if (found := re.search(r"spark://127\.0\.0\.1:\d+", line)))
    for directory in workers:
        room = ("--cores", "1", "--memory", "1g", "--work-dir", str(directory))
        started.append(launch(CLASS, "org.apache.spark.deploy.worker.Worker", *HOST, *room, url))
        assert any("Successfully registered" in line for line in started[-1].stdout)
    yield url
    for each in reversed(started):
        kill(each)


async def test_executors_get_the_package_and_the_address(push, job, connection, cluster_of_two, workers):
    for number in range(4):
        await push("orders", f"p{number}", *(f"{number} {place}" for place in range(50)))
    await finished(job(cluster_of_two))
    assert await digest(connection, "copy") == await digest(connection, "orders")
    for directory in workers:
        assert list(directory.glob("app-*/*/stderr")), "this worker had an executor"


async def test_pipelines_do_there_what_they_do_here(push, database, connection, cluster_of_two, tmp_path):
    for number in range(4):
        await push("orders", f"p{number}", *({"total": place} for place in range(25)))
    driver = launch(sys.executable, str(PIPELINES), str(tmp_path / "archive"), cluster_of_two, QUEEN_DSN=database)
    try:
        await finished(driver)
    finally:
        kill(driver)
    assert await digest(connection, "again") == await digest(connection, "orders")
    rows = await connection.fetch("select name, state, rows from queen.pipeline_runs order by id")
    assert [tuple(row) for row in rows] == [
        (name, "done", 100) for name in ("archive", "history", "replay", "stats", "schema")
    ]
