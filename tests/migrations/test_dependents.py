"""What users built on our functions and views stays; if it cannot, nothing is dropped and the answer names it."""

import itertools
import os
import tarfile
from pathlib import Path

import asyncpg
import pytest

from queenmq.engine.postgres.migrate import migrate
from queenmq.errors import ConfigurationError

pytestmark = pytest.mark.every_postgres

LANDED = Path(__file__).parent / "landed.tar.xz"  # src/queenmq/sql of commit 54e9223
BUILT = """
create view public.mine as select queue, group_name, messages from queen.lag;
create view public.mine_too as select queue from public.mine;
create view public.leases as select lease_id, expiries from queen.active_leases;
create table public.letters (id uuid default queen.message_id(now(), 1, 0));
grant usage on schema queen to {role};
grant execute on function queen.push to {role};
grant execute on function queen.pop, queen.ack to {role} with grant option;
grant select on queen.depth to {role};
grant select (queue, messages) on queen.lag to {role};
"""
PUBLISHED = "create publication everything for tables in schema queen"
RIGHTS = """
select p.proname::text, has_function_privilege($1, p.oid, 'execute with grant option') as strongest
  from pg_proc p where p.pronamespace = 'queen'::regnamespace
   and exists (select from aclexplode(p.proacl) as a where a.grantee = $1::regrole) order by 1
"""
_number = itertools.count(1)


@pytest.fixture
async def role(blank_connection):
    """A role without rights; roles belong to the server, so it has a name of its own."""
    name = f"user_{os.getpid()}_{next(_number)}"
    await blank_connection.execute(f"create role {name}")
    yield name
    await blank_connection.execute(f"drop owned by {name} cascade; drop role {name}")


@pytest.fixture
def landed(tmp_path):
    with tarfile.open(LANDED) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "sql"


async def assert_all_is_there(connection, role):
    assert await connection.fetch("select * from public.mine") == []
    assert await connection.fetch("select * from public.mine_too") == []
    assert await connection.fetch("select * from public.leases") == []
    await connection.execute("insert into public.letters default values")
    assert await connection.fetch(RIGHTS, role) == [("ack", True), ("pop", True), ("push", False)]
    for right, expected in (("queen.depth", True), ("queen.lag", False), ("queen.ledger", False)):
        assert await connection.fetchval("select has_table_privilege($1, $2, 'select')", role, right) is expected
    columns = await connection.fetch(
        "select attname::text from pg_attribute where attrelid = 'queen.lag'::regclass and attnum > 0 "
        "and has_column_privilege($1, attrelid, attnum, 'select')",
        role,
    )
    assert {row[0] for row in columns} == {"queue", "messages"}
    published = await connection.fetch("select tablename from pg_publication_tables where pubname = 'everything'")
    assert {"segments", "partition_lookup", "partition_consumers"} <= {row[0] for row in published}


async def test_an_upgrade_of_a_published_schema_keeps_views_on_views_and_grants(blank_connection, landed, role):
    await migrate(blank_connection, landed)
    await blank_connection.execute("select queen.push('orders', '1')")
    await blank_connection.execute("select queen.sequence_inbox()")
    await blank_connection.execute("select queen.pop('orders', p_subscription_mode => 'all')")
    await blank_connection.execute(BUILT.format(role=role))
    await blank_connection.execute(PUBLISHED)
    assert (await migrate(blank_connection)).applied[0] == 8
    assert await blank_connection.fetchval("select queue from public.mine") == "orders"
    assert await blank_connection.fetchval("select expiries from public.leases") == 0
    await blank_connection.execute("select queen.delete_queue('orders')")
    await assert_all_is_there(blank_connection, role)

    oids = "select array_agg(oid order by oid) from pg_proc where pronamespace = 'queen'::regnamespace"
    before = await blank_connection.fetchval(oids)
    await blank_connection.execute("update queen.schema_functions set hash = 'old'")
    done = await migrate(blank_connection)
    assert len(done.reloaded) == await blank_connection.fetchval("select count(*) from queen.schema_functions")
    assert await blank_connection.fetchval(oids) == before
    await assert_all_is_there(blank_connection, role)


NARROWER = "create view queen.all_things as select queen.count_things() as total;\n"


async def test_a_dependent_that_blocks_is_named_and_nothing_is_dropped(blank_connection, tree):
    await migrate(blank_connection, tree.directory())
    await blank_connection.execute("create view public.mine as select id from queen.all_things")
    await blank_connection.execute("create materialized view public.mine_too as select id from public.mine")
    await blank_connection.execute("create view public.other as select queen.count_things()")
    tree.files["views/all_things.sql"] = NARROWER
    with pytest.raises(ConfigurationError) as refused:
        await migrate(blank_connection, tree.directory())
    assert refused.value.message == (
        "this version of Queen has to drop functions or views on which other objects depend: materialized view "
        "public.mine_too (on view queen.all_things), view public.mine (on view queen.all_things). Nothing was changed. "
        "Drop them and create them again after the migration, or run `queen migrate --drop-dependents`, which drops "
        "them."
    )
    assert await blank_connection.fetch("select * from public.mine") == []

    await migrate(blank_connection, tree.directory(), drop_dependents=True)
    views = await blank_connection.fetch("select relname from pg_class where relnamespace = 'public'::regnamespace")
    assert [row[0] for row in views] == ["other"]
    assert await blank_connection.fetchval("select total from queen.all_things") == 0


