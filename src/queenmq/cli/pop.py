"""queen pop: take messages, print them, acknowledge them."""

import shlex
import sys
from typing import Annotated

import typer
from msgspec import Struct

from queenmq.cli.connection import check_queue, connected
from queenmq.cli.message import print_message
from queenmq.cli.options import Dsn, Group, Json, Url, command_app
from queenmq.client.message import AsyncMessage
from queenmq.client.queen import AsyncQueen
from queenmq.client.source import AsyncSource
from queenmq.errors import LeaseGone, QueueNotFound
from queenmq.model import QUEUE_MODE

SUGGESTED_MAX = 3  # queues of a namespace or task for which an empty pop suggests `queen why`

app = command_app()


class Wanted(Struct, frozen=True):
    """What to pop from: a queue, perhaps one partition of it; or every queue of a namespace, of a task, or of both."""

    queue: str | None
    partition: str | None
    namespace: str | None
    task: str | None

    def __post_init__(self) -> None:
        labelled = self.namespace is not None or self.task is not None
        if (self.queue is not None) == labelled:
            raise typer.BadParameter("name a queue, or else --namespace, --task, or both")
        if self.partition is not None and self.queue is None:
            raise typer.BadParameter("--partition belongs to a queue: name the queue too")

    def source(self, queen: AsyncQueen) -> AsyncSource:
        """Where the client pops from."""
        if self.queue is not None:
            queue = queen.queue(self.queue)
            return queue if self.partition is None else queue.partition(self.partition)
        if self.namespace is not None:
            source = queen.namespace(self.namespace)
            return source if self.task is None else source.task(self.task)
        assert self.task is not None
        return queen.task(self.task)

    async def queues(self, queen: AsyncQueen) -> list[str]:
        """The queues that the pop looked at; raises QueueNotFound if there are none."""
        if self.queue is not None:
            await check_queue(queen, self.queue)
            return [self.queue]
        found = await queen.admin.queues(namespace=self.namespace, task=self.task, limit=SUGGESTED_MAX)
        if not found:
            labels = {"namespace": self.namespace, "task": self.task}
            named = " and ".join(f'the {label} "{name}"' for label, name in labels.items() if name is not None)
            raise QueueNotFound(f"no queue has {named}")
        return [each.name for each in found]


@app.command("pop")
def main(
    queue: Annotated[str | None, typer.Argument(help="Where from.")] = None,
    group: Group = QUEUE_MODE,
    partition: Annotated[str | None, typer.Option("--partition", "-p", help="Only this partition.")] = None,
    namespace: Annotated[str | None, typer.Option(help="Any queue of this namespace, instead of one queue.")] = None,
    task: Annotated[str | None, typer.Option(help="Any queue of this task, instead of one queue.")] = None,
    batch: Annotated[int, typer.Option("--batch", "-n", min=1, max=10_000, metavar="N", help="The most to take.")] = 1,
    wait: Annotated[
        float, typer.Option(min=0, max=3600, metavar="SECONDS", help="How long to wait when there is nothing.")
    ] = 0,
    *,
    url: Url = None,
    dsn: Dsn = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Do not acknowledge: they come back when the lease ends.")
    ] = False,
    json: Json = False,
) -> None:
    """Take messages, print them, and acknowledge what is printed.

    A partition at a time, as any consumer of the group would get them. If there is nothing to take, it says so and how
    to find out why; a queue that does not exist is an error.

    ```
    queen pop orders
    queen pop orders --group billing --batch 10 --wait 30
    queen pop --namespace shop --task mail --group postman
    ```
    """
    wanted = Wanted(queue, partition, namespace, task)

    async def take(queen: AsyncQueen) -> list[str]:
        messages = await wanted.source(queen).group(group).batch(batch).wait(wait).pop()
        if not messages:
            return [_why(name, partition, group, url) for name in await wanted.queues(queen)]
        await _print(queen, messages, json=json)
        if not keep:
            await _acknowledge(queen, messages)
        return []

    suggestions = connected(url, dsn, take)
    if suggestions:
        print("Nothing to take. To find out why:", *suggestions, sep="\n  ", file=sys.stderr)


async def _print(queen: AsyncQueen, messages: list[AsyncMessage], *, json: bool) -> None:
    try:
        for message in messages:
            print_message(message, json=json)
        sys.stdout.flush()
    except OSError:  # nobody reads the pipe: the messages are for others
        await queen.release_many(messages)
        raise


async def _acknowledge(queen: AsyncQueen, messages: list[AsyncMessage]) -> None:
    lost = sum(not acked.success for acked in await queen.ack_many(messages))
    if lost:
        raise LeaseGone(f"{lost:,} of {len(messages):,} messages were printed too late to be acknowledged")


def _why(queue: str, partition: str | None, group: str, url: str | None) -> str:
    """The command that explains an empty pop."""
    options = {"--partition": partition, "--group": None if group == QUEUE_MODE else group, "--url": url}
    given = [word for name, value in options.items() if value is not None for word in (name, value)]
    return shlex.join(["queen", "why", queue, *given])
