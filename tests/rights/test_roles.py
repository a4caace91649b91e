"""The four roles: each function for exactly those it is for, and tables for nobody."""

import asyncio
import json
import logging

import asyncpg
import pytest

from queenmq.config import Settings
from queenmq.engine.checkup import check_up
from queenmq.engine.postgres.database import Database
from queenmq.engine.postgres.migrate import migrate
from queenmq.sql import DIRECTORY, ROLES
from tests.docs.page import ROOT

pytestmark = pytest.mark.every_postgres

TEXT = (DIRECTORY / "grants.sql").read_text()
LISTED = json.loads(TEXT.split("$rights$")[1])
PURE = {"message_id", "message_position", "multirange_size", "count_lapses"}  # they read and write nothing
MEMBERS = {role: {role} for role in ROLES} | {"queen_admin": set(ROLES)}
# Nulls that the planner does not know: it would leave out a strict function.
CALLS = """
select p.proname::text as name,
       format('select queen.%I(%s) from (select 1%s offset 0) as a', p.proname, string_agg('a.x' || n, ', ' order by n),
              string_agg(format(', null::%s as x%s', format_type(t, null), n), '' order by n)
                filter (where n is not null)) as call
  from pg_proc p left join unnest(p.proargtypes) with ordinality as a (t, n) on true
 where p.pronamespace = 'queen'::regnamespace group by p.oid order by 1
"""
RELATIONS = """
select c.relname::text as name, k.privilege
  from pg_class c cross join unnest($2::text[]) as k (privilege)
 where c.relnamespace = 'queen'::regnamespace and c.relkind in ('r', 'p', 'v')
   and has_table_privilege($1, c.oid, k.privilege)
"""
PRIVILEGES = ["select", "insert", "update", "delete", "truncate", "references", "trigger"]
VIEWS = "select relname::text from pg_class where relnamespace = 'queen'::regnamespace and relkind = 'v'"


def test_each_function_has_one_role():
    names = [name for listed in LISTED.values() for name in listed]
    assert LISTED.keys() == set(ROLES)
    assert len(names) == len(set(names))


async def test_the_documented_functions_are_granted_except_those_for_clients_that_share_calls():
    page = (ROOT / "docs" / "sql.md").read_text()
    people = page[: page.index("## For clients that share calls")]
    internal = page[page.index("## Internal") :]
    granted = {name for listed in LISTED.values() for name in listed}
    assert {name for name in granted if f"`{name}`" in internal} == {"multirange_size", "count_lapses"}
    assert all(f"`queen.{name}(" in page for name in granted - {"multirange_size", "count_lapses"})
    written = {part.split("(")[0] for part in people.split("| `queen.")[1:] if "(" in part.split("`")[0]}
    assert written - granted == set()


async def test_a_granted_function_runs_with_the_owners_rights_and_a_fixed_search_path(connection):
    rows = await connection.fetch(
        "select proname::text, prosecdef, 'search_path=pg_catalog, pg_temp' = any (coalesce(proconfig, '{}')) as fixed "
        "from pg_proc where pronamespace = 'queen'::regnamespace"
    )
    granted = {name for listed in LISTED.values() for name in listed}
    assert {row["proname"] for row in rows if row["prosecdef"]} == granted - PURE
    assert {row["proname"] for row in rows if row["prosecdef"] and not row["fixed"]} == set()


