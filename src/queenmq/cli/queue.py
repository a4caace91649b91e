"""queen queue: show, create, configure and delete one queue."""

import difflib
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from queenmq.api.queues import Partition, QueueDescription, QueueOptions, QueueSettings
from queenmq.cli.confirmation import confirm
from queenmq.cli.connection import check_queue, connected
from queenmq.cli.options import Dsn, Json, Limit, Url, Yes, command_app
from queenmq.cli.printing import print_facts, print_json, print_table
from queenmq.client.queen import AsyncQueen
from queenmq.errors import QueueNotFound, Refused

Queue = Annotated[str, typer.Argument(help="The queue.")]
Options = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME=VALUE", help="Settings, such as lease_seconds=60; `queen queue show` lists them."),
]
Namespace = Annotated[str | None, typer.Option(help="The namespace it belongs to.")]
Task = Annotated[str | None, typer.Option(help="The task it belongs to.")]

app = command_app()


@app.callback()
def main() -> None:
    """Show, create, configure or delete one queue.

    ```
    queen queue create letters lease_seconds=60 retry_limit=5
    queen queue show letters
    ```
    """


@app.command()
def show(queue: Queue, limit: Limit = 20, url: Url = None, dsn: Dsn = None, *, json: Json = False) -> None:
    """Show a queue: what it holds, its settings, its first partitions.

    ```
    queen queue show orders
    ```
    """

    async def look(queen: AsyncQueen) -> tuple[QueueDescription, list[Partition]]:
        return await queen.admin.describe(queue), (await queen.admin.partitions(queue, limit=limit)).partitions

    description, partitions = connected(url, dsn, look)
    if json:
        print_json({"queue": description, "partitions": partitions})
    else:
        _print(description, partitions)


@app.command()
def create(
    queue: Queue,
    options: Options = None,
    namespace: Namespace = None,
    task: Task = None,
    url: Url = None,
    dsn: Dsn = None,
    *,
    json: Json = False,
) -> None:
    """Create a queue; refused where there is one.

    The first push creates one too, with the defaults.

    ```
    queen queue create letters lease_seconds=60 retry_limit=5
    ```
    """
    wanted = _options(options)

    async def make(queen: AsyncQueen) -> QueueSettings:
        try:
            await queen.admin.describe(queue)
        except QueueNotFound:
            return await queen.admin.configure(queue, namespace=namespace, task=task, **wanted)
        raise Exists(f'there is a queue "{queue}"')

    _report(f"Created {queue}.", connected(url, dsn, make), json=json)


@app.command()
def configure(
    queue: Queue,
    options: Options = None,
    namespace: Namespace = None,
    task: Task = None,
    url: Url = None,
    dsn: Dsn = None,
    *,
    json: Json = False,
) -> None:
    """Change settings of a queue; what is not named stays as it is.

    ```
    queen queue configure letters retention_enabled=true retention_seconds=86400
    ```
    """
    wanted = _options(options)
    if not wanted and namespace is None and task is None:
        raise typer.BadParameter("name what to change, such as lease_seconds=60")

    async def change(queen: AsyncQueen) -> QueueSettings:
        await check_queue(queen, queue)  # a name with a mistake in it must not become a queue
        return await queen.admin.configure(queue, namespace=namespace, task=task, **wanted)

    _report(f"Configured {queue}.", connected(url, dsn, change), json=json)


@app.command()
def delete(queue: Queue, url: Url = None, dsn: Dsn = None, *, yes: Yes = False, json: Json = False) -> None:
    """Delete a queue and all that is in it.

    ```
    queen queue delete letters
    ```
    """
    confirm(f"Delete the queue {queue} with all its messages?", yes=yes)
    if not connected(url, dsn, lambda queen: queen.admin.delete(queue)):
        raise QueueNotFound(f'there is no queue "{queue}"')
    if json:
        print_json({"queue": queue, "deleted": True})
    else:
        print(f"Deleted {queue}.")


class Exists(Refused):
    """There is such a thing already."""

    hint = "Change it with queen queue configure, or choose another name."


def _options(pairs: Sequence[str] | None) -> QueueOptions:
    """name=value, with the types that the settings have."""
    given = QueueOptions()
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals:
            raise typer.BadParameter(f"{pair!r} is not name=value")
        if name not in QueueSettings.__struct_fields__:
            near = difflib.get_close_matches(name, QueueSettings.__struct_fields__, 1)
            known = f"did you mean {near[0]}?" if near else f"there are {', '.join(QueueSettings.__struct_fields__)}"
            raise typer.BadParameter(f"{name!r} is not a setting; {known}")
        given |= _option(name, value)
    return given


def _option(name: str, value: str) -> QueueOptions:
    try:
        return msgspec.convert({name: value}, QueueOptions, strict=False)
    except msgspec.ValidationError as error:
        reason, *_ = str(error).partition(" - at ")
        raise typer.BadParameter(f"{name} cannot be {value!r}: {reason}") from None


def _report(sentence: str, settings: QueueSettings, *, json: bool) -> None:
    if json:
        print_json(settings)
    else:
        print(sentence)


def _print(queue: QueueDescription, partitions: Sequence[Partition]) -> None:
    held = queue.messages
    print_facts(
        {
            "queue": queue.name,
            "namespace": queue.namespace or None,
            "task": queue.task or None,
            "created": queue.created_at,
            "deliveries": "paused" if queue.paused else "on",
            "partitions": queue.partitions,
            "messages": f"{held.stored:,} stored: {held.pending:,} pending, {held.processing:,} leased, "
            f"{held.completed:,} completed; {held.dead_letters:,} dead letters",
            **{name: getattr(queue.settings, name) for name in QueueSettings.__struct_fields__},
        }
    )
    print()
    print_table(
        ("partition", "stored", "pending", "leased", "last push"),
        [
            (each.name, each.messages.stored, each.messages.pending, each.messages.processing, each.last_message_at)
            for each in partitions
        ],
        "It has no partitions.",
    )
