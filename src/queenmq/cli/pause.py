"""queen pause: deliver nothing more from a queue."""

from typing import Annotated

import typer

from queenmq.cli.connection import connected
from queenmq.cli.options import Dsn, Json, Url, command_app
from queenmq.cli.switch import report

app = command_app()


@app.command("pause")
def main(
    queue: Annotated[str, typer.Argument(help="The queue.")],
    group: Annotated[str | None, typer.Option("--group", "-g", help="Only deliveries to this consumer group.")] = None,
    url: Url = None,
    dsn: Dsn = None,
    *,
    json: Json = False,
) -> None:
    """Deliver nothing more from a queue, or from it to one group.

    Pushes go on, and consumers wait. They can still acknowledge what they have. A restart does not resume deliveries:
    `queen resume` does.

    ```
    queen pause orders
    queen pause orders --group billing
    ```
    """
    changed = connected(url, dsn, lambda queen: queen.admin.pause(queue, group=group))
    report(queue, group, changed=changed, paused=True, json=json)
