"""queen migrate: bring the database to the schema of this version."""

import asyncio

from queenmq.cli.options import DataDir, Json, OwnDsn, command_app, given
from queenmq.cli.postgres import connect, postgres
from queenmq.cli.printing import print_json
from queenmq.config import Settings, masked
from queenmq.engine.migrate import Migration, migrate

NAMED_MAX = 10  # functions and views; --json names all
app = command_app()


@app.command("migrate")
def main(dsn: OwnDsn = None, data_dir: DataDir = None, *, json: Json = False) -> None:
    """Bring the database to the schema of this version.

    Servers do so themselves when they start; it may run while they work, and twice.

    ```
    queen migrate --dsn postgresql://me@db.example/shop
    ```
    """
    settings = Settings.load(**given(dsn=dsn, data_dir=data_dir))
    with postgres(settings) as place:
        _report(place.dsn, asyncio.run(_migrate(place.dsn, settings)), json=json)


async def _migrate(dsn: str, settings: Settings) -> Migration:
    connection = await connect(dsn, settings)
    try:
        return await migrate(connection)
    finally:
        await connection.close()


def _report(dsn: str, done: Migration, *, json: bool) -> None:
    if json:
        print_json(
            {"database": masked(dsn), "version": done.version, "applied": done.applied, "reloaded": done.reloaded}
        )
        return
    print(f"{masked(dsn)} is at version {done.version}")
    for version in done.applied:
        print(f"  applied   {version:04}")
    for name in done.reloaded[:NAMED_MAX]:
        print(f"  reloaded  {name}")
    if len(done.reloaded) > NAMED_MAX:
        print(f"  reloaded  {len(done.reloaded) - NAMED_MAX} more functions and views")
