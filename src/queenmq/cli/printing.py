"""What commands print: tables and sentences for people, JSON for programs.

Names and messages come from anywhere, and a terminal obeys what it is sent: control characters are
printed as what they are called.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Raw, Struct
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

RENAMED = {"raw": "payload"}  # as the SDK calls it when it is decoded
OMITTED = {"dead_letter_enabled_too"}  # the second name of a setting
NOBODY = "(nobody)"  # in the place of a group, where messages wait that no group has asked for
WIDTH_OF_A_PIPE = 10_000  # nobody looks at it, so nothing is cut or broken


def print_json(value: object) -> None:
    """One line of JSON, with the names that the SDK has."""
    sys.stdout.write(msgspec.json.encode(_plain(value)).decode() + "\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], empty: str) -> None:
    """A table with numbers to the right; a sentence instead where there is nothing."""
    lines = list(rows)
    if not lines:
        print(empty)
        return
    show(table(columns, lines))


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, fold: bool = True) -> Table:
    """A table without lines; where the terminal is too narrow, cells are folded, or cut."""
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for number, column in enumerate(columns):
        numeric = all(isinstance(row[number], int | float) for row in rows) and bool(rows)
        made.add_column(
            Text(column),
            justify="right" if numeric else "left",
            overflow="fold" if fold else "ellipsis",
            no_wrap=not fold,
        )
    for row in rows:
        made.add_row(*(_cell(value) for value in row))
    return made


def print_facts(facts: Mapping[str, object]) -> None:
    """Names and values, one per line."""
    made = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for name, value in facts.items():
        made.add_row(Text(name, style="bold"), _cell(value))
    show(made)


def show(what: RenderableType) -> None:
    """Print something; lines in a pipe end where their text does."""
    screen = console()
    if screen.is_terminal:
        screen.print(what)
        return
    with screen.capture() as captured:
        screen.print(what)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def console(*, stderr: bool = False) -> Console:
    """Standard output, or standard error, as wide as it is."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else WIDTH_OF_A_PIPE, highlight=False)


def printable(text: str) -> str:
    """A text that does nothing to a terminal."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def counted(number: int, noun: str) -> str:
    """So many of something."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def moment_text(moment: datetime) -> str:
    """A moment to the second, in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def seconds_text(seconds: float) -> str:
    """A length of time in its two largest units."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3_600:
        return f"{int(seconds) // 60} min {int(seconds) % 60} s"
    if seconds < 86_400:
        return f"{int(seconds) // 3_600} h {int(seconds) // 60 % 60} min"
    return f"{int(seconds) // 86_400} d {int(seconds) // 3_600 % 24} h"


def _cell(value: object) -> Text:
    if value is None:
        return Text("-", style="dim")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, int):
        return Text(f"{value:,}")
    if isinstance(value, float):
        return Text(f"{value:,.1f}")
    if isinstance(value, datetime):
        return Text(moment_text(value))
    return value if isinstance(value, Text) else Text(printable(str(value)))


def _plain(value: Any) -> Any:
    """Structs as they are called in Python; what they are called on the wire is the transport's affair."""
    if isinstance(value, Struct):
        return {
            RENAMED.get(name, name): _plain(getattr(value, name))
            for name in value.__struct_fields__
            if name not in OMITTED
        }
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | Raw):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, UUID) else value
