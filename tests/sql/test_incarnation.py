"""The token of a run of PostgreSQL: one for all sessions, and another one whenever history may have changed."""

import asyncio

import asyncpg
import pytest

from queenmq.engine.postgres.migrate import migrate
from queenmq.errors import HistoryChanged
from tests.faults.outage import start, stop

pytestmark = pytest.mark.every_postgres

TOKEN = "select queen.incarnation()"
CHECK = "select queen.check_incarnation($1)"
# What works with partition ids or offsets that a caller remembers; ids of leases are never used again.
GUARDED = {
    "check_incarnation", "ensure_partitions", "fetch_segments", "find_ids", "pop_batch", "push_segments",
    "push_spooled", "read_ranges", "recent_ids", "transact",
}  # fmt: skip
CHECKING = """
select p.proname::text as name, format('select * from queen.%I(%s)', p.proname,
              (select string_agg(a.name || ' => ' || case a.name when 'p_incarnation' then '$1' else 'null' end, ', ')
                 from unnest(p.proargnames[1 : p.pronargs]) as a (name))) as call
  from pg_proc p
 where p.pronamespace = 'queen'::regnamespace and 'p_incarnation' = any (p.proargnames)
"""


async def refused(session, statement, token):
    with pytest.raises(asyncpg.PostgresError) as caught:
        await session.fetch(statement, token)
    return caught.value.sqlstate == HistoryChanged.sqlstate


async def test_sessions_that_ask_at_once_get_the_same_token(connect):
    sessions = [await connect() for _ in range(8)]
    tokens = await asyncio.gather(*(session.fetchval(TOKEN) for session in sessions))
    assert len(set(tokens)) == 1
    assert [await session.fetchval(CHECK, tokens[0]) for session in sessions] == [True] * 8


async def test_every_function_refuses_another_token_before_it_does_anything(connection):
    rows = await connection.fetch(CHECKING)
    assert {row["name"] for row in rows} == GUARDED
    statements = [row["call"] for row in rows]
    token = await connection.fetchval(TOKEN)
    for statement in statements:
        assert await refused(connection, statement, "another")
        assert await refused(connection, statement, "")
    assert await connection.fetchval(CHECK, token)


async def test_a_call_without_a_token_is_not_checked(connection):
    assert await connection.fetchval(CHECK, None)


async def test_a_session_notices_that_the_table_was_emptied(connect):
    session, operator = await connect(), await connect()
    token = await session.fetchval(TOKEN)
    assert await session.fetchval(CHECK, token)
    await operator.execute("truncate queen.incarnations")
    assert await refused(session, CHECK, token)
    assert await session.fetchval(TOKEN) != token


async def test_a_session_notices_that_the_schema_was_made_again(connect):
    session, operator = await connect(), await connect()
    token = await session.fetchval(TOKEN)
    assert await session.fetchval(CHECK, token)
    [row] = await operator.fetch("select * from queen.incarnations")
    await operator.execute("drop schema queen cascade")
    await migrate(operator)
    await operator.execute("insert into queen.incarnations values ($1, $2, $3, $4)", *row)  # as from a dump
    assert await refused(session, CHECK, token)
    assert await session.fetchval(TOKEN) != token


async def test_a_copied_database_has_another_token(cluster, connection):
    token = await connection.fetchval(TOKEN)
    name = await connection.fetchval("select current_database()")
    await connection.close()
    await asyncio.to_thread(cluster.clone, name, f"{name}_copy")
    copy = await asyncpg.connect(cluster.dsn(f"{name}_copy"))
    try:
        assert await copy.fetchval("select token from queen.incarnations") == token
        assert await refused(copy, CHECK, token)
        assert await copy.fetchval(TOKEN) != token
    finally:
        await copy.close()
        await asyncio.to_thread(cluster.execute, f"drop database {name}_copy with (force)")


@pytest.mark.parametrize("how", ["fast", "immediate", "kill", "one backend"])
async def test_a_restart_of_postgresql_makes_another_token(own_postgres, how):
    session = await asyncpg.connect(own_postgres.dsn())
    await migrate(session)
    token = await session.fetchval(TOKEN)
    assert await session.fetchval(CHECK, token)
    if how == "one backend":  # PostgreSQL recovers from the crash; the postmaster keeps its start time
        await crash_a_backend(own_postgres, session)
    else:
        await stop(own_postgres, how)
        await start(own_postgres)
    session = await connected(own_postgres)
    assert await refused(session, CHECK, token)
    assert await session.fetchval(TOKEN) != token
    await session.close()


async def crash_a_backend(postgres, session):
    """Kill the session's process, and wait until PostgreSQL has ended and replaced all others."""
    witness = await asyncpg.connect(postgres.dsn())
    over = asyncio.Event()
    witness.add_termination_listener(lambda _: over.set())
    await asyncio.to_thread(postgres._run, "pg_ctl", "kill", "KILL", str(session.get_server_pid()))
    async with asyncio.timeout(60):
        await over.wait()


async def connected(postgres):
    async with asyncio.timeout(60):
        while True:
            try:
                return await asyncpg.connect(postgres.dsn())
            except (OSError, asyncpg.PostgresError):
                pass
