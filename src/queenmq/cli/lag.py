"""queen lag: how far groups are behind."""

from typing import Annotated

import typer

from queenmq.api.diagnosis import ListUnread
from queenmq.cli.connection import check_queue, connected
from queenmq.cli.options import Dsn, Json, Limit, Url, command_app
from queenmq.cli.printing import NOBODY, print_json, print_table, seconds_text
from queenmq.client.queen import AsyncQueen

Lag = tuple[str, str | None, str | None, int, float, bool]  # queue, group, partition, messages, seconds, paused

app = command_app()


@app.command("lag")
def main(
    group: Annotated[str | None, typer.Argument(help="This group, partition by partition.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="Only on this queue.")] = None,
    min_seconds: Annotated[int, typer.Option(min=0, metavar="N", help="Only what is at least so far behind.")] = 0,
    limit: Limit = 100,
    url: Url = None,
    dsn: Dsn = None,
    *,
    json: Json = False,
) -> None:
    """Show how far groups are behind, in messages and in time.

    Those furthest behind come first. Messages that no group has ever asked for are shown as well, with (nobody) as the
    group; --json has null there.

    ```
    queen lag --min-seconds 60
    queen lag billing --queue orders
    ```
    """

    async def look(queen: AsyncQueen) -> list[Lag]:
        await check_queue(queen, queue)
        if group is None:
            groups = await queen.groups.list(lag_seconds_min=min_seconds)
            unread = [each for each in await queen.call(ListUnread()) if each.seconds >= min_seconds]
            return [
                (each.queue, each.name, None, each.lag_messages, each.lag_seconds, each.paused) for each in groups
            ] + [(each.queue, None, None, each.messages, each.seconds, False) for each in unread]
        places = await queen.groups.lag(group, limit=limit)
        paused = {each.queue for each in await queen.groups.list() if each.name == group and each.paused}
        return [
            (each.queue, group, each.partition, each.lag_messages, each.lag_seconds, each.queue in paused)
            for each in places
            if each.lag_seconds >= min_seconds
        ]

    lags = (lag for lag in connected(url, dsn, look) if queue in (None, lag[0]))
    shown = sorted(lags, key=lambda lag: -lag[4])[:limit]
    if json:
        names = ("queue", "group", "partition", "messages", "seconds", "paused")
        print_json([dict(zip(names, lag, strict=True)) for lag in shown])
        return
    print_table(
        ("queue", "group", "partition", "messages", "oldest", ""),
        [
            (queue, group or NOBODY, partition, messages, seconds_text(seconds), "paused" if paused else "")
            for queue, group, partition, messages, seconds, paused in shown
        ],
        "Nobody is behind.",
    )
