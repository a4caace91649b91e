"""The server under load: a real `queen serve` with its defaults, the load from another process on the same machine."""

import asyncio
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import jwt

from bench.harness import Bench, Line, latencies, median, percentile, rate
from bench.push import push_with_ids
from queenmq.engine import Engine
from queenmq.model import Outgoing

GREETING = "Queen listens at http://"
MEMORY_MB_MAX = 300
PARKED = 10_000
PARKED_MB_MAX = 200
PARTITIONS = 10_000
ROUNDS = 3


class Served:
    """A server, and load on it."""

    def __init__(self, dsn: str, seconds: float, **settings: str) -> None:
        self.dsn = dsn
        self.seconds = seconds
        environment = {name: value for name, value in os.environ.items() if not name.startswith("QUEEN_")} | settings
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from queenmq.cli import main; main()", "serve", "--port", "0", "--dsn", dsn],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        address = self._process.stdout.readline().removeprefix(GREETING).strip()
        self.host, port = address.rsplit(":", 1)
        self.port = int(port)

    def workers(self) -> list[int]:
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return [int(pid) for pid in children]

    def cpu_seconds(self) -> float:
        """What the workers have used of the processor."""
        used = (Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in self.workers())
        return sum(int(user) + int(system) for *_, user, system in (each[:13] for each in used)) / os.sysconf(
            "SC_CLK_TCK"
        )

    def memory_mb(self, what: str = "VmRSS") -> float:
        """Of the worker that has most of it: now (VmRSS) or at most (VmHWM)."""
        found = []
        for pid in self.workers():
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            found += [int(line.split()[1]) / 1024 for line in lines if line.startswith(what)]
        return max(found)

    def metrics(self) -> dict[str, Any]:
        """What the server counts."""
        with urllib.request.urlopen(f"http://{self.host}:{self.port}/metrics") as answer:
            return json.load(answer)  # type: ignore[no-any-return]

    async def load(self, case: str, **options: Any) -> dict[str, Any]:
        """Run the load generator to its end."""
        process = await self.start(case, **options)
        out, _ = await process.communicate()
        return json.loads(out)  # type: ignore[no-any-return]

    async def start(
        self, case: str, queue: str = "q", connections: int = 1, token: str | None = None, **options: Any
    ) -> Any:
        where = {"host": self.host, "port": self.port, "queue": queue, "token": token}
        load = where | {"connections": connections, "seconds": self.seconds}
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "bench.http.load",
            json.dumps({"case": case, "load": load, **options}),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate()


@contextlib.asynccontextmanager
async def serving(bench: Bench) -> AsyncIterator[Served]:
    """A server on a fresh database."""
    dsn = await bench.database()
    served = Served(dsn, bench.seconds)
    try:
        yield served
    finally:
        served.stop()
        await bench.drop(dsn)


async def run(bench: Bench) -> None:
    async with serving(bench) as served:
        connection = await asyncpg.connect(served.dsn)
        await connection.execute("create table commits (n int)")
        commits = await latencies(200, lambda: connection.execute("insert into commits values (1)"))
        commit_ms = percentile(commits, 50)
        await _push(bench, served, commit_ms)
        await _drain(bench, served)
        await _fan_out(bench, served)
        await _wake(bench, served, commit_ms)
        peak = served.memory_mb("VmHWM")
        bench.report(
            Line(
                "HTTP: memory of a worker under all of the above",
                f"under {MEMORY_MB_MAX} MB",
                f"{peak:.0f} MB at most",
                peak < MEMORY_MB_MAX,
            )
        )
        await connection.close()
        await _park(bench, served)
        await _across(bench, served)
        await _tokens(bench, served)
    await _pop(bench)


