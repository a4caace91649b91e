"""queen pop: take messages, print them, acknowledge them."""

import sys
from typing import Annotated

import typer

from queenmq.cli.connection import connected
from queenmq.cli.message import print_message
from queenmq.cli.options import Dsn, Group, Json, Url, command_app
from queenmq.client.message import AsyncMessage
from queenmq.client.queen import AsyncQueen
from queenmq.errors import LeaseGone
from queenmq.model import QUEUE_MODE

app = command_app()


@app.command("pop")
def main(
    queue: Annotated[str, typer.Argument(help="Where from.")],
    group: Group = QUEUE_MODE,
    partition: Annotated[str | None, typer.Option("--partition", "-p", help="Only this partition.")] = None,
    batch: Annotated[int, typer.Option("--batch", "-n", min=1, max=10_000, metavar="N", help="The most to take.")] = 1,
    wait: Annotated[
        float, typer.Option(min=0, max=3600, metavar="SECONDS", help="How long to wait when there is nothing.")
    ] = 0,
    url: Url = None,
    dsn: Dsn = None,
    *,
    keep: Annotated[
        bool, typer.Option("--keep", help="Do not acknowledge: they come back when the lease ends.")
    ] = False,
    json: Json = False,
) -> None:
    """Take messages, print them, and acknowledge what is printed.

    A partition at a time, as any consumer of the group would get them.

    ```
    queen pop orders
    queen pop orders --group billing --batch 10 --wait 30
    ```
    """

    async def take(queen: AsyncQueen) -> list[AsyncMessage]:
        source = queen.queue(queue).group(group).batch(batch).wait(wait)
        messages = await (source if partition is None else source.partition(partition)).pop()
        try:
            for message in messages:
                print_message(message, json=json)
            sys.stdout.flush()
        except OSError:  # nobody reads it: others shall
            await queen.release_many(messages)
            raise
        if messages and not keep:
            lost = sum(not acked.success for acked in await queen.ack_many(messages))
            if lost:
                raise LeaseGone(f"{lost:,} of {len(messages):,} messages were printed too late to be acknowledged")
        return messages

    if not connected(url, dsn, take):
        print(f"Nothing to take. queen why {queue} tells why.", file=sys.stderr)
