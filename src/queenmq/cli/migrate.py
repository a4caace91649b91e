"""queen migrate: bring the database to the schema of this version."""

import asyncio
from typing import Annotated

import typer

from queenmq.cli.options import DataDir, Json, OwnDsn, command_app, given
from queenmq.cli.postgres import connect, postgres
from queenmq.cli.printing import print_json
from queenmq.config import Settings, masked
from queenmq.engine.postgres.migrate import Migration, migrate

NAMED_MAX = 10  # functions and views; --json names all
DropDependents = Annotated[
    bool,
    typer.Option("--drop-dependents", help="Drop objects that depend on a function or view which cannot stay."),
]
app = command_app()


@app.command("migrate")
def main(
    dsn: OwnDsn = None, data_dir: DataDir = None, *, drop_dependents: DropDependents = False, json: Json = False
) -> None:
    """Bring the database to the schema of this version.

    Servers do so themselves when they start; it may run while they work, and twice. If objects of yours depend on a
    function or view that cannot stay as it is, nothing is dropped and the answer names them.

    ```
    queen migrate --dsn postgresql://me@db.example/shop
    ```
    """
    settings = Settings.load(**given(dsn=dsn, data_dir=data_dir))
    with postgres(settings) as place:
        _report(place.dsn, asyncio.run(_migrate(place.dsn, settings, drop_dependents=drop_dependents)), json=json)


async def _migrate(dsn: str, settings: Settings, *, drop_dependents: bool) -> Migration:
    connection = await connect(dsn, settings)
    try:
        return await migrate(connection, drop_dependents=drop_dependents)
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