async def _push(bench: Bench, served: Served, commit_ms: float) -> None:
    pushed = await served.load("push", queue="hundred", batch=100, partitions=100, connections=16)
    async with bench.engine() as engine:
        own = await rate(bench.seconds, 16, push_with_ids(engine, 100, flush_messages=100))
    share = pushed["rate"] / own
    bench.report(
        Line(
            "HTTP: push batch 100, 16 connections, 100 partitions",
            "100,000/s or 40% of the engine's own rate",
            f"{pushed['rate']:,.0f}/s, {share:.0%}",
            pushed["rate"] >= 100_000 or share >= 0.4,
            f"engine {own:,.0f}/s; {_generator(pushed)}",
        )
    )
    for batch, asked in ((10, 40_000), (1, 5_000)):
        pushed = await served.load("push", queue=f"q{batch}", batch=batch, partitions=100, connections=64)
        bench.report(
            Line(
                f"HTTP: push batch {batch}, 64 connections",
                f"{asked:,}/s",
                f"{pushed['rate']:,.0f}/s",
                pushed["rate"] >= asked,
                _generator(pushed),
            )
        )
    pushed = await served.load("push", queue="single", batch=1, partitions=100, connections=1)
    bench.report(
        Line(
            "HTTP: push batch 1, 1 connection",
            "p50 under 1 commit + 2 ms",
            f"{pushed['p50']:.2f} ms",
            pushed["p50"] < commit_ms + 2,
            f"commit {commit_ms:.2f} ms, p99 {pushed['p99']:.2f} ms",
        )
    )


async def _drain(bench: Bench, served: Served) -> None:
    await served.load("push", queue="drain", batch=1000, partitions=100, connections=4)
    drained = await served.load("drain", queue="drain", batch=100, group="g", connections=16)
    _report_rate(bench, "HTTP: drain by pop batch 100 + ack batch, 16 connections", 60_000, drained)
    await served.load("push", queue="ones", batch=1000, partitions=1000, connections=4)
    drained = await served.load("drain", queue="ones", batch=1, group="g", connections=64)
    _report_rate(bench, "HTTP: drain by pop batch 1 + ack, 64 connections, 1,000 partitions", 2_500, drained)


def _report_rate(bench: Bench, case: str, asked: int, measured: dict[str, Any]) -> None:
    reached = f"{measured['rate']:,.0f}/s"
    bench.report(Line(case, f"{asked:,}/s", reached, measured["rate"] >= asked, _generator(measured)))


async def _fan_out(bench: Bench, served: Served) -> None:
    """A group has as many consumers alone as among five; how busy the worker is tells what one group waits for.

    Judged is one consumer a group: three of one group keep two processors busy by themselves.
    """
    for consumers in (1, 3):
        await served.load("push", queue="fan", batch=1000, partitions=100, connections=4)
        rates: dict[int, list[float]] = {1: [], 5: []}
        busy: dict[int, list[float]] = {1: [], 5: []}
        for turn in range(ROUNDS):
            for groups in (1, 5):
                cpu = served.cpu_seconds()
                drained = await served.load(
                    "fan_out",
                    queue="fan",
                    batch=100,
                    group=f"{consumers}of{groups}-{turn}-",
                    groups=groups,
                    connections=consumers * groups,
                )
                rates[groups].append(drained["rate"])
                busy[groups].append((served.cpu_seconds() - cpu) / drained["messages"] * drained["rate"])
        one, five = median(rates[1]), median(rates[5])
        alone, among = median(busy[1]), median(busy[5])
        bench.report(
            Line(
                f"HTTP: fan-out to 5 groups of {consumers}, deliveries against one group of {consumers}",
                "3x" if consumers == 1 else "",
                f"{five / one:.2f}x",
                five / one >= 3 if consumers == 1 else None,
                f"one {one:,.0f}/s with the worker busy {alone:.0%}, five {five:,.0f}/s, {among:.0%}",
            )
        )


