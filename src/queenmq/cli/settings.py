"""queen settings: what is set, and where it comes from."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated

import typer

from queenmq.cli.options import Json, command_app
from queenmq.cli.printing import print_json, print_table
from queenmq.config import PREFIX, Settings
from queenmq.engine.postgres.embedded.local import NotRunning, local_dsn

app = command_app()


@app.command("settings")
def main(
    *,
    changed: Annotated[bool, typer.Option("--changed", help="Only those that the environment sets.")] = False,
    json: Json = False,
) -> None:
    """Show every setting, its value here and where it comes from.

    Secrets are masked. docs/settings.md tells what each one means.

    ```
    queen settings --changed
    ```
    """
    settings, named = Settings.load(), Settings.named()
    shown = [_line(settings, name, named) for name in settings.__struct_fields__ if name in named or not changed]
    if json:
        print_json(shown)
    else:
        print_table(("setting", "value", "source"), [tuple(each.values()) for each in shown], "Nothing is set.")


def _line(settings: Settings, name: str, named: Mapping[str, str]) -> dict[str, str | None]:
    value, source = settings.shown(name), "environment" if name in named else "default"
    if name == "dsn" and value is None:
        with suppress(NotRunning):
            value, source = local_dsn(settings), "the private PostgreSQL, which runs"
    return {"setting": PREFIX + name.upper(), "value": None if value is None else str(value), "source": source}
