"""make demo: a shop's traffic on a PostgreSQL of its own, and what the pipelines make of it.

$ python -m examples.pipelines.demo --orders 2000 --out build/demo
"""

import argparse
import asyncio
import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from examples.pipelines.orders import open_shop, trade
from queenmq import Queen
from queenmq.cli import main as queen_command
from queenmq.engine.postgres.embedded import EmbeddedPostgres

HERE = Path(__file__).parent
FILES = ("pipelines.toml", "revenue.toml")


def main(arguments: list[str]) -> int:
    """Trade, run the pipelines, and say where the page is."""
    asked = parser().parse_args(arguments)
    out = Path(asked.out).absolute()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with database(asked.dsn) as dsn:
        print(f"Taking {asked.orders:,} orders through five queues …", flush=True)
        with Queen(dsn) as queen:
            open_shop(queen)
            trade(queen, asked.orders, asked.seconds)
        for name in FILES:
            shutil.copy(HERE / name, out / name)
        print("Running the pipelines of pipelines.toml on Spark …", flush=True)
        with contextlib.chdir(out):
            status = queen_command(["pipeline", "run", "pipelines.toml", "--dsn", dsn, "--html", "report.html"])
    print(f"\nThe page with the pictures: {out / 'report.html'}")
    return status


def parser() -> argparse.ArgumentParser:
    """The options of the demonstration."""
    made = argparse.ArgumentParser(description="A shop's orders, and what the pipelines make of them.")
    made.add_argument("--orders", type=int, default=2_000)
    made.add_argument("--seconds", type=float, default=10.0, help="how long the shop is open")
    made.add_argument("--out", default="build/demo", help="a directory, which is emptied first")
    made.add_argument("--dsn", help="an empty database; without one, a private PostgreSQL for the time being")
    return made


@contextlib.contextmanager
def database(dsn: str | None) -> Iterator[str]:
    """The PostgreSQL that was given, or one that is gone afterwards."""
    if dsn is not None:
        yield dsn
        return
    directory = Path(tempfile.mkdtemp(prefix="queen-demo-"))
    directory.chmod(0o711)  # where we are root, PostgreSQL runs under an account that has to get in
    try:
        with EmbeddedPostgres(directory) as postgres:
            yield asyncio.run(postgres.create_database("demo"))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
