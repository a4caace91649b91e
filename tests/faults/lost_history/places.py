"""Who uses a queue while history changes: two servers over HTTP, and the SDK straight on PostgreSQL."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import asyncpg

from queenmq import AsyncQueen
from queenmq.client.outgoing import Outgoing
from queenmq.errors import Closed, HistoryChanged, QueenError, Unavailable
from tests.books import assert_the_books_balance
from tests.fixtures.servers import Served

T = TypeVar("T")

PATIENCE_SECONDS = 60
DROPPED = "could not open relation"  # PostgreSQL to calls that waited for a table while it was dropped
STORED = 'select queue, partition, "offset", transaction_id, payload from queen.messages order by 1, 2, 3'
ENSURE = "select partition_id from queen.ensure_partitions(array[$1], array[$2])"
PUSH = """
select first_offsets from queen.push_segments(array[$1::bigint], array[$2::int], array[$3::bytea], array[$4::text])
"""


@dataclass(frozen=True)
class Seen:
    """A message as it was delivered, or as it is stored."""

    queue: str
    partition: str
    offset: int
    id: str
    payload: Any


class Places(dict[str, AsyncQueen]):
    """Clients by name: of the servers "one" and "two", and "direct", which needs none."""

    servers: Sequence[Served] = ()


@asynccontextmanager
async def places(dsn: str, directory: Path, **settings: object) -> AsyncIterator[Places]:
    """Two servers and their clients; all rely on memory of their own."""
    servers = await asyncio.gather(
        *(asyncio.to_thread(Served, directory / name, dsn, {"workers": 1} | settings) for name in ("one", "two"))
    )
    try:
        async with AsyncQueen(servers[0].url) as one, AsyncQueen(servers[1].url) as two, AsyncQueen(dsn) as direct:
            at = Places(one=one, two=two, direct=direct)
            at.servers = servers
            yield at
        for server in servers:
            await server.stop()
            assert "HISTORY_CHANGED" not in server.log
    finally:
        for server in servers:
            sys.stderr.write(server.log)
            await asyncio.to_thread(server.kill)


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """Call, and again as long as PostgreSQL is out of reach."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                return await call()
            except (HistoryChanged, Closed):  # the engine repeats what PostgreSQL refuses with the first
                raise
            except QueenError as error:
                if not isinstance(error, Unavailable) and DROPPED not in error.message:
                    raise


async def push(queen: AsyncQueen, queue: str, partition: str, ids: Iterable[str]) -> list[str]:
    """Push a message for each id, and say what became of each."""
    items = [Outgoing(content(queue, partition, id), id) for id in ids]
    pushed = await patiently(lambda: queen.queue(queue).partition(partition).push_many(items))
    return [each.status for each in pushed]


async def take(queen: AsyncQueen, queue: str, group: str) -> list[Seen]:
    """All that a group has not read yet, acknowledged."""
    source = queen.queue(queue).group(group).subscription_mode("all").batch(1000).max_partitions(100)
    taken: list[Seen] = []
    while messages := await patiently(source.pop):
        taken += [seen(message) for message in messages]
        acked = await patiently(lambda found=messages: queen.ack_many(found))
        assert [each.error for each in acked if not each.success] == []
    return taken


def seen(message: Any) -> Seen:
    return Seen(message.queue, message.partition, message.offset, message.transaction_id, message.payload)


def content(queue: str, partition: str, id: str) -> Any:
    """A payload that says where it belongs."""
    return {"queue": queue, "partition": partition, "id": id}


async def stored(connection: Any) -> list[Seen]:
    """All that PostgreSQL has, in order; every message is where its payload says, and once."""
    found = [Seen(*row.values()) for row in await connection.fetch(STORED)]
    found = [Seen(each.queue, each.partition, each.offset, each.id, json.loads(each.payload)) for each in found]
    for each in found:
        assert each.payload == content(each.queue, each.partition, each.id)
    assert len({(each.queue, each.partition, each.id) for each in found}) == len(found)
    return found


async def push_as_a_stranger(connection: Any, queue: str, partition: str, ids: list[str]) -> None:
    """Push without any memory, as a server does that was started just now."""
    partition_id = await connection.fetchval(ENSURE, queue, partition)
    payloads = json.dumps([content(queue, partition, id) for id in ids]).encode()
    await connection.execute(PUSH, partition_id, len(ids), payloads, json.dumps(ids))


@asynccontextmanager
async def looking(dsn: str) -> AsyncIterator[Any]:
    """A session to look with, around all servers; at the end the books balance."""
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
        await assert_the_books_balance(connection, await connection.fetchval("select clock_timestamp()"))
    finally:
        connection.terminate()
