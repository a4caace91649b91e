"""The way to PostgreSQL: time limits, conflicts, isolation, and what is said when nobody answers."""

import asyncio
import socket
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit

import pytest

from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.engine.postgres.database import Database
from queenmq.errors import Closed, DatabaseUnavailable, InvalidArgument, QueenError, TimedOut
from tests.engine.shorthand import messages, pop, until_asked, values

pytestmark = pytest.mark.every_postgres


@asynccontextmanager
async def holding(connection, statement):
    """Somebody else's transaction that has done something and does not end."""
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(statement)
    yield
    await transaction.rollback()


LOCK = "select from queen.partition_lookup for update"
WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"


async def test_a_statement_that_takes_too_long_is_given_up(open_engine, connection):
    engine = await open_engine(statement_timeout_ms=100)
    await engine.push(messages("orders", 1))
    async with holding(connection, LOCK):
        with pytest.raises(TimedOut) as failure:
            await engine.push(messages("orders", 2))
    assert failure.value.retryable
    assert (await engine.push(messages("orders", 3)))[0].offset == 1


async def test_a_lock_that_takes_too_long_is_given_up(open_engine, connection):
    engine = await open_engine(lock_timeout_ms=50)
    await engine.push(messages("orders", 1))
    async with holding(connection, LOCK):
        with pytest.raises(TimedOut, match="lock"):
            await engine.push(messages("orders", 2))
    assert (await engine.push(messages("orders", 3)))[0].offset == 1


@asynccontextmanager
async def deadlock(engine, connect):
    """A push that waits for somebody who waits for it; it is the engine that notices, and must let go."""
    pair = [each for name in "ab" for each in messages("orders", 1, partition=name)]
    first, second = sorted(answer.partition_id for answer in await engine.push(pair))
    other, watcher = await connect(), await connect()
    lock = "select from queen.partition_lookup where partition_id = $1 for update"
    await other.execute("set deadlock_timeout = '1h'")
    async with holding(other, f"select from queen.partition_lookup where partition_id = {second} for update"):
        pushing = asyncio.create_task(engine.push(pair))
        await until_asked(lambda: watcher.fetchval(WAITING))
        await other.execute(lock, first)
    yield pushing


async def test_a_deadlock_is_tried_again(engine, connect):
    async with deadlock(engine, connect) as pushing:
        assert [answer.offset for answer in await pushing] == [1, 1]


async def test_how_often_is_a_setting(open_engine, connect):
    engine = await open_engine(retry_attempts_max=0)
    async with deadlock(engine, connect) as pushing:
        with pytest.raises(TimedOut, match="untangle"):
            await pushing


async def test_calls_are_read_committed_whatever_the_server_prefers(open_engine, connection):
    name = await connection.fetchval("select quote_ident(current_database())")
    await connection.execute(f"alter database {name} set default_transaction_isolation = 'serializable'")
    engine = await open_engine()
    assert await engine.database.value("select current_setting('transaction_isolation')") == "read committed"
    await asyncio.gather(*(engine.push(messages("orders", n)) for n in range(20)))
    assert len(values(await pop(engine, "orders", batch=99))) == 20


async def test_every_connection_of_ours_says_who_it_is_and_how_long_it_waits(open_engine, connection):
    engine = await open_engine(statement_timeout_ms=12_345, lock_timeout_ms=6_789)
    shown = [
        await engine.database.value(f"select current_setting('{name}')")
        for name in ("application_name", "statement_timeout", "lock_timeout", "timezone", "search_path")
    ]
    assert shown == ["queen", "12345ms", "6789ms", "UTC", "pg_catalog"]


