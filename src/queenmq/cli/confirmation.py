"""Before something is lost: ask."""

import sys

import typer

from queenmq.cli import Exit


def confirm(question: str, *, yes: bool) -> None:
    """Go on only if somebody says so, with --yes or at the terminal; without a terminal nobody can be asked."""
    if yes:
        return
    if not sys.stdin.isatty():
        print(f"{question} There is no terminal to ask: say --yes.", file=sys.stderr)
        raise typer.Exit(Exit.NOT_UNDERSTOOD)
    if not typer.confirm(question):
        print("Nothing was done.")
        raise typer.Exit(Exit.FAILED)
