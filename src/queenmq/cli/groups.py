"""queen groups: all groups on all queues."""

from typing import Annotated

import typer

from queenmq.api.diagnosis import ListUnread, Unread
from queenmq.api.groups import Group
from queenmq.cli.connection import check_queue, connected
from queenmq.cli.options import Dsn, Json, Url, command_app
from queenmq.cli.printing import NOBODY, print_json, print_table
from queenmq.client.queen import AsyncQueen

UNREAD = "Unread"  # the state of a queue without groups
PAUSED = "Paused"  # the state of a group that gets nothing for now

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

    A queue that no group reads has a line too, with (nobody) as the group and the state Unread;
    --json has null as its name.

    ```
    queen groups
    queen groups orders
    ```
    """

    async def look(queen: AsyncQueen) -> tuple[list[Group], list[Unread]]:
        await check_queue(queen, queue)
        groups = [each for each in await queen.groups.list() if queue in (None, each.queue)]
        return groups, [each for each in await queen.call(ListUnread()) if queue in (None, each.queue)]

    groups, unread = connected(url, dsn, look)
    if json:
        print_json([*groups, *map(_nobody, unread)])
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
                PAUSED if each.paused else each.state,
            )
            for each in groups
        ]
        + [(NOBODY, each.queue, 0, each.messages, None, None, UNREAD) for each in unread],
        "There are no groups.",
    )


def _nobody(unread: Unread) -> dict[str, object]:
    """What no group has asked for, with the fields of a group."""
    return dict.fromkeys(Group.__struct_fields__) | {
        "queue": unread.queue,
        "members": 0,
        "lag_messages": unread.messages,
        "lag_seconds": unread.seconds,
        "partitions_with_lag": unread.partitions,
        "state": UNREAD,
    }
