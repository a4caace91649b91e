"""queen queues: all queues and what they hold."""

from typing import Annotated

import typer

from queenmq.cli.connection import connected
from queenmq.cli.options import Dsn, Json, Limit, Url, command_app
from queenmq.cli.printing import print_json, print_table

app = command_app()


@app.command("queues")
def main(
    search: Annotated[str | None, typer.Argument(help="Only queues with this in their name.")] = None,
    namespace: Annotated[str | None, typer.Option(help="Only queues of this namespace.")] = None,
    task: Annotated[str | None, typer.Option(help="Only queues of this task.")] = None,
    limit: Limit = 1000,
    url: Url = None,
    dsn: Dsn = None,
    *,
    json: Json = False,
) -> None:
    """List queues with what they hold.

    Of a queue with more than 1,000 partitions the numbers are those of the last minute.

    ```
    queen queues
    queen queues order --namespace shop
    ```
    """
    queues = connected(
        url, dsn, lambda queen: queen.admin.queues(search=search, namespace=namespace, task=task, limit=limit)
    )
    if json:
        print_json(queues)
        return
    print_table(
        ("queue", "namespace", "task", "partitions", "stored", "pending", "leased", "retrying", "dead", ""),
        [
            (
                each.name,
                each.namespace,
                each.task,
                each.partitions,
                held.stored,
                held.pending,
                held.processing,
                held.retrying,
                held.dead_letters,
                "paused" if each.paused else "",
            )
            for each in queues
            for held in [each.messages]
        ],
        "There are no queues." if search is None else "There is no such queue.",
    )
