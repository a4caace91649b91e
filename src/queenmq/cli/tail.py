"""queen tail: the newest messages, and those that follow."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from queenmq.api.messages import StoredMessage
from queenmq.cli.connection import connected
from queenmq.cli.message import print_message
from queenmq.cli.options import Dsn, Json, Url, command_app
from queenmq.client.queen import AsyncQueen
from queenmq.errors import PartitionNotFound, QueueNotFound

app = command_app()


@app.command("tail")
def main(
    queue: Annotated[str, typer.Argument(help="The queue.")],
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, max=1000, metavar="N", help="How many of the newest.")
    ] = 10,
    partition: Annotated[str | None, typer.Option("--partition", "-p", help="Only this partition.")] = None,
    url: Url = None,
    dsn: Dsn = None,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with those that follow, until Ctrl-C.")] = False,
    json: Json = False,
) -> None:
    """Print the newest messages, and with -f those that follow.

    No group, no lease; each partition comes in its order. A queue that does not exist yet can be followed, too.

    ```
    queen tail orders -n 3
    queen tail orders -f --json
    ```
    """

    async def newest(queen: AsyncQueen) -> Sequence[StoredMessage]:
        if not lines:
            return ()
        try:
            return (await queen.messages.list(queue=queue, partition=partition, limit=lines)).messages
        except (QueueNotFound, PartitionNotFound):
            if not follow:
                raise
            return ()

    async def read(queen: AsyncQueen) -> None:
        source = queen.queue(queue) if partition is None else queen.queue(queue).partition(partition)
        following = await source.tail().settle() if follow else None
        seen = set()
        for message in reversed(await newest(queen)):
            seen.add((message.partition, message.offset))  # what came between the two looks is in both
            print_message(message, json=json)
        sys.stdout.flush()
        if following is None:
            return
        async for record in following:
            if (record.partition, record.offset) not in seen:
                print_message(record, json=json)
                sys.stdout.flush()

    connected(url, dsn, read)
