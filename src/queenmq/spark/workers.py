"""Python workers of Spark, which live on from task to task, and what they keep meanwhile."""

import ctypes
import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache

from queenmq.config import Settings
from queenmq.spark.connection import Connection

Address = tuple[str, Mapping[str, str]]

# Of glibc's malloc.h: memory that is free at the end of the heap, and blocks that are not taken from the heap.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES = 64 << 20  # some batches, as they lie around while one is made
BLOCK_BYTES = 32 << 20  # the most that glibc takes

_left: list[tuple[Address, Connection]] = []  # by the last task: one at most


@contextmanager
def working(dsn: str, settings: Settings, plans: Mapping[str, str]) -> Iterator[Connection]:
    """The session of a task: the one that the worker's last task has left, if it leads there, or a new one.

    A session that begins costs PostgreSQL as much as reading some ten thousand messages. It is left to the next task
    only when all went well, and ends with the worker: Spark ends those that have had nothing to do for a minute.
    """
    _keep_memory()
    connection = _taken((dsn, plans)) or Connection(dsn, settings, plans, known=True)
    try:
        yield connection
    except BaseException:
        connection.close()
        raise
    _settle()
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
        if connection.answers():
            return connection
    leave()
    return None


@cache
def _keep_memory() -> None:
    """Let the C library keep what a batch has used for the next one, where it is one that can be asked to.

    Otherwise it gives megabytes back to the kernel after every batch, and gets them anew, page by page.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(M_MMAP_THRESHOLD, BLOCK_BYTES)


@cache
def _settle() -> None:
    """Exempt what the first task has imported from the collection of garbage that Spark makes after every one.

    It is never garbage. Not earlier: much is imported only when it is first used.
    """
    gc.collect()
    gc.freeze()
