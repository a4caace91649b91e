"""queen trace: the way of a trace id through the queues."""

from typing import Annotated

import typer
from rich.text import Text

from queenmq.cli.connection import connected
from queenmq.cli.options import Dsn, Json, Url, command_app
from queenmq.cli.printing import counted, print_json, print_table
from queenmq.errors import MessageNotFound

BAR_CHARACTERS = 30
PAYLOAD_CHARACTERS = 60

app = command_app()


@app.command("trace")
def main(
    id: Annotated[str, typer.Argument(help="The trace id.")], url: Url = None, dsn: Dsn = None, *, json: Json = False
) -> None:
    """Follow a trace id through the queues: a timeline of its messages.

    ```
    queen trace 018f3a5e-7c1b-7e5d-9a3c-2f4b6d8e0a1c
    ```
    """
    steps = connected(url, dsn, lambda queen: queen.traces.follow(id))
    if not steps:
        raise MessageNotFound(f"no stored message has the trace id {id}")
    if json:
        print_json(steps)
        return
    total = steps[-1].seconds_since_start
    print_table(
        ("", "pushed", "after", "queue", "partition", "offset", "payload"),
        [
            (
                _bar(each.seconds_since_start, total),
                each.created_at,
                _after(each.seconds_since_previous),
                each.queue,
                each.partition,
                each.offset,
                each.json.decode()[:PAYLOAD_CHARACTERS],
            )
            for each in steps
        ],
        "",
    )
    print(f"\n{counted(len(steps), 'message')} in {total:.3f} s")


def _bar(seconds: float, total: float) -> Text:
    """Where a message is between the first and the last one."""
    place = round(seconds / total * (BAR_CHARACTERS - 1)) if total else 0
    return Text("─" * place + "●" + "─" * (BAR_CHARACTERS - 1 - place), style="dim")


def _after(seconds: float | None) -> str | None:
    return None if seconds is None else f"+{seconds:.3f} s"
