"""queen dlq: dead letters."""

from datetime import datetime
from typing import Annotated

import typer

from queenmq.api.dead_letters import DeadLetter, DeadLetterPage
from queenmq.cli.confirmation import confirm
from queenmq.cli.connection import check_queue, connected
from queenmq.cli.options import Dsn, Json, Limit, Url, Yes, command_app, moment
from queenmq.cli.printing import counted, print_facts, print_json, print_table
from queenmq.client.queen import AsyncQueen
from queenmq.errors import MessageNotFound

PAGE = 1_000
ERROR_CHARACTERS = 60

Ids = Annotated[list[str] | None, typer.Argument(metavar="ID", help="Dead letters, as queen dlq list calls them.")]
Queue = Annotated[str | None, typer.Option("--queue", "-q", help="Of this queue.")]
Group = Annotated[str | None, typer.Option("--group", "-g", help="That this consumer group gave up.")]

app = command_app()


@app.callback()
def main() -> None:
    """List, show, redrive or purge dead letters.

    ```
    queen dlq list --queue orders
    queen dlq show 00000000-0000-0000-0000-000000000007
    queen dlq redrive --queue orders
    ```
    """


@app.command("list")
def list_letters(
    queue: Queue = None,
    group: Group = None,
    limit: Limit = 100,
    url: Url = None,
    dsn: Dsn = None,
    *,
    json: Json = False,
) -> None:
    """List dead letters, newest first."""

    async def look(queen: AsyncQueen) -> DeadLetterPage:
        await check_queue(queen, queue)
        return await queen.dead_letters.list(queue=queue, group=group, limit=limit)

    page = connected(url, dsn, look)
    if json:
        print_json(page)
        return
    print_table(
        ("id", "queue", "partition", "group", "failed", "retries", "error"),
        [
            (
                each.id,
                each.queue,
                each.partition,
                each.group,
                each.failed_at,
                each.retry_count,
                (each.error or "")[:ERROR_CHARACTERS],
            )
            for each in page.dead_letters
        ],
        "There are no dead letters.",
    )
    if page.total > len(page.dead_letters):
        print(f"\n{len(page.dead_letters):,} of {page.total:,}")


@app.command()
def show(
    id: Annotated[str, typer.Argument(help="The dead letter, as queen dlq list calls it.")],
    url: Url = None,
    dsn: Dsn = None,
    *,
    json: Json = False,
) -> None:
    """Show a dead letter with its payload and its error.

    ```
    queen dlq show 00000000-0000-0000-0000-000000000007
    ```
    """
    letter = connected(url, dsn, lambda queen: _find(queen, id))
    if json:
        print_json(letter)
    else:
        shown = {name.replace("_", " "): getattr(letter, name) for name in letter.__struct_fields__ if name != "raw"}
        print_facts({**shown, "payload": letter.json.decode()})


@app.command()
def redrive(
    ids: Ids = None,
    queue: Queue = None,
    group: Group = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, metavar="N", help="The most to redrive, the oldest first.")
    ] = 10_000,
    url: Url = None,
    dsn: Dsn = None,
    *,
    json: Json = False,
) -> None:
    """Deliver dead letters again, each to the group that gave it up, in its old place.

    ```
    queen dlq redrive --queue orders --group billing
    ```
    """
    _check_named(ids, queue, group)

    async def deliver(queen: AsyncQueen) -> int:
        await check_queue(queen, queue)
        return await queen.dead_letters.redrive(ids=ids or None, queue=queue, group=group, limit=limit)

    count = connected(url, dsn, deliver)
    _check_found(ids, count)
    if json:
        print_json({"redriven": count})
    else:
        print(f"Redrove {counted(count, 'dead letter')}.")


@app.command()
def purge(
    ids: Ids = None,
    queue: Queue = None,
    group: Group = None,
    older_than: Annotated[
        datetime | None, typer.Option(parser=moment, metavar="TIME", help="That failed before this moment.")
    ] = None,
    url: Url = None,
    dsn: Dsn = None,
    *,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Delete dead letters for good.

    ```
    queen dlq purge --queue orders --older-than 2030-01-31T12:00:00Z
    ```
    """
    _check_named(ids, queue, group, older_than)
    named = [*(ids or []), *(str(each) for each in (queue, group, older_than) if each is not None)]
    confirm(f"Delete the dead letters of {', '.join(named)} for good?", yes=yes)

    async def remove(queen: AsyncQueen) -> int:
        await check_queue(queen, queue)
        return await queen.dead_letters.purge(ids=ids or None, queue=queue, group=group, older_than=older_than)

    count = connected(url, dsn, remove)
    _check_found(ids, count)
    if json:
        print_json({"purged": count})
    else:
        print(f"Deleted {counted(count, 'dead letter')}.")


class NoDeadLetter(MessageNotFound):
    """There is no such dead letter, or no longer."""

    hint = "It may have been redriven or purged. `queen dlq list` shows those that there are."


def _check_named(*names: object) -> None:
    if not any(names):
        raise typer.BadParameter("name dead letters, or --queue or --group: all of them at once may be too many")


def _check_found(ids: list[str] | None, count: int) -> None:
    if ids and not count:
        raise NoDeadLetter(f"there is no dead letter {' or '.join(ids)}")


async def _find(queen: AsyncQueen, id: str) -> DeadLetter:
    """Page by page: a dead letter has no address of its own."""
    skip = 0
    while page := (await queen.dead_letters.list(limit=PAGE, skip=skip)).dead_letters:
        for letter in page:
            if id in (letter.id, letter.message_id):
                return letter
        skip += len(page)
    raise NoDeadLetter(f'there is no dead letter "{id}"')
