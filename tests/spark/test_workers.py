"""What a Python worker of Spark keeps from one task to the next."""

import pytest

from queenmq.config import Settings
from queenmq.errors import InvalidArgument
from queenmq.spark.connection import Connection
from queenmq.spark.workers import working

PID = "select pg_backend_pid()"
SETTINGS = Settings.load({})


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
