"""The step that gives ticks their marks, on a database in use; and a role with few rights."""

import shutil

import asyncpg
import pytest

from queenmq.engine.postgres.migrate import migrate
from queenmq.sql import DIRECTORY

STEP = "schema/0011_marks.sql"
FILE = "select pg_relation_filenode('queen.ticks')"


@pytest.fixture
def before(tmp_path):
    """The steps before this one, without functions and views."""
    directory = tmp_path / "sql"
    shutil.copytree(DIRECTORY, directory)
    contents = directory / "contents.sql"
    lines = contents.read_text().splitlines()
    contents.write_text("\n".join(lines[: next(n for n, line in enumerate(lines) if STEP in line)]) + "\n")
    return directory


async def test_ticks_that_are_there_get_one_mark_together_and_new_ones_their_own(blank_connection, before):
    await migrate(blank_connection, before)
    await blank_connection.execute(
        "insert into queen.ticks (epoch, snapshot, taken_at) select 1, '1:1:', now() from generate_series(1, 3);"
        "insert into queen.queues (name) values ('orders');"
        "insert into queen.archives (queue_id, location, tick) select id, 'somewhere', 2 from queen.queues"
    )
    file = await blank_connection.fetchval(FILE)
    await migrate(blank_connection)
    assert await blank_connection.fetchval(FILE) == file, "the table was not written again"
    await blank_connection.execute("delete from queen.incarnations")
    await blank_connection.execute(
        "select queen.push_segments(array[e.partition_id], array[1], array['[1]'::bytea]) "
        "from queen.ensure_partitions(array['orders'], array['ann']) as e"
    )
    newest = await blank_connection.fetchval("select queen.take_tick()")
    marks = [row["mark"] for row in await blank_connection.fetch("select mark from queen.ticks order by id")]
    assert (newest, len(marks), len(set(marks)), len(set(marks[:3]))) == (4, 4, 2, 1)
    assert await blank_connection.fetchval("select mark from queen.archives") == marks[0]
    for tick in (1, 2, 3, 4):
        known = "select id from queen.common_tick($1, $2, queen.tick_trail($1))"
        assert await blank_connection.fetchval(known, tick, marks[tick - 1]) == tick


async def test_a_role_that_may_not_read_the_identifier_of_the_cluster_can_migrate(blank_connection, blank_database):
    await blank_connection.execute(
        "revoke execute on function pg_control_system() from public; create role modest login;"
        "grant create on database " + (await blank_connection.fetchval("select current_database()")) + " to modest"
    )
    modest = await asyncpg.connect(blank_database, user="modest")
    try:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await modest.fetch("select * from pg_control_system()")
        await migrate(modest)
        assert await modest.fetchval("select queen.check_epoch()") == 1
        assert await modest.fetchval("select queen.take_tick()") == 1
    finally:
        await modest.close()
        await blank_connection.execute("drop owned by modest; drop role modest")
