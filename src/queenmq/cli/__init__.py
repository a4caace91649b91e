"""The front door: `queen <command>`, one file per command.

A command's module has an `app`, and is imported when the command is asked for: help and completion need only the table
below. What a command's exit status means: see `Exit`.
"""

import importlib
import sys
from collections.abc import Sequence
from enum import IntEnum
from typing import Annotated, Any

import typer
from typer.main import get_command

from queenmq import __version__
from queenmq.cli.options import CommandGroup
from queenmq.errors import QueenError, Unavailable

COMMANDS = {
    "Run": {
        "serve": "Serve the HTTP API, on a PostgreSQL of its own or on yours.",
        "migrate": "Bring the database to the schema of this version.",
        "tour": "Take a guided tour: push, pop and acknowledge.",
        "dsn": "Print the address of PostgreSQL itself, for psql and others.",
        "settings": "Show every setting, its value here and where it comes from.",
    },
    "Messages": {
        "push": "Push messages: arguments, or JSON lines of a file or a pipe.",
        "pop": "Take messages, print them, and acknowledge what is printed.",
        "tail": "Print the newest messages, and with -f those that follow.",
        "trace": "Follow a trace id through the queues: a timeline of its messages.",
        "dlq": "List, show, redrive or purge dead letters.",
    },
    "Queues and groups": {
        "queues": "List queues with what they hold.",
        "queue": "Show, create, configure or delete one queue.",
        "groups": "List consumer groups: leases, subscriptions, how they are doing.",
        "group": "Move a consumer group, or forget it.",
        "pause": "Deliver nothing more from a queue, or from it to one group.",
        "resume": "Deliver again from a queue, or from it to one group.",
        "lag": "Show how far groups are behind, in messages and in time.",
    },
    "Find out": {
        "status": "Show how things stand, in a few numbers.",
        "top": "Watch rates, lag and leases live; q quits.",
        "why": "Explain why nothing is delivered, partition by partition.",
        "verify": "Check that everything pushed is accounted for.",
        "doctor": "Look for what hurts: versions, settings, clocks, disks.",
        "bench": "Measure pushes and pops, on a queue of its own.",
    },
    "History": {
        "pipeline": "Archive, replay, aggregate and analyse messages with Spark.",
    },
}


class Exit(IntEnum):
    """What the exit status says."""

    OK = 0
    FAILED = 1  # it was refused, did not work, or a check found a difference
    NOT_UNDERSTOOD = 2
    OUT_OF_REACH = 3  # the server or the database
    INTERRUPTED = 130


class Front(CommandGroup):
    """The list of commands, of which only the one that is wanted is imported."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that the arguments begin with; the rest are its own."""
        name, listed, rest = super().resolve_command(ctx, args)
        ctx.invoked_subcommand = name  # an import can fail already
        return name, load(name) if name is not None else listed, rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what goes wrong is told in a sentence."""
        try:
            return super().invoke(ctx)
        except QueenError as error:
            print(*filter(None, (f"queen {ctx.invoked_subcommand}: {error}", error.hint)), sep="\n", file=sys.stderr)
            raise typer.Exit(Exit.OUT_OF_REACH if isinstance(error, Unavailable) else Exit.FAILED) from error


def load(name: str) -> Any:
    """A command, ready to run."""
    command = get_command(importlib.import_module(f"queenmq.cli.{name}").app)
    command.name = name
    return command


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; answers its exit status."""
    try:
        get_command(app).main(argv, prog_name="queen")
    except SystemExit as exited:
        return int(exited.code or 0)
    raise AssertionError("a command ends with an exit status")


def _print_version(asked: bool) -> None:  # noqa: FBT001 (the way Typer calls it)
    if asked:
        print(f"queen {__version__}")
        raise typer.Exit


def _front() -> typer.Typer:
    front = typer.Typer(
        cls=Front,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @front.callback(
        epilog="Settings are QUEEN_* environment variables: `queen settings` shows them. Exit status: 0 it worked, "
        "1 it failed or a difference was found, 2 not understood, 3 the server or database is out of reach, "
        "130 interrupted."
    )
    def queen(
        *,
        version: Annotated[
            bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
        ] = False,
    ) -> None:
        """Queen: a partitioned message queue on PostgreSQL.

        queen serve                        start a server
        queen push orders '{"id": 1}'      push to a queue
        queen pop orders                   take from it
        queen why orders                   when nothing comes
        """

    for panel, commands in COMMANDS.items():
        for name, summary in commands.items():
            front.command(name, help=summary, rich_help_panel=panel)(lambda: None)
    return front


app = _front()
