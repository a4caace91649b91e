"""Python workers of Spark, which live on from task to task, and what they keep meanwhile."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache

from queenmq.config import Settings
from queenmq.errors import DatabaseUnavailable
from queenmq.spark.connection import Connection

Address = tuple[str, Mapping[str, str]]

_left: list[tuple[Address, Connection]] = []  # by the last task: one at most


@contextmanager
def working(dsn: str, settings: Settings, plans: Mapping[str, str]) -> Iterator[Connection]:
    """The session of a task: the one that the worker's last task has left, if it leads there, or a new one.

    A session that begins costs PostgreSQL as much as reading some ten thousand messages. It is left to the next task
    only when all went well, and ends with the worker: Spark ends those that have had nothing to do for a minute.
    """
    _settle()
    connection = _taken((dsn, plans)) or Connection(dsn, settings, plans)
    try:
        yield connection
    except BaseException:
        connection.close()
        raise
    leave()
    _left.append(((dsn, plans), connection))


def leave() -> None:
    """End the session that was left, if there is one."""
    while _left:
        _, connection = _left.pop()
        connection.close()


def _taken(address: Address) -> Connection | None:
    """What the last task has left, if it is what is needed and PostgreSQL still answers."""
    if [address] == [own for own, _ in _left]:
        _, connection = _left.pop()
        try:
            connection.value("select 1")
        except DatabaseUnavailable:
            connection.close()
        else:
            return connection
    leave()
    return None


@cache
def _settle() -> None:
    """Exempt what is imported from the collection of garbage that Spark makes after every task: it is never garbage."""
    gc.collect()
    gc.freeze()
