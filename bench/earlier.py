"""Push, and pop with ack, of this version against an earlier one, in turn.

QUEEN_BENCH_BASE names the `src` folder of the earlier version; without it, there is nothing to measure.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from bench.harness import Bench, Line, median

ROUNDS = 7
LEAST = 0.97
PROGRAM = Path(__file__).parent / "earlier_side.py"


async def run(bench: Bench) -> None:
    base = os.environ.get("QUEEN_BENCH_BASE")
    if base is None:
        print("QUEEN_BENCH_BASE is not set: nothing to compare with")
        return
    now: list[dict[str, float]] = []
    then: list[dict[str, float]] = []
    for number in range(1 if bench.quick else ROUNDS):
        sides = [(now, None), (then, base)]
        for found, source in sides if number % 2 else reversed(sides):
            found.append(await _measure(bench, source))
    for work, case in (("push", "push, batch 100, 16 tasks"), ("drain", "pop+ack, batch 100, 16 tasks")):
        ratio = median([ours[work] / theirs[work] for ours, theirs in zip(now, then, strict=True)])
        ours, theirs = median([each[work] for each in now]), median([each[work] for each in then])
        detail = f"now {ours:,.0f}/s, before {theirs:,.0f}/s; medians of {len(now)} rounds in turn"
        bench.report(
            Line(f"{case}, against an earlier version", f"{LEAST:.0%}", f"{ratio:.0%}", ratio >= LEAST, detail)
        )


async def _measure(bench: Bench, source: str | None) -> Any:
    dsn = await bench.empty_database()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("QUEEN_")}
    if source is not None:
        environment["PYTHONPATH"] = source
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), dsn, str(bench.seconds), stdout=asyncio.subprocess.PIPE, env=environment
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, "a side has failed"
    await bench.drop(dsn)
    return json.loads(output)
