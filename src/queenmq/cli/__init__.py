"""The front door: `queen <command>`, one file per command.

A command's module has `main(arguments) -> int`, given what was parsed here; it is imported when asked for.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from queenmq import __version__
from queenmq.errors import QueenError

COMMANDS = {
    "serve": "the HTTP broker, on a PostgreSQL of its own or on yours",
    "tour": "a guided tour: push, pop and acknowledge on a PostgreSQL of its own",
    "migrate": "bring the database to the schema of this version",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0 when it worked, 1 when not, 2 when it was not understood."""
    arguments = _parser().parse_args(argv)
    try:
        command = importlib.import_module(f"queenmq.cli.{arguments.command}")
        status: int = command.main(arguments)
    except QueenError as error:
        print(f"queen {arguments.command}: {error}\n{error.hint}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="queen",
        description="Queen: a partitioned message queue on PostgreSQL.",
        epilog="Settings are QUEEN_* environment variables: see docs/settings.md. "
        "Without QUEEN_DSN a private PostgreSQL is started.",
    )
    parser.add_argument("--version", action="version", version=f"queen {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="<command>")
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary)
        command.add_argument("--dsn", help="the PostgreSQL to use (default: QUEEN_DSN, or a private one)")
        command.add_argument("--data-dir", type=Path, help="where the private PostgreSQL keeps its files")
    server = commands.choices["serve"]
    server.add_argument("--host", help="address to listen on (default: QUEEN_HOST, or 127.0.0.1)")
    server.add_argument("--port", type=int, help="port to listen on (default: QUEEN_PORT, or 6632)")
    server.add_argument("--workers", type=int, help="server processes (default: half as many as there are cores)")
    commands.choices["tour"].add_argument(
        "--stay", action="store_true", help="when it is over, keep the queue to look at until Ctrl-C"
    )
    return parser