async def refusal(connection, role, statement):
    """The SQLSTATE of the statement for a role, or None; nothing is changed."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute(f"set local role {role}; set local statement_timeout = '20s'")
        await connection.execute(statement)
    except asyncpg.PostgresError as error:
        return error.sqlstate
    finally:
        await transaction.rollback()
    return None


@pytest.mark.parametrize("role", [*ROLES, "nobody"])
async def test_a_role_runs_exactly_the_functions_that_are_listed_for_it(connection, role):
    await connection.execute("select queen.push('orders', '1'); select queen.sequence_inbox()")
    if role == "nobody":
        role = "pg_monitor"  # a role that every PostgreSQL has, with no right on Queen
    allowed = {name for member in MEMBERS.get(role, ()) for name in LISTED[member]}
    wrong = {}
    for name, call in await connection.fetch(CALLS):
        code = await refusal(connection, role, call)
        if (code == "42501") is (name in allowed):
            wrong[name] = code
    assert wrong == {}


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_has_no_right_on_a_table_and_reads_views_only_as_a_reader(connection, role):
    rights = {(row["name"], row["privilege"]) for row in await connection.fetch(RELATIONS, role, PRIVILEGES)}
    views = {row[0] for row in await connection.fetch(VIEWS)}
    expected = {(view, "select") for view in views if "queen_reader" in MEMBERS[role]}
    expected |= {("messages", "insert")} if "queen_producer" in MEMBERS[role] else set()
    assert rights == expected
    for view in views:
        code = await refusal(connection, role, f"select * from queen.{view}")
        assert code == (None if "queen_reader" in MEMBERS[role] else "42501"), view


@pytest.fixture
async def act(connection):
    """Run a statement as a role: `await act("queen_producer", "select …")`."""

    async def run(role, statement, *arguments):
        await connection.execute(f"set role {role}")
        try:
            return await connection.fetch(statement, *arguments)
        finally:
            await connection.execute("reset role")

    return run


PUSH = """
select queen.push('orders', '{"n": 1}', p_partition => 'ann', p_transaction_id => $1, p_headers => '{"a": "b"}')
"""
INSERT = "insert into queen.messages (queue, partition, payload) values ('orders', 'ann', '2')"


async def test_a_producer_pushes_in_a_transaction_of_its_own_and_reads_nothing(act, connection):
    await act("queen_admin", "select * from queen.configure_queue('orders', p_options => '{\"max_queue_size\": 9}')")
    async with connection.transaction():
        assert await act("queen_producer", PUSH, "one") == [(1,)]
        await act("queen_producer", INSERT)
    await act("queen_admin", "select * from queen.sequence_inbox()")
    assert await act("queen_producer", PUSH, "one") == [(None,)]
    for statement in (
        "select payload from queen.messages",
        "select * from queen.read_messages('orders', 'ann')",
        "select * from queen.pop('orders')",
        "select payloads from queen.segments",
        "insert into queen.inbox (queue_name, partition_name, payload, created_at) values ('a', 'b', '1', now())",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await act("queen_producer", statement)
    payloads = await act("queen_reader", 'select payload from queen.messages order by "offset"')
    assert [json.loads(row[0]) for row in payloads] == [{"n": 1}, 2]


async def test_a_consumer_takes_messages_and_answers_for_them(act):
    await act("queen_producer", PUSH, "one")
    await act("queen_producer", INSERT)
    await act("queen_admin", "select * from queen.sequence_inbox()")
    popped = "select * from queen.pop('orders', p_batch => 2, p_subscription_mode => 'all')"
    first, second = await act("queen_consumer", popped)
    assert await act("queen_consumer", "select queen.has_pending_messages('orders', 'ann', 'other')") == [(True,)]
    assert (await act("queen_consumer", "select * from queen.renew_lease($1)", [first["lease_id"]]))[0]["expires_at"]
    event = "select queen.record_event($1, 'one', 'packed', '{}')"
    assert len(await act("queen_consumer", event, first["partition_id"])) == 1
    ack = "select queen.ack($1, $2, $3)"
    assert await act("queen_consumer", ack, first["message_id"], first["lease_id"], "completed") == [(False,)]
    assert await act("queen_consumer", ack, second["message_id"], second["lease_id"], "failed") == [(True,)]
    again = await act("queen_consumer", popped)
    assert [row["retry_count"] for row in again] in ([], [1])
    assert await act("queen_consumer", "select queen.release_lease($1)", [first["lease_id"]]) == [(0,)]
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await act("queen_consumer", PUSH, "two")


async def test_an_admin_pushes_pops_reads_and_changes(act):
    await act("queen_admin", PUSH, "one")
    await act("queen_admin", INSERT)
    assert (await act("queen_admin", "select moved from queen.sequence_inbox()"))[0]["moved"] == 2
    assert len(await act("queen_admin", "select * from queen.pop('orders', p_subscription_mode => 'all')")) == 1
    assert await act("queen_admin", "select queen.seek_group('__QUEUE_MODE__', 'orders', p_to => 'end')") == [(1,)]
    assert (await act("queen_admin", "select * from queen.check_consistency()")) == []
    assert await act("queen_admin", "select queen.delete_queue('orders')") == [(True,)]


async def test_a_callers_search_path_changes_nothing_in_a_function_with_the_owners_rights(act, connection):
    """An operator of the caller's would run with the owner's rights."""
    await connection.execute(
        "create schema evil; grant usage on schema evil to public;"
        "create function evil.same(text, text) returns boolean language plpgsql as "
        "$$ begin raise exception 'as %', current_user; end $$;"
        "create operator evil.= (leftarg = text, rightarg = text, function = evil.same)"
    )
    await connection.execute("set search_path = evil, pg_catalog")
    with pytest.raises(asyncpg.RaiseError, match="as queen_producer"):
        await act("queen_producer", "select 'a'::text = 'b'::text")
    assert await act("queen_producer", PUSH, "one") == [(1,)]
    await connection.execute("reset search_path")


async def databases(postgres, count):
    admin = await asyncpg.connect(postgres.dsn())
    for number in range(count):
        await admin.execute(f"create database d{number}")
    return admin, [await asyncpg.connect(postgres.dsn(f"d{number}")) for number in range(count)]


async def test_databases_that_are_migrated_together_share_the_roles(own_postgres):
    admin, sessions = await databases(own_postgres, 4)
    await asyncio.gather(*(migrate(session) for session in sessions))
    members = await admin.fetch(
        "select r.rolname::text from pg_auth_members m join pg_roles r on r.oid = m.roleid "
        "where m.member = 'queen_admin'::regrole order by 1"
    )
    assert {row[0] for row in members} == set(ROLES) - {"queen_admin"}
    for session in sessions:
        assert await refusal(session, "queen_admin", "select queen.push('orders', '1')") is None
        assert (await migrate(session)).reloaded == ()
        await session.close()
    await admin.close()


async def test_a_role_that_may_not_create_roles_migrates_and_an_administrator_does_the_rest(own_postgres, caplog):
    admin, [session] = await databases(own_postgres, 1)
    await admin.execute("create role modest login nocreaterole; alter database d0 owner to modest")
    await session.close()
    session = await asyncpg.connect(own_postgres.dsn("d0"), user="modest")
    with caplog.at_level(logging.WARNING, "queenmq.engine.postgres.migrate"):
        assert "grants.sql" in (await migrate(session)).reloaded
    [line] = caplog.records
    assert line.roles == list(ROLES)
    assert "may not create them" in line.getMessage()
    assert await session.fetchval("select to_regrole('queen_producer')") is None
    assert await doctor_on_roles(own_postgres) == "warning"

    page = (ROOT / "docs" / "operations.md").read_text()
    statements = next(block for block in page.split("```") if "create role queen_producer" in block)
    await admin.execute(statements.removeprefix("sql"))
    assert (await migrate(session)).reloaded == ("grants.sql",)
    assert (await migrate(session)).reloaded == ()
    superuser = await asyncpg.connect(own_postgres.dsn("d0"))
    assert await refusal(superuser, "queen_admin", "select queen.push('orders', '1')") is None
    assert await doctor_on_roles(own_postgres) == "ok"
    for each in (session, admin, superuser):
        await each.close()


async def doctor_on_roles(postgres):
    database = Database(postgres.dsn("d0"), Settings(upkeep=False))
    await database.open()
    try:
        [check] = [check for check in (await check_up(database)).checks if check.name == "roles"]
    finally:
        await database.close()
    return check.severity


async def test_rights_are_given_again_after_a_restore_without_privileges(connection):
    await connection.execute("revoke all on all routines in schema queen from queen_producer")
    await connection.execute("revoke usage on schema queen from queen_producer")
    await connection.execute("grant execute on function queen.delete_queue to public, queen_reader")
    assert (await migrate(connection)).reloaded == ("grants.sql",)
    assert await refusal(connection, "queen_producer", "select queen.push('orders', '1')") is None
    assert await refusal(connection, "queen_reader", "select queen.delete_queue('orders')") == "42501"
