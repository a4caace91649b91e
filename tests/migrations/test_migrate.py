"""The loader: steps run once, code is replaced when it changes, and everyone else keeps working."""

import asyncio

import asyncpg
import pytest

from queenmq.engine.postgres.migrate import migrate
from queenmq.errors import ConfigurationError, SchemaTooNew

pytestmark = pytest.mark.every_postgres

FUNCTIONS = """
select p.oid::regprocedure::text from pg_proc p
 where p.pronamespace = 'queen'::regnamespace order by 1
"""


async def functions(connection):
    return [row[0] for row in await connection.fetch(FUNCTIONS)]


async def test_a_fresh_database_gets_every_step_and_all_code(blank_connection, tree):
    done = await migrate(blank_connection, tree.directory())
    assert done.version == 1
    assert done.applied == (1,)
    assert done.reloaded == ("functions/count_things.sql", "views/all_things.sql")
    await blank_connection.execute("insert into queen.things values (7)")
    assert await blank_connection.fetchrow("select * from queen.all_things") == (7, 1)


async def test_a_second_load_changes_nothing(blank_connection, tree):
    await migrate(blank_connection, tree.directory())
    before = await blank_connection.fetch("select * from queen.schema_functions order by name")
    done = await migrate(blank_connection, tree.directory())
    assert (done.version, done.applied, done.reloaded) == (1, (), ())
    assert await blank_connection.fetch("select * from queen.schema_functions order by name") == before


async def test_an_up_to_date_database_is_recognised_without_waiting_for_a_running_migration(connect_blank, tree):
    alice, bob = await connect_blank(), await connect_blank()
    await migrate(alice, tree.directory())
    await alice.execute("select pg_advisory_lock(x'517ee4'::int)")
    async with asyncio.timeout(10):
        assert (await migrate(bob, tree.directory())).reloaded == ()


async def test_servers_that_start_together_take_turns(connect_blank, tree):
    sessions = [await connect_blank() for _ in range(8)]
    done = await asyncio.gather(*(migrate(session, tree.directory()) for session in sessions))
    assert sorted(each.applied for each in done) == [()] * 7 + [(1,)]
    assert sum(len(each.reloaded) for each in done) == 2


async def test_a_changed_function_is_reloaded_and_the_others_are_not(blank_connection, tree):
    tree.files["functions/one.sql"] = "create function queen.one() returns int language sql as 'select 1';\n"
    await migrate(blank_connection, tree.directory())
    oid = await blank_connection.fetchval("select 'queen.count_things()'::regprocedure::oid")
    tree.files["functions/one.sql"] = "create function queen.one() returns int language sql as 'select 11';\n"
    done = await migrate(blank_connection, tree.directory())
    assert done.reloaded == ("functions/one.sql",)
    assert await blank_connection.fetchval("select queen.one()") == 11
    assert await blank_connection.fetchval("select 'queen.count_things()'::regprocedure::oid") == oid


async def test_a_function_used_by_a_view_may_change_its_return_type(blank_connection, tree):
    await migrate(blank_connection, tree.directory())
    tree.files["functions/count_things.sql"] = (
        "create function queen.count_things() returns text language sql as $$ select 'many' $$;\n"
    )
    await migrate(blank_connection, tree.directory())
    await blank_connection.execute("insert into queen.things values (7)")
    assert await blank_connection.fetchval("select total from queen.all_things") == "many"


async def test_a_new_list_of_arguments_leaves_no_overload_behind(blank_connection, tree):
    tree.files["functions/twice.sql"] = (
        "create function queen.twice(a int) returns int language sql as 'select 2 * a';\n"
    )
    await migrate(blank_connection, tree.directory())
    tree.files["functions/twice.sql"] = (
        "create function queen.twice(a bigint, b int) returns bigint language sql as 'select 2 * a';\n"
    )
    await migrate(blank_connection, tree.directory())
    assert await functions(blank_connection) == ["queen.count_things()", "queen.twice(bigint,integer)"]


async def test_a_function_whose_file_is_gone_is_dropped(blank_connection, tree):
    tree.files["functions/old.sql"] = "create function queen.old() returns int language sql as 'select 1';\n"
    await migrate(blank_connection, tree.directory())
    del tree.files["functions/old.sql"]
    done = await migrate(blank_connection, tree.directory())
    assert done.applied == ()
    assert await functions(blank_connection) == ["queen.count_things()"]
    assert (await migrate(blank_connection, tree.directory())).reloaded == ()


