"""queen resume: deliver again from a queue."""

from typing import Annotated

import typer

from queenmq.cli.connection import connected
from queenmq.cli.options import Dsn, Json, Url, command_app
from queenmq.cli.switch import report

app = command_app()


@app.command("resume")
def main(
    queue: Annotated[str, typer.Argument(help="The queue.")],
    group: Annotated[str | None, typer.Option("--group", "-g", help="Only deliveries to this consumer group.")] = None,
    url: Url = None,
    dsn: Dsn = None,
    *,
    json: Json = False,
) -> None:
    """Deliver again from a queue, or from it to one group.

    A queue and each of its groups are paused and resumed on their own.

    ```
    queen resume orders
    queen resume orders --group billing
    ```
    """
    changed = connected(url, dsn, lambda queen: queen.admin.resume(queue, group=group))
    report(queue, group, changed=changed, paused=False, json=json)
