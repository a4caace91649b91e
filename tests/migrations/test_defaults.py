"""Steps that change the defaults of new queues leave those alone that exist."""

import shutil

from queenmq.engine.postgres.migrate import migrate
from queenmq.sql import DIRECTORY

SETTINGS = (
    "select retry_backoff, completed_retention_seconds, dead_letter_retention_seconds from queen.queues where name = $1"
)


async def test_an_upgrade_changes_no_queue(blank_connection, tmp_path):
    directory = tmp_path / "sql"
    shutil.copytree(DIRECTORY, directory)
    contents = directory / "contents.sql"
    steps = [line for line in contents.read_text().splitlines() if "schema/" in line and line < "\\ir schema/0018"]
    contents.write_text("\n".join(steps) + "\n")
    await migrate(blank_connection, directory)
    await blank_connection.execute("insert into queen.queues (name) values ('old')")
    await migrate(blank_connection)
    await blank_connection.execute("insert into queen.queues (name) values ('new')")
    assert tuple(await blank_connection.fetchrow(SETTINGS, "old")) == (2, 0, 0)
    assert tuple(await blank_connection.fetchrow(SETTINGS, "new")) == (1, 604_800, 2_592_000)