async def test_a_trigger_is_replaced_and_dropped_with_its_function(blank_connection, tree):
    await blank_connection.execute("create temp table seen (what text)")
    for number, what in enumerate(("first", "second")):
        tree.files["functions/note.sql"] = (
            "create function queen.note() returns trigger language plpgsql as "
            f"$$ begin insert into pg_temp.seen values ('{what}'); return null; end $$;\n"
            "create trigger note after insert on queen.things for each statement execute function queen.note();\n"
        )
        assert "functions/note.sql" in (await migrate(blank_connection, tree.directory())).reloaded
        assert (await migrate(blank_connection, tree.directory())).reloaded == ()
        await blank_connection.execute(f"insert into queen.things values ({number})")
    assert [row[0] for row in await blank_connection.fetch("select what from seen")] == ["first", "second"]
    del tree.files["functions/note.sql"]
    await migrate(blank_connection, tree.directory())
    assert await functions(blank_connection) == ["queen.count_things()"]
    assert await blank_connection.fetchval("select count(*) from pg_trigger where not tgisinternal") == 0


async def test_a_view_that_a_step_had_to_drop_comes_back(blank_connection, tree):
    await migrate(blank_connection, tree.directory())
    tree.files["schema/0002_bigger.sql"] = (
        "drop view queen.all_things;\nalter table queen.things alter column id type bigint;\n"
    )
    done = await migrate(blank_connection, tree.directory())
    assert done.applied == (2,)
    assert done.reloaded == ("views/all_things.sql",)


async def test_a_step_that_fails_leaves_no_trace_and_names_its_file(blank_connection, tree):
    tree.files["schema/0002_wrong.sql"] = "create table queen.more (id int);\nselect 1 / 0;\n"
    with pytest.raises(asyncpg.DivisionByZeroError) as raised:
        await migrate(blank_connection, tree.directory())
    assert raised.value.__notes__ == ["in schema/0002_wrong.sql"]
    assert await blank_connection.fetchval("select max(version) from queen.schema_version") == 1
    assert await blank_connection.fetchval("select to_regclass('queen.more')") is None
    tree.files["schema/0002_wrong.sql"] = "create table queen.more (id int);\n"
    assert (await migrate(blank_connection, tree.directory())).applied == (2,)


async def test_code_that_fails_to_load_leaves_the_old_code_in_place(blank_connection, tree):
    await migrate(blank_connection, tree.directory())
    tree.files["functions/count_things.sql"] = "create function queen.count_things() returns nonsense;\n"
    with pytest.raises(asyncpg.PostgresError):
        await migrate(blank_connection, tree.directory())
    assert await blank_connection.fetchval("select queen.count_things()") == 0
    assert await blank_connection.fetch("select * from queen.all_things") == []


async def test_a_newer_breaking_schema_is_refused(blank_connection, tree):
    await migrate(blank_connection, tree.directory())
    await blank_connection.execute("insert into queen.schema_version values (2, 'the_future', true)")
    with pytest.raises(SchemaTooNew, match="the_future"):
        await migrate(blank_connection, tree.directory())


async def test_a_newer_schema_that_breaks_nothing_is_left_alone(blank_connection, tree):
    await migrate(blank_connection, tree.directory())
    await blank_connection.execute("insert into queen.schema_version values (2, 'the_future', false)")
    tree.files["functions/count_things.sql"] += "-- an older version's file\n"
    done = await migrate(blank_connection, tree.directory())
    assert (done.version, done.applied, done.reloaded) == (2, (), ())


async def test_the_first_line_of_a_step_says_that_it_breaks_older_code(blank_connection, tree):
    tree.files["schema/0002_break.sql"] = "-- breaking\nselect 1;\n"
    await migrate(blank_connection, tree.directory())
    rows = await blank_connection.fetch("select version, breaking from queen.schema_version order by 1")
    assert rows == [(1, False), (2, True)]


async def test_a_lock_held_by_someone_is_waited_for_in_short_tries(connect_blank, tree, monkeypatch):
    alice, bob = await connect_blank(), await connect_blank()
    monkeypatch.setattr("queenmq.engine.postgres.migrate.LOCK_TIMEOUT_MS", 20)
    await migrate(alice, tree.directory())
    tree.files["schema/0002_column.sql"] = "alter table queen.things add column name text;\n"
    await bob.execute("begin")
    await bob.execute("select * from queen.things")
    refused = asyncio.Event()
    alice.add_query_logger(lambda record: record.exception and refused.set())
    migrating = asyncio.create_task(migrate(alice, tree.directory()))
    async with asyncio.timeout(10):
        await refused.wait()
        await bob.execute("commit")
        assert (await migrating).applied == (2,)


async def test_steps_out_of_order_are_refused(blank_connection, tree):
    tree.files["schema/0003_skipped.sql"] = "select 1;\n"
    with pytest.raises(ConfigurationError, match="0001, 0002"):
        await migrate(blank_connection, tree.directory())


async def test_an_old_postgres_is_refused(tree):
    class Old:
        def get_server_version(self):
            return asyncpg.types.ServerVersion(13, 4, 0, "final", 0)

    with pytest.raises(ConfigurationError, match="14 or newer; this is version 13"):
        await migrate(Old(), tree.directory())
