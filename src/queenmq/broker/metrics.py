"""What the server counts: plain numbers in each worker, added up when somebody asks.

A worker bumps its own numbers, which costs nothing worth mentioning, and writes them to a file of its own every
second. Whoever is asked for the metrics adds its own numbers, of now, to those that the other workers have written.
When a worker has ended, what it had counted still counts; what it had open (its gauges) is gone with it.
"""

import asyncio
import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from queenmq.engine.histogram import SECONDS, Histogram

if TYPE_CHECKING:
    from queenmq.broker.routing import Route
    from queenmq.engine import Engine
    from queenmq.engine.batching import Batcher

WRITE_SECONDS = 1.0
OPERATIONS = ("push", "pop", "ack")
PHASES = ("wait", "lease", "read", "encode")  # of a pop
HISTOGRAMS = ("requests", "phases", "waits", "batches", "database")  # of Numbers
DATABASE = "calls"
ENDED = "ended"

RequestKey = tuple[str, str, int]  # method, pattern, status


class Numbers(Struct):
    """Everything that is counted in a worker, or in all of them."""

    requests: dict[str, Histogram] = {}  # by method, pattern and status, with a blank between them
    phases: dict[str, Histogram] = {}  # of pops
    waits: dict[str, Histogram] = {}  # by operation: until a request goes out in a batch
    batches: dict[str, Histogram] = {}  # by operation: the requests of each batch
    database: dict[str, Histogram] = {}  # the calls, under one key
    counters: dict[str, int] = {}
    gauges: dict[str, int] = {}

    def add(self, other: "Numbers") -> None:
        """Add what another has counted."""
        for name in HISTOGRAMS:
            known = getattr(self, name)
            for key, theirs in getattr(other, name).items():
                known.setdefault(key, Histogram(theirs.ends)).add(theirs)
        for mine, others in ((self.counters, other.counters), (self.gauges, other.gauges)):
            for name, value in others.items():
                mine[name] = mine.get(name, 0) + value


_numbers = msgspec.json.Decoder(Numbers)


class Metrics:
    """The numbers of one worker, and the way to those of the others."""

    def __init__(self, engine: "Engine", directory: Path) -> None:
        self.pushed = 0  # messages, bumped by the routes
        self.popped = 0
        self.acked = 0
        self.retried = 0  # given back by an ack, to be delivered again
        self.dead_lettered = 0  # by an ack
        self.leases = 0  # granted: partitions that went to a consumer
        self.in_flight = 0  # requests
        self.directory = directory  # where workers leave their numbers for each other
        self._engine = engine
        self._path = directory / str(os.getpid())
        self._requests: dict[RequestKey, Histogram] = {}
        self._phases = {name: Histogram(SECONDS) for name in PHASES}

    def answered(self, route: "Route | None", status: int, seconds: float) -> None:
        """Count a request."""
        key = (route.method, route.pattern, status) if route is not None else ("", "", status)
        found = self._requests.get(key)
        if found is None:
            found = self._requests[key] = Histogram(SECONDS)
        found.note(seconds)

    def served(self, phases: Mapping[str, float]) -> None:
        """Count the phases of a pop."""
        for name, seconds in phases.items():
            self._phases[name].note(seconds)

    def own(self) -> Numbers:
        """What this worker has counted."""
        engine = self._engine
        counters = {
            "messages_pushed": self.pushed,
            "messages_popped": self.popped,
            "messages_acked": self.acked,
            "messages_retried": self.retried,
            "messages_dead_lettered": self.dead_lettered,
            "leases_granted": self.leases,
            "pending_checks": engine.waiting.checks_hit + engine.waiting.checks_missed,
            "pending_check_hits": engine.waiting.checks_hit,
            "pending_check_misses": engine.waiting.checks_missed,
            "database_calls": engine.database.calls,
            "segment_cache_hits": engine.segments.hits,
            "segment_cache_misses": engine.segments.misses,
        }
        queues: tuple[Batcher[Any, Any], ...] = engine.pusher.batcher, engine.popper.batcher, engine.acker.batcher
        batchers = dict(zip(OPERATIONS, queues, strict=True))
        for operation, batcher in batchers.items():
            counters[f"{operation}_requests"] = batcher.requests
            counters[f"{operation}_batches"] = batcher.batches
            counters[f"{operation}_saved"] = batcher.saved
        gauges = {"workers": 1, "parked_polls": engine.waiting.parked, "requests_in_flight": self.in_flight}
        requests = {" ".join(map(str, key)): each for key, each in self._requests.items()}
        return Numbers(
            requests, self._phases,
            waits={operation: batcher.waits for operation, batcher in batchers.items()},
            batches={operation: batcher.sizes for operation, batcher in batchers.items()},
            database={DATABASE: engine.database.call_seconds}, counters=counters, gauges=gauges,
        )  # fmt: skip

    def total(self) -> Numbers:
        """What all workers have counted: this one until now, the others until they last wrote."""
        total = Numbers()
        total.add(self.own())
        for path in self.directory.iterdir():
            if path != self._path and (path.name.isdigit() or path.name == ENDED):
                with contextlib.suppress(FileNotFoundError):  # a worker has just ended
                    total.add(_numbers.decode(path.read_bytes()))
        return total

    async def write(self) -> None:
        """Let the other workers see the numbers, for ever."""
        while True:
            with contextlib.suppress(FileNotFoundError):  # the server was killed, and its workers are about to end
                _replace(self._path, self.own())
            await asyncio.sleep(WRITE_SECONDS)


def bury(directory: Path, pid: int) -> None:
    """A worker has ended: keep what it had counted, and forget its gauges."""
    path = directory / str(pid)
    with contextlib.suppress(FileNotFoundError):
        ended = _numbers.decode(path.read_bytes())
        ended.gauges = {}
        with contextlib.suppress(FileNotFoundError):
            ended.add(_numbers.decode((directory / ENDED).read_bytes()))
        path.unlink()
        _replace(directory / ENDED, ended)


def _replace(path: Path, numbers: Numbers) -> None:
    """Write a file that nobody ever sees half written."""
    new = path.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(numbers))
    new.replace(path)
