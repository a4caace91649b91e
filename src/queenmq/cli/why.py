"""queen why: why nothing is delivered."""

from typing import Annotated

import typer

from queenmq.api.diagnosis import Why
from queenmq.cli.connection import connected
from queenmq.cli.options import Dsn, Group, Json, Limit, Url, command_app
from queenmq.cli.printing import print_json, print_table
from queenmq.errors import QueueNotFound
from queenmq.model import QUEUE_MODE

app = command_app()


@app.command("why")
def main(
    queue: Annotated[str, typer.Argument(help="The queue that gives nothing.")],
    group: Group = QUEUE_MODE,
    partition: Annotated[str | None, typer.Option("--partition", "-p", help="Only this partition.")] = None,
    limit: Limit = 100,
    url: Url = None,
    dsn: Dsn = None,
    *,
    json: Json = False,
) -> None:
    """Explain why nothing is delivered, partition by partition.

    Leased until when and by whom, delayed, debounced, waiting for a retry, poison at the head, paused, subscribed
    later, empty: partitions with work come first.

    ```
    queen why orders
    queen why orders --group billing --partition ann
    ```
    """
    reasons = connected(url, dsn, lambda queen: queen.call(Why(queue, group, partition, limit)))
    for reason in reasons:
        if reason.cause == "no_queue":
            raise QueueNotFound(reason.explanation)
    if json:
        print_json(reasons)
        return
    print_table(
        ("partition", "cause", "until", "messages", "why"),
        [
            (each.partition or "(all)", each.cause.replace("_", " "), each.until, each.messages, each.explanation)
            for each in reasons
        ],
        "The queue has no partitions: nothing was ever pushed to it.",
    )