@pytest.mark.parametrize(("upkeep", "most"), [(False, 4), (True, 4), (True, 6)])
async def test_a_process_opens_no_more_connections_than_it_may(open_engine, connect, connection, upkeep, most):
    engine = await open_engine(pool_size_max=most, upkeep=upkeep)
    if upkeep:
        await engine.leader.leading.wait()
    await engine.push(messages("orders", 1))
    watcher = await connect()  # in a transaction, pg_stat_activity does not change

    async def ours():
        return await watcher.fetchval(
            "select count(*) from pg_stat_activity where application_name = 'queen' and datname = current_database()"
        )

    async def as_many_as_may():
        return await ours() >= most

    async with holding(connection, "lock table queen.queues in access exclusive mode"):
        asking = [asyncio.create_task(engine.admin.queue("orders")) for _ in range(20)]
        await until_asked(as_many_as_may)
        seen = max([await ours() for _ in range(20)])
    await asyncio.gather(*asking)
    assert seen == most


def elsewhere(dsn, database):
    return urlunsplit(urlsplit(dsn)._replace(path=f"/{database}"))


@pytest.mark.parametrize("way", ["nobody", "unknown database", "not a dsn"])
async def test_a_server_that_cannot_be_reached_is_unavailable(database, way):
    dsn = {
        "nobody": "postgresql://queen@127.0.0.1:1/queen",
        "unknown database": elsewhere(database, "queen_nowhere"),
        "not a dsn": "queen://?",
    }[way]
    with pytest.raises(DatabaseUnavailable):
        await Engine(dsn, Settings()).open()


async def test_a_server_that_goes_away_is_unavailable_until_it_is_back(own_postgres):
    async with Engine(own_postgres.dsn(), Settings(retry_attempts_max=1, upkeep=False)) as engine:
        await engine.push(messages("orders", 1))
        own_postgres.stop()
        for call in (engine.push(messages("orders", 2)), pop(engine, "orders"), engine.admin.queue("orders")):
            with pytest.raises(DatabaseUnavailable):
                await call
        own_postgres.start()
        assert values(await pop(engine, "orders", batch=9)) == [1]


async def test_a_value_that_its_type_cannot_hold_is_the_callers_mistake(engine):
    for query, value in [("select $1::int", 1 << 40), ("select $1::text", "\ud800"), ("select ($1::text)::int", "x")]:
        with pytest.raises(InvalidArgument):
            await engine.database.value(query, value)


async def test_what_postgresql_says_and_we_have_no_word_for_is_passed_on(engine):
    with pytest.raises(QueenError, match="42601"):
        await engine.database.value("selekt")


async def test_a_database_that_was_not_opened_or_is_closed_says_so(database):
    unopened = Database(database, Settings())
    with pytest.raises(Closed):
        await unopened.value("select 1")
    await unopened.close()
    await unopened.open()
    assert await unopened.value("select 1") == 1
    await unopened.close()
    with pytest.raises(Closed):
        await unopened.value("select 1")


async def test_calls_use_a_connection_again(engine):
    first = await engine.database.value("select pg_backend_pid()")
    assert {await engine.database.value("select pg_backend_pid()") for _ in range(10)} == {first}


async def test_a_connection_that_ended_while_it_was_at_hand_is_replaced(engine, connection):
    pids = [await engine.database.value("select pg_backend_pid()") for _ in range(2)]
    assert await connection.fetchval("select pg_terminate_backend($1, 10000)", pids[0])
    assert await engine.database.value("select pg_backend_pid()") != pids[0]


async def test_more_calls_than_connections_are_all_served(open_engine):
    engine = await open_engine(pool_size_max=4, upkeep=False)
    calls = (engine.database.value("select $1::int", number) for number in range(50))
    assert await asyncio.gather(*calls) == list(range(50))


async def test_a_call_of_many_bytes_leaves_at_once(engine):
    """Else PostgreSQL would wait for the rest until the event loop has time to send it."""
    async with engine.database._pool.acquire() as connection:
        way = connection._transport.get_extra_info("socket")
        if way.family != socket.AF_UNIX:
            pytest.skip("TCP finds the size of its buffers by itself")
        with socket.socket(way.family) as plain:
            usual = plain.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        assert way.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) > usual
