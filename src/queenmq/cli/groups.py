"""queen groups: all groups on all queues."""

from typing import Annotated

import typer

from queenmq.cli.connection import connected
from queenmq.cli.options import Dsn, Json, Url, command_app
from queenmq.cli.printing import print_json, print_table
from queenmq.client.administration.groups import Group
from queenmq.client.queen import AsyncQueen

app = command_app()


@app.command("groups")
def main(
    queue: Annotated[str | None, typer.Argument(help="Only groups on this queue.")] = None,
    url: Url = None,
    dsn: Dsn = None,
    *,
    json: Json = False,
) -> None:
    """List consumer groups: leases, subscriptions, how they are doing.

    ```
    queen groups
    queen groups orders
    ```
    """

    async def look(queen: AsyncQueen) -> list[Group]:
        if queue is not None:
            await queen.admin.describe(queue)
        return [each for each in await queen.groups.list() if queue in (None, each.queue)]

    groups = connected(url, dsn, look)
    if json:
        print_json(groups)
        return
    print_table(
        ("group", "queue", "leases", "behind", "mode", "since", "state"),
        [
            (
                each.name,
                each.queue,
                each.members,
                each.lag_messages,
                each.subscription_mode,
                each.subscription_from,
                each.state,
            )
            for each in groups
        ],
        "There are no groups.",
    )