async def test_a_default_and_a_trigger_of_a_user_are_dependents(blank_connection, tree):
    await migrate(blank_connection, tree.directory())
    await blank_connection.execute(
        "create table public.counts (n bigint default queen.count_things());"
        "create function public.ignore() returns trigger language plpgsql as 'begin return null; end';"
        "create trigger mine instead of insert on queen.all_things for each row execute function public.ignore()"
    )
    tree.files["functions/count_things.sql"] = (
        "create function queen.count_things() returns text language sql as $$ select 'many' $$;\n"
    )
    with pytest.raises(ConfigurationError) as refused:
        await migrate(blank_connection, tree.directory())
    assert (
        "default value for column n of table public.counts (on function queen.count_things), "
        "trigger mine on view queen.all_things (on view queen.all_things)"
    ) in refused.value.message
    await migrate(blank_connection, tree.directory(), drop_dependents=True)
    await blank_connection.execute("insert into public.counts default values")
    assert await blank_connection.fetchval("select n from public.counts") is None


async def test_grants_survive_when_a_function_and_its_view_are_dropped(blank_connection, tree, role):
    await migrate(blank_connection, tree.directory())
    await blank_connection.execute(
        f"grant execute on function queen.count_things to {role} with grant option;"
        f"grant select, update on queen.all_things to {role}; grant select on queen.all_things to public"
    )
    tree.files["functions/count_things.sql"] = (
        "create function queen.count_things(a int default 1) returns text language sql as $$ select 'many' $$;\n"
    )
    await migrate(blank_connection, tree.directory())
    assert await blank_connection.fetch(RIGHTS, role) == [("count_things", True)]
    rights = await blank_connection.fetch(
        "select case a.grantee when 0 then 'public' else a.grantee::regrole::text end, a.privilege_type "
        "from pg_class c, aclexplode(c.relacl) as a where c.oid = 'queen.all_things'::regclass "
        "and a.grantee <> c.relowner order by 1, 2"
    )
    assert rights == [("public", "SELECT"), (role, "SELECT"), (role, "UPDATE")]


DROPPED = "alter table queen.things add column name text; alter table queen.things drop column id;\n"
SEVEN = "create view queen.all_things as select 7 as id, queen.count_things() as total;\n"
BROKEN = "create function queen.count_things() returns nonsense language sql as 'select 1';\n"


async def test_a_step_may_change_a_column_under_a_view_that_a_user_reads(blank_connection, tree):
    await migrate(blank_connection, tree.directory())
    await blank_connection.execute("create view public.mine as select id, total from queen.all_things")
    tree.files["schema/0002_name.sql"] = DROPPED
    tree.files["views/all_things.sql"] = SEVEN
    done = await migrate(blank_connection, tree.directory())
    assert (done.applied, done.reloaded) == ((2,), ("views/all_things.sql",))
    assert await blank_connection.fetch("select * from public.mine") == [(7, 0)]


async def test_where_users_have_built_no_step_is_taken_if_the_code_is_refused(blank_connection, tree):
    await migrate(blank_connection, tree.directory())
    await blank_connection.execute("create view public.mine as select id, total from queen.all_things")
    tree.files["schema/0002_name.sql"] = DROPPED
    tree.files["views/all_things.sql"] = NARROWER
    with pytest.raises(ConfigurationError, match=r"view public\.mine \(on view queen\.all_things\)"):
        await migrate(blank_connection, tree.directory())
    assert await blank_connection.fetchval("select max(version) from queen.schema_version") == 1
    assert await blank_connection.fetch("select id from queen.things union all select id from public.mine") == []
    assert (await migrate(blank_connection, tree.directory(), drop_dependents=True)).applied == (2,)


async def test_a_view_fails_between_the_step_and_its_file_instead_of_showing_nothing(blank_connection, tree):
    await migrate(blank_connection, tree.directory())
    works = tree.files["functions/count_things.sql"]
    tree.files["schema/0002_name.sql"] = DROPPED
    tree.files["views/all_things.sql"] = SEVEN
    tree.files["functions/count_things.sql"] = BROKEN
    with pytest.raises(asyncpg.UndefinedObjectError, match="nonsense"):
        await migrate(blank_connection, tree.directory())
    with pytest.raises(asyncpg.InvalidTextRepresentationError, match=r"a migration replaces queen\.all_things"):
        await blank_connection.fetch("select * from queen.all_things")
    tree.files["functions/count_things.sql"] = works
    assert (await migrate(blank_connection, tree.directory())).reloaded == ("views/all_things.sql",)
    assert await blank_connection.fetch("select * from queen.all_things") == [(7, 0)]


async def test_a_step_that_a_users_view_on_a_table_blocks_names_the_view(blank_connection, tree):
    await migrate(blank_connection, tree.directory())
    await blank_connection.execute("create view public.mine as select id from queen.things")
    tree.files["schema/0002_more.sql"] = "create table queen.more (id int);\n"
    tree.files["schema/0003_name.sql"] = "alter table queen.things drop column id;\n"
    with pytest.raises(
        ConfigurationError, match=r"step 0003 \(name\) .* view public.mine depends on column id of table queen.things"
    ):
        await migrate(blank_connection, tree.directory())
    assert await blank_connection.fetch("select * from queen.all_things") == []
    assert await blank_connection.fetchval("select to_regclass('queen.more')") is None
