"""queen tour: push, pop and acknowledge, step by step, on a private PostgreSQL or on yours.

Every stop is a function: its docstring is what the visitor is told, its body the code that is shown and run, and
what it returns the result. So the tour cannot show anything that it does not do.
"""

import ast
import asyncio
import contextlib
import inspect
import sys
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Annotated
from uuid import uuid4

import asyncpg
import typer

from queenmq import __version__
from queenmq.cli.options import DataDir, OwnDsn, command_app, given
from queenmq.cli.postgres import Connection, Place, connect, postgres
from queenmq.client.message import AsyncMessage
from queenmq.client.queen import AsyncQueen
from queenmq.config import Settings, masked, wants_colour
from queenmq.engine.postgres.sqlstates import translate
from queenmq.errors import QueenError

app = command_app()


# -- the stops


async def create(queen: AsyncQueen, queue: str) -> str:
    """Create a queue.

    The first push would do it too; these settings make failures quick to see.
    """
    settings = await queen.queue(queue).create(retry_limit=1, retry_delay_ms=0)
    return f"leases last {settings.lease_seconds} s; {settings.retry_limit} retry, then a message is a dead letter"


async def push(queen: AsyncQueen, queue: str) -> str:
    """Push to three partitions.

    A partition is whatever must stay in order: a customer, an account, a device. The same
    transaction id, pushed twice, is stored once.
    """
    ann = queen.queue(queue).partition("ann")
    pushed = [
        await ann.push({"item": "tea"}, transaction_id="order-1"),
        await ann.push({"item": "cake"}),
        await queen.queue(queue).partition("bob").push({"item": "milk"}),
        await queen.queue(queue).partition("eve").push({"item": "bread"}),
        await ann.push({"item": "tea"}, transaction_id="order-1"),
    ]
    return "\n".join(f"{each.id}  {each.status}" for each in pushed)


async def take(queen: AsyncQueen, queue: str) -> str:
    """Pop a batch and acknowledge it.

    A pop leases a partition: until the lease ends no other consumer of the group gets it.
    """
    messages = await queen.queue(queue).partition("ann").batch(10).pop()
    [*_, last] = await queen.ack_many(messages)
    return f"{_items(messages)}\nlease released: {last.released}"


async def fail(queen: AsyncQueen, queue: str) -> str:
    """Fail one.

    It comes back in its place, counted; past the retry limit it is a dead letter, and its
    partition goes on.
    """
    attempts = []
    for _ in range(2):
        [message] = await queen.queue(queue).partition("bob").pop()
        attempts.append(message.attempt)
        await message.ack("failed", "sour")
    [letter] = (await queen.dead_letters.list(queue=queue)).dead_letters
    return f"attempts {attempts}\ndead letter: {letter.payload}, because: {letter.error}"


async def take_any(queen: AsyncQueen, queue: str) -> str:
    """Take whatever is left.

    Without a partition, the one that has been ready for longest is served. An automatic ack
    leaves no lease.
    """
    messages = await queen.queue(queue).batch(10).auto_ack().pop()
    return _items(messages)


async def read_again(queen: AsyncQueen, queue: str) -> str:
    """Read it all again, as another group.

    Groups are independent: each has its own place, leases and retries in every partition.
    """
    messages = await queen.queue(queue).group("audit").batch(10).max_partitions(3).pop()
    await queen.ack_many(messages)
    return _items(messages)


async def commit_together(queen: AsyncQueen, connection: Connection, queue: str) -> str:
    """Push inside your own transaction.

    The message commits with your rows, and is gone with them. This connection is the
    application's own, and so is the table.
    """
    await connection.execute("create temporary table orders (item text)")
    for item, ending in [("soup", "rollback"), ("salad", "commit")]:
        await connection.execute("begin")
        await connection.execute("insert into orders values ($1)", item)
        await queen.push_in(connection, queue, {"item": item}, partition="dan")
        await connection.execute(ending)
    messages = await queen.queue(queue).partition("dan").batch(10).wait(10).pop()
    rows = await connection.fetch("select item from orders")
    return f"in the table: {', '.join(row['item'] for row in rows)}\nin the queue: {_items(messages)}"


async def account(connection: Connection, queue: str) -> str:
    """Ask what became of everything.

    pushed = completed + dead + leased + pending, for every group in every partition. It is a view
    in the database, for you to look at with any tool.
    """
    ledger = await connection.fetch("select * from queen.ledger where queue = $1 and pushed > 0", queue)
    return _table(ledger)


STOPS: Sequence[Callable[..., Awaitable[str]]] = (
    create,
    push,
    take,
    fail,
    take_any,
    read_again,
    commit_together,
    account,
)


# -- the guide


