"""The same job on a cluster: a standalone master with two workers, from the PySpark package."""

import re
from pathlib import Path

import pyspark
import pytest

from tests.spark.jobs import digest, finished, kill, launch

CLASS = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
HOST = ("--host", "127.0.0.1", "--webui-port", "0")


@pytest.fixture
def cluster_of_two(tmp_path):
    """A master on a free port and two workers of one core; answers its address."""
    started = [launch(CLASS, "org.apache.spark.deploy.master.Master", *HOST, "--port", "0")]
    url = next(found[0] for line in started[0].stdout if (found := re.search(r"spark://127\.0\.0\.1:\d+", line)))
    for name in ("one", "two"):
        room = ("--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / name))
        started.append(launch(CLASS, "org.apache.spark.deploy.worker.Worker", *HOST, *room, url))
        assert any("Successfully registered" in line for line in started[-1].stdout)
    yield url
    for each in reversed(started):
        kill(each)


async def test_executors_get_the_package_and_the_address(push, job, connection, cluster_of_two, tmp_path):
    for number in range(4):
        await push("orders", f"p{number}", *(f"{number} {place}" for place in range(50)))
    await finished(job(cluster_of_two))
    assert await digest(connection, "copy") == await digest(connection, "orders")
    for name in ("one", "two"):
        assert list((tmp_path / name).glob("app-*/*/stderr")), "this worker had an executor"
