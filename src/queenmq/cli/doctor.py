"""queen doctor: can I connect, and what hurts."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import typer
from msgspec.structs import replace
from rich.text import Text

from queenmq import __version__
from queenmq.api.diagnosis import Check, CheckUp, Checkup
from queenmq.cli import Exit
from queenmq.cli.connection import address
from queenmq.cli.options import Dsn, Json, Url, command_app
from queenmq.cli.printing import print_json, print_table
from queenmq.client.queen import AsyncQueen
from queenmq.client.transports import DEFAULT_URL
from queenmq.config import Settings, masked
from queenmq.engine.checkup import check_up, clock
from queenmq.engine.postgres.database import Database

STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}

app = command_app()


@app.command("doctor")
def main(url: Url = None, dsn: Dsn = None, *, json: Json = False) -> None:
    """Look for what hurts: versions, settings, clocks, disks.

    Exit status 1 on a problem; warnings are for you to judge. It changes nothing, and does not migrate.

    ```
    queen doctor
    queen doctor --dsn postgresql://me@db.example/shop
    ```
    """
    settings = Settings.load(upkeep=False)
    place = address(url, dsn) or settings.url or settings.dsn or DEFAULT_URL
    checkup = asyncio.run(_examine(place, settings))
    if json:
        print_json(checkup)
    else:
        print_table(("", "check", "found", "what to do"), [_line(each) for each in checkup.checks], "")
    raise typer.Exit(Exit.FAILED if any(each.severity == "problem" for each in checkup.checks) else Exit.OK)


async def _examine(place: str, settings: Settings) -> Checkup:
    reached = Check(name="connection", severity="ok", detail=masked(place))
    own: Sequence[Check] = ()
    if place.lstrip().startswith(("postgresql://", "postgres://")):
        checkup = await _examine_postgres(place, settings)
    else:
        checkup, own = await _examine_server(place, settings)
    return replace(checkup, checks=[reached, *own, *checkup.checks])


async def _examine_server(url: str, settings: Settings) -> tuple[Checkup, Sequence[Check]]:
    """A server's view of its database, and ours of the server."""
    async with AsyncQueen(url, settings=settings) as queen:
        asked_at = datetime.now(UTC)
        checkup = await queen.call(CheckUp())
        answered_at = datetime.now(UTC)
    same = checkup.version == __version__
    version = Check(
        name="version",
        severity="ok" if same else "warning",
        detail=f"the server is {checkup.version}, this command {__version__}",
        hint=None if same else "Use the same version on both sides.",
    )
    return checkup, [version, clock("clock of the server", "the server", checkup.now, asked_at, answered_at)]


async def _examine_postgres(dsn: str, settings: Settings) -> Checkup:
    """Without an engine: that would bring the schema up to date, and a doctor only looks."""
    database = Database(dsn, settings)
    await database.open()
    try:
        return await check_up(database)
    finally:
        await database.close()


def _line(check: Check) -> tuple[object, ...]:
    return Text(check.severity, style=STYLES[check.severity]), check.name, check.detail, check.hint or ""
