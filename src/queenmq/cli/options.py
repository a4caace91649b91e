"""Options that several commands have, each with one spelling and one meaning."""

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

OwnDsn = Annotated[
    str | None, typer.Option("--dsn", help="The PostgreSQL to use. Default: QUEEN_DSN, or a private one.")
]
DataDir = Annotated[Path | None, typer.Option(help="Where the private PostgreSQL keeps its files.")]

Url = Annotated[
    str | None, typer.Option(help="Servers to ask, with commas between. Default: QUEEN_URL, or this machine.")
]
Dsn = Annotated[str | None, typer.Option(help="Ask this PostgreSQL instead of a server. Default: QUEEN_DSN.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Group = Annotated[
    str, typer.Option("--group", "-g", show_default=False, help="The consumer group. Default: the queue's own.")
]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="The most to show.")]


def moment(text: str) -> datetime:
    """A moment as options take it: ISO 8601 with a time zone."""
    try:
        found = msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        raise typer.BadParameter(f"{text!r} is not a moment such as 2030-01-31T12:00:00Z") from None
    if found.tzinfo is None:
        raise typer.BadParameter(f"{text!r} has no time zone: end it with Z for UTC")
    return found


def command_app() -> typer.Typer:
    """Where a command's module registers it: completion belongs to `queen` as a whole, and docstrings are help."""
    return typer.Typer(add_completion=False, rich_markup_mode="markdown")


def given(**options: object) -> dict[str, Any]:
    """The options that were given: they win over the environment."""
    return {name: value for name, value in options.items() if value is not None}
