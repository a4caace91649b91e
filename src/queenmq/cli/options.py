"""Options that several commands have, each with one spelling and one meaning."""

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from typer.core import TyperCommand, TyperGroup

OwnDsn = Annotated[
    str | None, typer.Option("--dsn", help="The PostgreSQL to use. Default: QUEEN_DSN, or a private one.")
]
DataDir = Annotated[Path | None, typer.Option(help="Where the private PostgreSQL keeps its files.")]

Url = Annotated[
    str | None, typer.Option(help="Servers to ask, with commas between. Default: QUEEN_URL, or this machine.")
]
Dsn = Annotated[str | None, typer.Option(help="Ask this PostgreSQL instead of a server. Default: QUEEN_DSN.")]
PipelineDsn = Annotated[
    str | None,
    typer.Option("--dsn", help="The PostgreSQL to use. Default: QUEEN_DSN, or that of a server on this machine."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Group = Annotated[
    str, typer.Option("--group", "-g", show_default=False, help="The consumer group. Default: the queue's own.")
]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, metavar="N", help="The most to show.")]


def moment(text: str) -> datetime:
    """A moment as options take it: ISO 8601 with a time zone."""
    try:
        found = msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        raise typer.BadParameter(f"{text!r} is not a moment such as 2030-01-31T12:00:00Z") from None
    if found.tzinfo is None:
        raise typer.BadParameter(f"{text!r} has no time zone: end it with Z for UTC")
    return found


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> Any:
        return _with_switches(super().get_params(ctx))


class CommandGroup(TyperGroup):
    """A command of commands."""

    def get_params(self, ctx: Any) -> Any:
        """Its options."""
        return _with_switches(super().get_params(ctx))


class _App(typer.Typer):
    def command(self, name: str | None = None, **options: Any) -> Any:
        return super().command(name, cls=_Command, **options)


def command_app() -> typer.Typer:
    """Where a command's module registers it: completion belongs to `queen` as a whole, and docstrings are help."""
    return _App(cls=CommandGroup, add_completion=False, no_args_is_help=True, rich_markup_mode="markdown")


def _with_switches(parameters: list[Any]) -> list[Any]:
    """Parameters, with switches that look like switches in the help: Typer would say that they take a <bool>."""
    for each in parameters:
        if getattr(each, "is_flag", False):
            each.metavar = ""
    return parameters


def given(**options: object) -> dict[str, Any]:
    """The options that were given: they win over the environment."""
    return {name: value for name, value in options.items() if value is not None}
