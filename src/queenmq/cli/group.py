"""queen group: move a group, or forget it."""

from datetime import UTC, datetime
from typing import Annotated, Literal

import typer
from msgspec import Struct

from queenmq.cli.confirmation import confirm
from queenmq.cli.connection import connected
from queenmq.cli.options import Dsn, Json, Url, Yes, command_app, moment
from queenmq.cli.printing import counted, moment_text, print_json
from queenmq.errors import GroupNotFound

Group = Annotated[str, typer.Argument(help="The consumer group.")]

app = command_app()


class Target(Struct, frozen=True):
    """Where a group moves: one of the ends, or a moment."""

    end: Literal["beginning", "end"] | None = None
    moment: datetime | None = None

    def __str__(self) -> str:
        if self.moment is None:
            return f"the {self.end}"
        future = self.moment > datetime.now(UTC)
        return moment_text(self.moment) + (
            ", which is in the future: messages that are pushed before are skipped" if future else ""
        )


def target(text: str) -> Target:
    """A target as --to takes it."""
    if text == "beginning":
        return Target("beginning")
    if text == "end":
        return Target("end")
    try:
        return Target(moment=moment(text))
    except typer.BadParameter as error:
        raise typer.BadParameter(f"{error.message} (--to also takes beginning and end)") from None


@app.callback()
def main() -> None:
    """Move a consumer group, or forget it."""


@app.command()
def seek(
    group: Group,
    queue: Annotated[str, typer.Argument(help="The queue in which it moves.")],
    to: Annotated[
        Target | None,
        typer.Option(parser=target, metavar="PLACE", help="beginning, end, or a moment such as 2030-01-31T12:00:00Z."),
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

    The group reads again what lies after the new place, and never what it leaps over. A moment stands for the first
    message that was pushed then or later. If the moment lies in the future, the group skips what is
    pushed before it. Leases on partitions that move end.

    ```
    queen group seek billing orders --to beginning
    queen group seek billing orders --to 2030-01-31T12:00:00Z
    queen group seek billing orders --partition ann --offset 7
    ```
    """
    if (to is None) == (offset is None):
        raise typer.BadParameter("say where to: --to, or --offset in one partition")
    if offset is not None and partition is None:
        raise typer.BadParameter("an offset counts in one partition: name it with --partition")
    place = to or Target()
    where = f"offset {offset}" if to is None else str(to)
    confirm(f"Move the group {group} on {queue} to {where}?", yes=yes)
    moved = connected(
        url,
        dsn,
        lambda queen: queen.groups.seek(
            group, queue, partition=partition, to=place.end, timestamp=place.moment, offset=offset
        ),
    )
    if json:
        print_json({"group": group, "queue": queue, "partitions": moved})
    else:
        print(f"Moved {group} in {counted(moved, 'partition')} of {queue} to {where}.")


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
