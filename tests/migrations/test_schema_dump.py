"""The committed dump is the schema: a review of a migration sees what it does to the tables.

Functions are named, without their bodies: those are reviewed in their own files. Refresh: `make schema-dump`.
"""

import re
import subprocess
from pathlib import Path

import asyncpg

from queenmq.engine.postgres.embedded.binaries import wheel_bin_dir
from queenmq.engine.postgres.migrate import migrate
from queenmq.sql import DIRECTORY

DUMP = Path(__file__).parent / "schema.sql"
ENTRY = re.compile(r"^--\n-- Name: (?P<name>.*?); Type: (?P<type>[A-Z ]+); Schema: .*\n--\n", re.MULTILINE)


def dump(dsn: str) -> str:
    """What pg_dump says about the database, without what changes from run to run."""
    program = wheel_bin_dir() / "pg_dump"
    options = ["--schema-only", "--schema=queen", "--no-owner", "--no-privileges"]
    text = subprocess.run([program, *options, dsn], check=True, capture_output=True, text=True).stdout
    _, *parts = ENTRY.split(text)
    entries = zip(parts[0::3], parts[1::3], parts[2::3], strict=True)
    return "\n\n".join(filter(None, (normal(*entry) for entry in entries))) + "\n"


def normal(name: str, kind: str, text: str) -> str:
    if kind == "FUNCTION":
        return f"-- function queen.{name}"
    if kind == "COMMENT" and name.startswith("FUNCTION"):
        return ""
    lines = (line for line in text.splitlines() if line and not line.startswith(("--", "SET ", "\\")))
    return "\n".join(lines)


async def test_the_committed_dump_is_the_schema(blank_database, request):
    connection = await asyncpg.connect(blank_database)
    await migrate(connection)
    await connection.close()
    fresh = dump(blank_database)
    if request.config.getoption("--refresh-schema-dump"):
        DUMP.write_text(fresh)
    assert fresh == DUMP.read_text(), "run `make schema-dump` and look at its diff"


async def test_step_by_step_leads_to_the_same_schema(blank_database, tmp_path):
    lines = (DIRECTORY / "contents.sql").read_text().splitlines()
    (tmp_path / "schema").symlink_to(DIRECTORY / "schema")
    steps = [line for line in lines if line.startswith("\\ir schema/")]
    connection = await asyncpg.connect(blank_database)
    for count in range(1, len(steps) + 1):
        (tmp_path / "contents.sql").write_text("\n".join(steps[:count]))
        assert (await migrate(connection, tmp_path)).applied == (count,)
    await migrate(connection)
    await connection.close()
    assert dump(blank_database) == DUMP.read_text()
