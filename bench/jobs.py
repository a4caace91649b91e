"""Jobs of one millisecond in 1,000 keys, from a queue that is never empty.

Sides take turns, a database each. QUEEN_BENCH_BASE names the `src` folder of another version of Queen, which is then
measured beside this one.
"""

import asyncio
import json
import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from bench.harness import Bench, Line, median

HANDLERS = (1, 16, 64, 256)
LISTS = (False, True)
ROUNDS = 3
WARM_UP_SECONDS = 1.5
OVER_PGMQ = {(False, 64): 1.3, (False, 256): 1.3, (True, 64): 2.0}  # one by one, against its lists
PROGRAM = Path(__file__).parent / "jobs_side.py"

Sides = dict[str, tuple[str, str | None]]  # by name: which side the program is, and where its source is


async def run(bench: Bench) -> None:
    base = os.environ.get("QUEEN_BENCH_BASE")
    sides: Sides = {"Queen": ("queen", None), "PGMQ": ("pgmq", None)}
    if base:
        sides["Queen before"] = ("queen", base)
    handlers = HANDLERS[1:2] if bench.quick else HANDLERS
    databases = {name: await bench.empty_database() for name in sides}
    measured: dict[tuple[str, bool, int], list[Any]] = defaultdict(list)
    for _ in range(1 if bench.quick else ROUNDS):
        for lists in LISTS:
            for count in handlers:
                for name, (side, source) in sides.items():
                    answer = await _measure(bench, side, source, databases[name], count, lists=lists)
                    measured[name, lists, count].append(answer)
    for dsn in databases.values():
        await bench.drop(dsn)
    figures = {
        key: {figure: median([each[figure] for each in answers]) for figure in answers[0]}
        for key, answers in measured.items()
    }
    for lists in LISTS:
        for count in handlers:
            _report(bench, figures, list(sides), count, lists=lists)


async def _measure(bench: Bench, side: str, source: str | None, dsn: str, handlers: int, *, lists: bool) -> Any:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("QUEEN_")}
    if source:
        environment["PYTHONPATH"] = source
    arguments = [side, dsn, str(handlers), "lists" if lists else "one", str(WARM_UP_SECONDS), str(bench.seconds)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), *arguments, stdout=asyncio.subprocess.PIPE, env=environment
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, f"{side} with {handlers} handlers has failed"
    return json.loads(output)


def _report(
    bench: Bench, figures: dict[tuple[str, bool, int], dict[str, float]], sides: list[str], count: int, *, lists: bool
) -> None:
    case = f"jobs, {count} handlers, {'lists' if lists else 'one by one'}"
    ours, peer = figures["Queen", lists, count], figures["PGMQ", True, count]
    times = ours["jobs_per_second"] / peer["jobs_per_second"]
    asked = OVER_PGMQ.get((lists, count))
    detail = "; ".join(_figures(name, figures[name, lists, count]) for name in sides)
    wanted = "-" if asked is None else f"{asked}x PGMQ's lists"
    bench.report(Line(case, wanted, f"{times:.1f}x", None if asked is None else times >= asked, detail))


def _figures(name: str, figure: dict[str, float]) -> str:
    return (
        f"{name} {figure['jobs_per_second']:,.0f} jobs/s, p50 {figure['p50'] * 1000:,.0f} ms, "
        f"p99 {figure['p99'] * 1000:,.0f} ms, client {figure['client_micros']:,.0f} µs a job"
    )
