"""What a process did and was told, line by line: the intent before a call, the answer after it.

A line is one write to a file opened for appending, so it is there even if the process is killed a moment later. Every
line has two times: `t` of the monotonic clock, which is one for all processes of a machine, and `clock` of the wall,
which PostgreSQL reads too; both in microseconds.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from queenmq.engine import Popped
from queenmq.model import Message


class Diary:
    """The file of one process."""

    def __init__(self, path: Path, worker: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._worker = worker
        self._calls = count()

    def intend(self, what: str, **facts: object) -> str:
        """Write down what is about to be done; answers the call's name."""
        call = f"{self._worker}/{next(self._calls)}"
        self._write(call, what + "?", facts)
        return call

    def answer(self, call: str, what: str, **facts: object) -> None:
        self._write(call, what, facts)

    def popped(self, call: str, group: str, popped: Popped, lease_seconds: float) -> None:
        """The answer to a pop: per partition the lease and what it brought."""
        leases = []
        for lease in popped.leases:
            assert lease.expires_at is not None
            expires = round(lease.expires_at.timestamp() * 1_000_000)
            messages = [[m.offset, value_of(m)] for m in popped.messages if m.lease.partition_id == lease.partition_id]
            starts = expires - round(lease_seconds * 1_000_000)
            leases.append([str(lease.id), lease.partition, starts, expires, messages])
        self.answer(call, "pop", group=group, leases=leases)

    def _write(self, call: str, what: str, facts: dict[str, object]) -> None:
        times = {"t": time.monotonic_ns() // 1000, "clock": time.time_ns() // 1000}
        os.write(self._file, json.dumps({"call": call, "what": what, **times, **facts}).encode() + b"\n")


def value_of(message: Message) -> Any:
    return json.loads(bytes(message.payload))


def read(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """All lines of all diaries in the order in which they were written, less the torn last line of a killed one."""
    return sorted((line for path in paths for line in _lines(path)), key=lambda line: line["t"])


def unanswered_pushes(path: Path) -> list[list[Any]]:
    """The messages of pushes that a killed process had not been answered."""
    lines = list(_lines(path)) if path.exists() else []
    answered = {line["call"] for line in lines if not line["what"].endswith("?")}
    return [line["messages"] for line in lines if line["what"] == "push?" and line["call"] not in answered]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_bytes().splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue
