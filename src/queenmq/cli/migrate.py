"""queen migrate: bring the database to the schema of this version."""

import argparse
import asyncio

import asyncpg

from queenmq.config import Settings, masked
from queenmq.engine.embedded import EmbeddedPostgres
from queenmq.engine.migrate import migrate
from queenmq.errors import DatabaseUnavailable

DATABASE = "queen"


def main(arguments: argparse.Namespace) -> int:
    """Migrate the database of the DSN, or the private one."""
    given = {"dsn": arguments.dsn, "data_dir": arguments.data_dir}
    settings = Settings.load(**{name: value for name, value in given.items() if value is not None})
    if settings.dsn is not None:
        asyncio.run(_migrate(settings.dsn))
        return 0
    with EmbeddedPostgres(settings.data_dir) as postgres:
        asyncio.run(_migrate(asyncio.run(postgres.create_database(DATABASE))))
    return 0


async def _migrate(dsn: str) -> None:
    try:
        connection = await asyncpg.connect(dsn)
    except (OSError, asyncpg.PostgresError) as error:
        raise DatabaseUnavailable(f"{masked(dsn)} cannot be reached: {error}") from error
    try:
        done = await migrate(connection)
    finally:
        await connection.close()
    print(f"{masked(dsn)} is at version {done.version}")
    for version in done.applied:
        print(f"  applied   {version:04}")
    for name in done.reloaded:
        print(f"  reloaded  {name}")
