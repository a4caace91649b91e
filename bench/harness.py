"""What the benchmarks share: a server of their own, payloads, a stopwatch, and the lines of the report."""

import asyncio
import contextlib
import json
import os
import platform
import random
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg

from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.engine.postgres.embedded import EmbeddedPostgres
from queenmq.engine.postgres.migrate import migrate

PAYLOAD_COUNT = 1_000


@dataclass(frozen=True)
class Line:
    """One line of the report: what, how much was asked for, how much was reached."""

    case: str
    asked: str
    reached: str
    good: bool | None  # None: nothing was asked for
    detail: str = ""


@dataclass
class Bench:
    """One run: the server, how long to measure, and the lines so far."""

    server: EmbeddedPostgres
    seconds: float
    quick: bool
    lines: list[Line] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _databases: int = 0

    def report(self, line: Line) -> None:
        self.lines.append(line)
        mark = {True: "ok ", False: "BAD", None: "   "}[line.good]
        print(f"{mark} {line.case}: {line.reached} (asked: {line.asked}) {line.detail}", flush=True)

    async def database(self) -> str:
        """A fresh, migrated database."""
        dsn = await self.empty_database()
        connection = await asyncpg.connect(dsn)
        try:
            await migrate(connection)
        finally:
            await connection.close()
        return dsn

    async def empty_database(self) -> str:
        """A fresh database without the schema."""
        self._databases += 1
        name = f"bench_{os.getpid()}_{self._databases}"
        await self.server.create_database(name)
        return self.server.dsn(name)

    async def drop(self, dsn: str) -> None:
        name = dsn.split("/")[3].split("?", maxsplit=1)[0]
        connection = await asyncpg.connect(self.server.dsn("postgres"))
        try:
            await connection.execute(f'drop database "{name}" with (force)')
        finally:
            await connection.close()

    @contextlib.asynccontextmanager
    async def engine(self, **settings: Any) -> AsyncIterator[Engine]:
        """An engine on a fresh database; upkeep off unless a case is about it."""
        dsn = await self.database()
        try:
            async with Engine(dsn, Settings(**{"upkeep": False, **settings})) as engine:
                yield engine
        finally:
            await self.drop(dsn)


def payloads(count: int = PAYLOAD_COUNT) -> list[bytes]:
    """About 200 bytes of JSON each, as orders look."""
    dice = random.Random(7)
    return [
        json.dumps(
            {
                "order": number,
                "customer": f"customer-{number % 997}",
                "items": [{"sku": f"sku-{dice.randrange(10**6)}", "qty": dice.randrange(9)} for _ in range(3)],
                "total": dice.random() * 1000,
                "note": "please ring",
            }
        ).encode()
        for number in range(count)
    ]


async def rate(seconds: float, workers: int, work: Callable[[int], Awaitable[int]]) -> float:
    """Messages per second that `workers` concurrent loops of `work` achieve."""
    done = 0
    start = time.perf_counter()
    end = start + seconds

    async def loop(worker: int) -> None:
        nonlocal done
        while time.perf_counter() < end:
            more = await work(worker)  # apart from the sum: others add to it meanwhile
            done += more

    await asyncio.gather(*(loop(worker) for worker in range(workers)))
    return done / (time.perf_counter() - start)


async def latencies(count: int, work: Callable[[], Awaitable[object]]) -> list[float]:
    """Milliseconds of each of `count` calls, one after the other."""
    taken: list[float] = []
    for _ in range(count):
        start = time.perf_counter()
        await work()
        taken.append((time.perf_counter() - start) * 1000)
    return taken


def percentile(values: Sequence[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def median(values: Sequence[float]) -> float:
    """Of interleaved rounds: what disturbs one side disturbs the other."""
    return statistics.median(values)


@contextlib.contextmanager
def server() -> Iterator[EmbeddedPostgres]:
    """A private PostgreSQL with its defaults as we start it for everyone: fsync and synchronous_commit on."""
    base = os.environ.get("QUEEN_BENCH_DIR")
    with tempfile.TemporaryDirectory(prefix="queen-bench-", dir=base) as directory:
        Path(directory).chmod(0o755)
        postgres = EmbeddedPostgres(Path(directory) / "data", settings={"min_wal_size": "3GB"})
        postgres.start()
        try:
            asyncio.run(_warm_up(postgres))
            yield postgres
        finally:
            postgres.stop()


async def _warm_up(postgres: EmbeddedPostgres) -> None:
    """Fill WAL files that are recycled from then on, as on any server that has been up for a while."""
    connection = await asyncpg.connect(postgres.dsn("postgres"))
    try:
        await connection.execute("create table warm_up as select repeat('x', 1900) from generate_series(1, 1400000)")
        await connection.execute("drop table warm_up")
        await connection.execute("checkpoint")
        await connection.execute("checkpoint")
    finally:
        await connection.close()


async def conditions(postgres: EmbeddedPostgres) -> str:
    """Where this was measured, in one line."""
    connection = await asyncpg.connect(postgres.dsn("postgres"))
    try:
        version = await connection.fetchval("show server_version")
        fsync, commit = await connection.fetchrow(
            "select current_setting('fsync'), current_setting('synchronous_commit')"
        )
        await connection.execute("create table if not exists commits (n int)")
        commits = await latencies(200, lambda: connection.execute("insert into commits values (1)"))
    finally:
        await connection.close()
    return (
        f"PostgreSQL {version} (fsync {fsync}, synchronous_commit {commit}), one commit takes "
        f"{percentile(commits, 50):.1f} ms (p50), Python {platform.python_version()}, {os.cpu_count()} cores, "
        f"one engine process, payloads of about {len(b''.join(payloads())) // PAYLOAD_COUNT} bytes"
    )
