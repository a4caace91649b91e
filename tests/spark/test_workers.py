"""What a Python worker of Spark keeps from one task to the next."""

import subprocess
import sys

import pytest

from queenmq.config import Settings
from queenmq.errors import InvalidArgument
from queenmq.spark.connection import Connection
from queenmq.spark.workers import working

PID = "select pg_backend_pid()"
SETTINGS = Settings.load({})
BATCHES = """
import gc, resource, sys
from queenmq.config import Settings
from queenmq.spark.workers import working

def batch():
    return [b"x" * (1 << 20) for _ in range(40)]

with working(sys.argv[1], Settings.load({}), {}):
    import decimal, fractions, statistics  # as much is imported when it is first used
    batch()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    batch()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(len(gc.get_objects()))
"""


def task(dsn: str, plans: dict[str, str] | None = None) -> int:
    """The session that a task has."""
    with working(dsn, SETTINGS, plans or {}) as connection:
        pid: int = connection.value(PID)
        return pid


def test_a_session_is_left_to_the_next_task(database):
    assert task(database) == task(database)


def test_a_task_that_wants_other_plans_has_a_session_of_its_own(database):
    first = task(database)
    assert task(database, {"enable_seqscan": "off"}) != first


def test_what_a_failed_task_leaves_is_not_used(database):
    first = task(database)
    with pytest.raises(InvalidArgument), working(database, SETTINGS, {}):
        raise InvalidArgument("no")
    assert task(database) != first


def test_a_session_that_postgresql_has_ended_is_replaced(database):
    first = task(database)
    with Connection(database) as other:
        assert other.value("select pg_terminate_backend($1, 5000)", first)
    assert task(database) != first


def test_no_more_than_one_is_left(database):
    with working(database, SETTINGS, {}) as outer, working(database, SETTINGS, {}) as inner:
        assert inner.value(PID) != outer.value(PID)
    assert inner.closed
    assert not outer.closed


def test_memory_is_kept_and_what_is_imported_is_no_garbage(database):
    command = [sys.executable, "-c", BATCHES, database]
    faults, objects = map(int, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    assert faults < 1_000  # 40 MB are 10,000 pages
    assert objects < 1_000  # of tens of thousands
