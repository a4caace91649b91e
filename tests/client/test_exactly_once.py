"""Pushes and acks in an application's own transactions, with every driver."""

import asyncio
import inspect
from contextlib import AsyncExitStack

import asyncpg
import pytest
import sqlalchemy as sa

from queenmq import AsyncQueen, GiveUp, Queen, Stop
from queenmq.errors import InvalidArgument, InvalidName, QueueFull
from tests.client import own_data
from tests.client.own_data import BLOCKING_CONNECTIONS, BLOCKING_POOLS, CONNECTIONS, POOLS

SECONDS_MAX = 60
TRACE = "0190a3e4-0000-4000-8000-000000000001"


@pytest.fixture
async def queen(address):
    async with asyncio.timeout(SECONDS_MAX), AsyncQueen(address) as queen:
        yield queen


@pytest.fixture
async def session(module_database):
    session = await asyncpg.connect(module_database)
    await session.execute("create table if not exists bills (queue text, n int)")
    yield session
    await session.close()


async def finished(result):
    return await result if inspect.isawaitable(result) else result


@pytest.mark.parametrize("name", [*CONNECTIONS, *BLOCKING_CONNECTIONS])
async def test_a_push_belongs_to_the_transaction_of_the_connection(queen, queue, module_database, name):
    async with AsyncExitStack() as opened:
        connection, commit, _ = await own_data.connection(opened, name, module_database)
        options = {"partition": "ann", "transaction_id": "t-1", "trace_id": TRACE, "headers": {"a": "b"}}
        await queen.push_in(connection, queue, {"id": 1, "né": None}, **options)
        await finished(commit())
        connection, _, rollback = await own_data.connection(opened, name, module_database)
        await queen.push_in(connection, queue, {"id": 2})
        await finished(rollback())
        connection, commit, _ = await own_data.connection(opened, name, module_database)
        await queen.push_in(connection, queue, {"id": 3}, partition="ann")
        await finished(commit())
    seen = []
    while len(seen) < 2:
        seen += await queen.queue(queue).batch(10).auto_ack().wait(SECONDS_MAX).pop()
    assert [message.payload for message in seen] == [{"id": 1, "né": None}, {"id": 3}]
    first = seen[0]
    assert (first.partition, first.transaction_id, first.trace_id) == ("ann", "t-1", TRACE)
    assert first.headers == {"a": "b"}


@pytest.mark.parametrize("name", BLOCKING_CONNECTIONS)
async def test_the_blocking_client_pushes_on_blocking_connections(module_database, queue, name):
    async with AsyncExitStack() as opened:
        connection, commit, _ = await own_data.connection(opened, name, module_database)
        with Queen(module_database) as queen:
            queen.push_in(connection, queue, 1)
            commit()
            [message] = queen.queue(queue).wait(SECONDS_MAX).pop()
    assert message.payload == 1


@pytest.mark.parametrize("name", CONNECTIONS)
async def test_the_blocking_client_refuses_other_connections(module_database, queue, name):
    async with AsyncExitStack() as opened:
        connection, *_ = await own_data.connection(opened, name, module_database)
        with Queen(module_database) as queen, pytest.raises(InvalidArgument, match="no blocking connection"):
            queen.push_in(connection, queue, 1)


@pytest.mark.parametrize("name", [*CONNECTIONS, *BLOCKING_CONNECTIONS])
async def test_what_is_refused_is_our_error(queen, module_database, name):
    async with AsyncExitStack() as opened:
        connection, *_ = await own_data.connection(opened, name, module_database)
        with pytest.raises(InvalidName):
            await queen.push_in(connection, "", 1)


@pytest.mark.parametrize("name", [*CONNECTIONS, *BLOCKING_CONNECTIONS])
async def test_a_push_to_a_full_queue_tells_its_depth_with_every_driver(queen, queue, module_database, name):
    await queen.admin.configure(queue, max_queue_size=2)
    await queen.queue(queue).push_many([1, 2])
    async with AsyncExitStack() as opened:
        connection, *_ = await own_data.connection(opened, name, module_database)
        with pytest.raises(QueueFull) as caught:
            await queen.push_in(connection, queue, 3)
    full = caught.value
    assert str(full) == f'queue "{queue}" is full: 2 messages are waiting and 2 is the limit'
    assert (full.queue, full.depth, full.limit) == (queue, 2, 2)


async def test_something_else_is_no_connection(queen, queue):
    with pytest.raises(InvalidArgument, match="a str is no connection"):
        await queen.push_in("postgresql://", queue, 1)


def insert(name: str, connection: object, queue: str, n: int):
    """The handler's own SQL, as its driver wants it."""
    if name.startswith("sqlalchemy"):
        return connection.execute(sa.text("insert into bills values (:queue, :n)"), {"queue": queue, "n": n})
    if name.startswith("psycopg"):
        return connection.execute("insert into bills values (%s, %s)", [queue, n])
    return connection.execute("insert into bills values ($1, $2)", queue, n)