@app.command("tour")
def main(
    dsn: OwnDsn = None,
    data_dir: DataDir = None,
    *,
    stay: Annotated[
        bool, typer.Option("--stay", help="When it is over, keep the queue to look at until Ctrl-C.")
    ] = False,
) -> None:
    """Take a guided tour: push, pop and acknowledge.

    On a private PostgreSQL that is stopped at the end, or on yours; the tour tidies up after itself.

    ```
    queen tour
    queen tour --stay
    ```
    """
    settings = Settings.load(**given(dsn=dsn, data_dir=data_dir), upkeep=True)
    try:
        with postgres(settings) as place:
            asyncio.run(_guide(place, settings, stay=stay))
    except KeyboardInterrupt:
        print("\nGoodbye. The tour has tidied up after itself.")
        raise typer.Exit(0 if stay else 130) from None


async def _guide(place: Place, settings: Settings, *, stay: bool) -> None:
    queue = f"tour-{uuid4().hex[:4]}"
    async with _visit(place.dsn, settings, queue) as given:
        print(f'Queen {__version__} on {place.name}\n\n     queue = "{queue}"')
        for number, stop in enumerate(STOPS, 1):
            _announce(number, stop)
            _conclude(await stop(**{name: given[name] for name in inspect.signature(stop).parameters}))
        if stay:
            print(
                f"\nThe queue stays until Ctrl-C. Look at it from another terminal:\n\n{_look(place, queue)}",
                flush=True,
            )
            await asyncio.Event().wait()
    print(
        f"\nThat was Queen. The tour's queue is deleted again.\n"
        f"  the data is in    {place.name}\n"
        f"  look at it        queen tour --stay keeps the queue, and says how to use psql\n"
        f"  read on           README.md, examples/, docs/python.md"
    )


def _look(place: Place, queue: str) -> str:
    queries = ("select * from queen.messages", "select * from queen.ledger")
    return "\n".join(
        f"  {place.psql} '{masked(place.dsn)}' -c \"{query} where queue = '{queue}'\"" for query in queries
    )


@contextlib.asynccontextmanager
async def _visit(dsn: str, settings: Settings, queue: str) -> AsyncIterator[dict[str, object]]:
    """A client without a server, an application's own connection and a queue name; the queue is deleted at the end."""
    connection = await connect(dsn, settings)
    try:
        async with AsyncQueen(dsn, settings=settings) as queen:
            try:
                yield {"queen": queen, "connection": connection, "queue": queue}
            finally:
                with contextlib.suppress(QueenError):
                    await queen.admin.delete(queue)
    except asyncpg.PostgresError as error:
        raise translate(error) from error
    finally:
        await connection.close()


def _announce(number: int, stop: Callable[..., Awaitable[str]]) -> None:
    title, _, explanation = inspect.cleandoc(stop.__doc__ or "").partition("\n\n")
    bold, dim, plain = ("\033[1m", "\033[2m", "\033[0m") if wants_colour(sys.stdout) else ("", "", "")
    print(f"\n{bold}{number}. {title.removesuffix('.')}{plain}")
    print(textwrap.indent(explanation, "   "), end="\n\n")
    print(textwrap.indent(_code(stop), f"     {dim}", lambda _: True).replace("\n", f"{plain}\n"), end=f"{plain}\n\n")


def _code(stop: Callable[..., Awaitable[str]]) -> str:
    """The body of a stop, without its docstring and its return, which words the result."""
    source = inspect.getsource(stop)
    [function] = ast.parse(source).body
    assert isinstance(function, ast.AsyncFunctionDef)
    lines = source.splitlines()[function.body[1].lineno - 1 : function.body[-1].lineno - 1]
    return textwrap.dedent("\n".join(lines))


def _conclude(result: str) -> None:
    print("   -> " + textwrap.indent(result, "      ").lstrip())


def _items(messages: Sequence[AsyncMessage]) -> str:
    """The messages of a pop by partition: `ann: tea, cake; bob: milk`."""
    partitions: dict[str, list[str]] = {}
    for message in messages:
        partitions.setdefault(message.partition, []).append(message.payload["item"])
    return "; ".join(f"{partition}: {', '.join(items)}" for partition, items in sorted(partitions.items()))


def _table(ledger: Sequence[asyncpg.Record]) -> str:
    rows = [["partition", "group", "pushed", "completed", "dead", "leased", "pending", "balanced"]]
    for line in sorted(ledger, key=lambda line: (line["partition"], line["group_name"])):
        counts = (line[name] for name in ("pushed", "completed", "dead_lettered", "leased", "pending"))
        rows.append([line["partition"], line["group_name"], *map(str, counts), "yes" if line["balanced"] else "NO"])
    first, second, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    return "\n".join(
        "  ".join([row[0].ljust(first), row[1].ljust(second), *map(str.rjust, row[2:], others)]) for row in rows
    )