async def _wake(bench: Bench, served: Served, commit_ms: float) -> None:
    count = 200 if bench.quick else 2_000
    woken = await served.load("wake", queue="wake", count=count, per_second=100)
    bench.report(
        Line(
            "HTTP: push to long poll, 100/s",
            "p50 under 2 commits + 3 ms, p99 under 50 ms",
            f"p50 {woken['p50']:.2f} ms, p99 {woken['p99']:.2f} ms",
            woken["p50"] < 2 * commit_ms + 3 and woken["p99"] < 50,
            f"commit {commit_ms:.2f} ms",
        )
    )


async def _across(bench: Bench, served: Served) -> None:
    other = Served(served.dsn, bench.seconds)
    try:
        count = 200 if bench.quick else 1_000
        woken = await other.load("wake", queue="across", count=count, per_second=20, push_port=served.port)
    finally:
        other.stop()
    bench.report(
        Line(
            "HTTP: push to one server, long poll at another, 20/s",
            "p99 under 30 ms",
            f"p50 {woken['p50']:.2f} ms, p99 {woken['p99']:.2f} ms",
            woken["p99"] < 30,
        )
    )


async def _tokens(bench: Bench, served: Served) -> None:
    secret = secrets.token_hex(32)
    asking = Served(served.dsn, bench.seconds, QUEEN_AUTH_SECRET=secret)
    token = jwt.encode({"sub": "bench", "roles": ["admin"], "exp": int(time.time()) + 3_600}, secret, algorithm="HS256")
    try:
        without = await served.load("push", queue="open", batch=1, partitions=100, connections=64)
        with_token = await asking.load("push", queue="closed", batch=1, partitions=100, connections=64, token=token)
    finally:
        asking.stop()
    bench.report(
        Line(
            "HTTP: push batch 1 with a token, against without",
            "",
            f"{with_token['rate'] / without['rate']:.0%}",
            None,
            f"with {with_token['rate']:,.0f}/s, without {without['rate']:,.0f}/s",
        )
    )


async def _park(bench: Bench, served: Served) -> None:
    count = 1_000 if bench.quick else PARKED
    before = served.memory_mb()
    process = await served.start("park", queue="park", count=count)
    assert process.stdin is not None
    assert process.stdout is not None
    await process.stdout.readline()
    while (metrics := await asyncio.to_thread(served.metrics))["polls"]["parked"] < count:  # noqa: ASYNC110 (another process)
        await asyncio.sleep(0.05)
    grown = served.memory_mb() - before
    out, _ = await process.communicate(b"\n")
    calls = (await asyncio.to_thread(served.metrics))["database"]["calls"] - metrics["database"]["calls"]
    served_polls = json.loads(out)["served"]
    bench.report(
        Line(
            f"HTTP: {count:,} parked polls, one message",
            f"under {PARKED_MB_MAX} MB more, one poll served, no herd",
            f"{grown:.0f} MB, {served_polls} served, {calls} database calls in about a second",
            grown < PARKED_MB_MAX and served_polls == 1 and calls < 100,
        )
    )


async def _pop(bench: Bench) -> None:
    """On 10,000 partitions: all of them, one of them, none of them pending."""
    async with serving(bench) as served:
        async with Engine(served.dsn) as engine:
            for start in range(0, PARTITIONS, 1_000):
                await engine.push([Outgoing("q", b"1", f"p{number}") for number in range(start, start + 1_000)])
        for what in ("all", "one", "none"):
            group = f"group-{what}"
            if what != "all":
                await served.load("take", batch=1_000, group=group, partitions=1_000, until_empty=True)
            popped = await served.load("pop", group=group, count=500, push_first=what == "one")
            bench.report(
                Line(
                    f"HTTP: pop on 10,000 partitions, {what} pending",
                    "p50 under 5 ms",
                    f"{popped['p50']:.2f} ms",
                    popped["p50"] < 5,
                    f"p99 {popped['p99']:.2f} ms",
                )
            )


def _generator(measured: dict[str, Any]) -> str:
    return f"load generator {measured['cpu']:.0%} of a core"
