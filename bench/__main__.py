"""The command: run the cases, print them as they come, write docs/benchmarks.md when all were run."""

import argparse
import importlib
import sys
from pathlib import Path

import uvloop

from bench.harness import Bench, Line, conditions, server

CASES = (
    "push",
    "resend",
    "drain",
    "latency",
    "sharing",
    "idle",
    "snapshot",
    "hour",
    "http",
    "failover",
    "sdk",
    "jobs",
    "earlier",
    "sizing",
    "spark",
)
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"

HEAD = """# Benchmarks

Written by `make bench`. Every figure is a ratio of two things measured side by side in one run; the absolute
numbers behind it tell about the machine as much as about Queen. The limit is COPY of the same payload bytes into a
table of one column without an index, with as many rows per commit and as many commits in flight.

Conditions: {conditions}.

| case | asked | reached | | behind it |
| --- | --- | --- | --- | --- |
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"which to run: {', '.join(CASES)} (all)")
    parser.add_argument("--quick", action="store_true", help="short and small, to see that everything works")
    arguments = parser.parse_args()
    if unknown := set(arguments.cases) - set(CASES):
        parser.error(f"unknown case: {', '.join(sorted(unknown))}")
    with server() as postgres:
        bench = Bench(postgres, seconds=0.5 if arguments.quick else 3.0, quick=arguments.quick)
        where = uvloop.run(conditions(postgres))
        print(where, flush=True)
        for case in arguments.cases or CASES:
            print(f"== {case}", flush=True)
            uvloop.run(importlib.import_module(f"bench.{case}").run(bench))
    if not arguments.cases and not arguments.quick:
        PAGE.write_text(page(where, bench), encoding="utf-8")
        print(f"written: {PAGE.name}")
    else:
        print(*bench.notes, sep="\n\n")
    return 0 if all(line.good is not False for line in bench.lines) else 1


def page(where: str, bench: Bench) -> str:
    return HEAD.format(conditions=where) + "\n".join(map(_row, bench.lines)) + "\n\n" + "\n\n".join(bench.notes) + "\n"


def _row(line: Line) -> str:
    mark = {True: "yes", False: "**no**", None: ""}[line.good]
    return f"| {line.case} | {line.asked} | {line.reached} | {mark} | {line.detail} |"


if __name__ == "__main__":
    sys.exit(main())
