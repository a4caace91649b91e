"""queen group: move a group, or forget it."""

from datetime import datetime
from typing import Annotated, Literal

import typer

from queenmq.cli.confirmation import confirm
from queenmq.cli.connection import connected
from queenmq.cli.options import Dsn, Json, Url, Yes, command_app, moment
from queenmq.cli.printing import counted, print_json
from queenmq.errors import GroupNotFound

Group = Annotated[str, typer.Argument(help="The consumer group.")]

app = command_app()


@app.callback()
def main() -> None:
    """Move a consumer group, or forget it."""


@app.command()
def seek(
    group: Group,
    queue: Annotated[str, typer.Argument(help="The queue in which it moves.")],
    to: Annotated[Literal["beginning", "end"] | None, typer.Option(help="To one of the ends.")] = None,
    at: Annotated[
        datetime | None, typer.Option(parser=moment, metavar="TIME", help="To a moment, such as 2030-01-31T12:00:00Z.")
    ] = None,
    offset: Annotated[int | None, typer.Option(min=0, metavar="N", help="To an offset of one partition.")] = None,
    partition: Annotated[str | None, typer.Option("--partition", "-p", help="Only in this partition.")] = None,
    url: Url = None,
    dsn: Dsn = None,
    *,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Move a group to an end of a queue, to a moment, or to an offset.

    It reads again what lies behind, and never what it leaps over. Leases on partitions that move end.

    ```
    queen group seek billing orders --to beginning
    queen group seek billing orders --at 2030-01-31T12:00:00Z
    queen group seek billing orders --partition ann --offset 7
    ```
    """
    if (to is not None) + (at is not None) + (offset is not None) != 1:
        raise typer.BadParameter("name one of --to, --at and --offset")
    if offset is not None and partition is None:
        raise typer.BadParameter("an offset counts in one partition: name it with --partition")
    confirm(f"Move the group {group} on {queue} to {to or at or f'offset {offset}'}?", yes=yes)
    moved = connected(
        url,
        dsn,
        lambda queen: queen.groups.seek(group, queue, partition=partition, to=to, timestamp=at, offset=offset),
    )
    if json:
        print_json({"group": group, "queue": queue, "partitions": moved})
    else:
        print(f"Moved {group} in {counted(moved, 'partition')} of {queue}.")


@app.command()
def delete(
    group: Group,
    queue: Annotated[str | None, typer.Argument(help="Only on this queue.")] = None,
    url: Url = None,
    dsn: Dsn = None,
    *,
    keep_subscription: Annotated[
        bool, typer.Option("--keep-subscription", help="So that it starts again where it first started.")
    ] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Forget where a group stands, on one queue or on all.

    ```
    queen group delete billing orders
    ```
    """
    confirm(f"Forget the group {group} on {queue or 'all queues'}?", yes=yes)
    count = connected(
        url, dsn, lambda queen: queen.groups.delete(group, queue, with_subscription=not keep_subscription)
    )
    if not count:
        raise GroupNotFound(f'there is no group "{group}"')
    if json:
        print_json({"group": group, "queues": count})
    else:
        print(f"Forgot {group} on {counted(count, 'queue')}.")