@pytest.mark.parametrize("name", [*POOLS, *BLOCKING_POOLS])
async def test_what_a_handler_does_commits_with_the_ack(queen, queue, module_database, session, name):
    await queen.admin.configure(queue, retry_delay_ms=0)
    await queen.queue(queue).push_many([1, 2, 3])
    stop, tries = Stop(), []

    def work(n, connection):
        tries.append(n)
        return insert(name, connection, queue, n)

    def judge(n):
        if tries == [1, 2]:
            raise ValueError("after the insert, before the commit")
        if n == 3:
            stop.set()

    async def waiting(n: int, connection):
        await work(n, connection)
        await queen.push_in(connection, f"{queue}-next", n)
        judge(n)

    def blocking(n: int, connection):
        work(n, connection)
        judge(n)

    handler = blocking if name in BLOCKING_POOLS else waiting
    async with own_data.pool(name, module_database) as pool:
        await queen.queue(queue).batch(10).consume(handler, connection=pool, stop=stop)
    assert tries == [1, 2, 2, 3]
    rows = await session.fetch("select n from bills where queue = $1 order by n", queue)
    assert [row["n"] for row in rows] == [1, 2, 3]
    assert await queen.queue(queue).pop() == []
    following = []
    while handler is waiting and len(following) < 3:
        following += await queen.queue(f"{queue}-next").batch(10).auto_ack().wait(SECONDS_MAX).pop()
    assert [message.payload for message in following] == ([1, 2, 3] if handler is waiting else [])


@pytest.mark.parametrize("name", BLOCKING_POOLS)
async def test_the_blocking_client_commits_with_the_ack_too(address, queue, module_database, session, name):
    stop = Stop()
    with Queen(address) as queen:

        def handler(n: int, connection):
            insert(name, connection, queue, n)
            queen.push_in(connection, f"{queue}-next", n)
            stop.set()

        queen.queue(queue).push(7)
        async with asyncio.timeout(SECONDS_MAX), own_data.pool(name, module_database) as pool:
            await asyncio.to_thread(queen.queue(queue).consume, handler, connection=pool, stop=stop)
        assert queen.queue(queue).pop() == []
        [message] = queen.queue(f"{queue}-next").wait(SECONDS_MAX).pop()
    assert message.payload == 7
    assert await session.fetchval("select n from bills where queue = $1", queue) == 7


async def test_a_batch_is_one_transaction(queen, queue, module_database, session):
    for partition in ("a", "b"):
        await queen.queue(queue).partition(partition).push_many([1, 2])
    stop, batches = Stop(), []

    async def handler(numbers: list[int], connection):
        batches.append(numbers)
        await connection.executemany("insert into bills values ($1, $2)", [(queue, n) for n in numbers])
        stop.set()

    async with own_data.pool("asyncpg", module_database) as pool:
        source = queen.queue(queue).batch(10)
        await source.consume(handler, connection=pool, stop=stop)
    assert batches == [[1, 2, 1, 2]]
    assert await session.fetchval("select count(*) from bills where queue = $1", queue) == 4
    assert await queen.queue(queue).pop() == []


async def test_giving_up_undoes_what_was_done(queen, queue, module_database, session):
    await queen.queue(queue).push(1)
    stop = Stop()

    async def handler(n: int, connection):
        await insert("asyncpg", connection, queue, n)
        stop.set()
        raise GiveUp("no")

    async with own_data.pool("asyncpg", module_database) as pool:
        await queen.queue(queue).consume(handler, connection=pool, stop=stop)
    assert await session.fetchval("select count(*) from bills where queue = $1", queue) == 0
    assert (await queen.dead_letters.list(queue=queue)).total == 1


async def test_a_handler_that_lost_its_lease_cannot_commit(queen, queue, module_database, session):
    await queen.queue(queue).push(1)
    stop, tries = Stop(), []

    async def handler(n: int, connection):
        tries.append(n)
        await insert("asyncpg", connection, queue, n)
        if len(tries) == 1:
            await queen.groups.seek("g", queue, to="beginning")  # ends the lease; nobody has noticed yet
        else:
            stop.set()

    async with own_data.pool("asyncpg", module_database) as pool:
        await queen.queue(queue).group("g").consume(handler, connection=pool, stop=stop)
    assert tries == [1, 1]
    assert await session.fetchval("select count(*) from bills where queue = $1", queue) == 1


async def wants_none(n: int): ...


async def wants_one(n: int, connection): ...


def blocks(n: int, connection): ...


@pytest.mark.parametrize(
    ("handler", "pool", "complaint"),
    [
        (wants_none, "asyncpg", "wrong parameters"),
        (blocks, "asyncpg", "no pool for plain functions"),
        (wants_one, "psycopg blocking", "no pool for coroutine functions"),
    ],
)
async def test_handlers_and_pools_must_fit(queen, queue, module_database, handler, pool, complaint):
    async with own_data.pool(pool, module_database) as opened:
        with pytest.raises(InvalidArgument, match=complaint):
            await queen.queue(queue).consume(handler, connection=opened)


async def test_a_transaction_that_acks_excludes_the_pop_that_does(queen, queue, module_database):
    async with own_data.pool("asyncpg", module_database) as pool:
        with pytest.raises(InvalidArgument, match="auto_ack"):
            await queen.queue(queue).auto_ack().consume(wants_one, connection=pool)
