"""queen settings: what is set, and where it comes from."""

from typing import Annotated

import typer

from queenmq.cli.options import Json, command_app
from queenmq.cli.printing import print_json, print_table
from queenmq.config import PREFIX, Settings

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
    shown = [
        {
            "setting": PREFIX + name.upper(),
            "value": value if (value := settings.shown(name)) is None else str(value),
            "source": "environment" if name in named else "default",
        }
        for name in settings.__struct_fields__
        if name in named or not changed
    ]
    if json:
        print_json(shown)
    else:
        print_table(("setting", "value", "source"), [tuple(each.values()) for each in shown], "Nothing is set.")
