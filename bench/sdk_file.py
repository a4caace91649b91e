"""`queen push` of a large file: how fast, next to the engine or the server alone, and with how much memory."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from bench.harness import Bench, Line, median, payloads
from bench.http import Served, serving
from bench.http.connection import Connection, post
from queenmq.engine import Engine
from queenmq.model import DEFAULT_PARTITION, Payloads
from queenmq.model.payloads import json_array

LINES = 1_000_000
BATCH = 1_000  # the command's default
OF_ENGINE = 0.75  # from there on it is the engine that is waited for
GROWTH_MB_MAX = 10  # of ten times as many lines
ROUNDS = 3

Usage = dict[str, float]

# The command, and then what it has used. The operating system would count its parent's memory as its own.
PROGRAM = """
import json, re, sys, time
from pathlib import Path
from queenmq.cli import main
status = main()
memory = re.search("VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())
print(json.dumps({"memory_kb": int(memory[1]), "cpu_seconds": time.process_time()}))
sys.exit(status)
"""


async def run(bench: Bench) -> None:
    lines = LINES // 50 if bench.quick else LINES
    async with serving(bench) as served:
        ways: dict[str, tuple[str, str, Callable[[], Awaitable[Usage]]]] = {
            "--dsn": ("the engine", served.dsn, lambda: _engine(served.dsn, lines)),
            "--url": ("the server", f"http://{served.host}:{served.port}", lambda: _server(served, lines)),
        }
        with _file(lines // 10) as small, _file(lines) as large:
            for option, (who, address, by_itself) in ways.items():
                before = await _queen_push(small, option, address)
                alone, pushed = [], []
                for _ in range(1 if bench.quick else ROUNDS):
                    alone.append(await by_itself())
                    pushed.append(await _queen_push(large, option, address))
                case = f"queen push of {lines:,} lines, {option}"
                _report(bench, case, who, _medians(alone), before, _medians(pushed))


def _medians(rounds: list[Usage]) -> Usage:
    return {what: median([each[what] for each in rounds]) for what in rounds[0]}


def _report(bench: Bench, case: str, who: str, alone: Usage, before: Usage, pushed: Usage) -> None:
    part = pushed["rate"] / alone["rate"]
    detail = (
        f"{pushed['rate']:,.0f}/s, {who} alone {alone['rate']:,.0f}/s; CPU a message: the command "
        f"{pushed['cpu']:.1f} µs, who has arrays ready {alone['cpu']:.1f} µs"
    )
    bench.report(Line(case, f"{OF_ENGINE:.0%} of {who}", f"{part:.0%}", part >= OF_ENGINE, detail))
    growth = pushed["memory_mb"] - before["memory_mb"]
    detail = f"{pushed['memory_mb']:.0f} MB at most, {before['memory_mb']:.0f} MB for a tenth of the lines"
    bench.report(Line(f"{case}: memory", "constant", f"{growth:+.0f} MB", growth < GROWTH_MB_MAX, detail))


async def _engine(dsn: str, lines: int) -> Usage:
    """The same batches, one after the other, made ready beforehand."""
    messages = Payloads("engine", DEFAULT_PARTITION, json_array(payloads()[:BATCH]))
    async with Engine(dsn) as engine:
        started, cpu = time.perf_counter(), time.process_time()
        for _ in range(lines // BATCH):
            await engine.push(messages)
        seconds = time.perf_counter() - started
        return {"rate": lines / seconds, "cpu": (time.process_time() - cpu) / lines * 1_000_000}


async def _server(served: Served, lines: int) -> Usage:
    """The same over HTTP, each request with an id, as the command sends them."""
    body = json_array(payloads()[:BATCH])
    connection = await Connection.open(served.host, served.port)
    started, cpu = time.perf_counter(), time.process_time()
    for _ in range(lines // BATCH):
        path = f"/api/v1/push/queue/server/partition/{DEFAULT_PARTITION}?transactionId={uuid.uuid4()}"
        status, answer = await connection.ask(post(path)(body))
        assert status == 201, answer
    seconds = time.perf_counter() - started
    connection.close()
    return {"rate": lines / seconds, "cpu": (time.process_time() - cpu) / lines * 1_000_000}


async def _queen_push(file: Path, option: str, address: str) -> Usage:
    """What the command says of itself, and what the operating system says of it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("QUEEN_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, "push", "file", "--file", str(file), "--json", option, address,
        env=environment, stdout=subprocess.PIPE,
    )  # fmt: skip
    said, _ = await process.communicate()
    assert process.returncode == 0, said
    report, usage = map(json.loads, said.splitlines())
    return {
        "rate": report["pushed"] / report["seconds"],
        "cpu": usage["cpu_seconds"] / report["pushed"] * 1_000_000,
        "memory_mb": usage["memory_kb"] / 1024,
    }


@contextlib.contextmanager
def _file(lines: int) -> Iterator[Path]:
    texts = b"".join(text + b"\n" for text in payloads())
    with tempfile.TemporaryDirectory(prefix="queen-bench-") as directory:
        path = Path(directory) / "orders.jsonl"
        with path.open("wb") as file:
            for _ in range(lines // 1_000):
                file.write(texts)
        yield path
