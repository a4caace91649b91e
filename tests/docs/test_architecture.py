"""ARCHITECTURE.md agrees with the code: its tables, functions and modules are those that exist."""

import re

import queenmq
from queenmq.sql import Contents
from tests.docs.page import ROOT, blocks

PAGE = (ROOT / "ARCHITECTURE.md").read_text()
CODE = {file.name.split("/")[-1].removesuffix(".sql"): file for file in Contents.read().code}
FUNCTIONS = {name: file.text for name, file in CODE.items() if file.is_function}
SOURCE = ROOT / "src" / queenmq.__name__

WRITES_READY_AT = re.compile(r"\bset\b[^;]*\bready_at = |insert into queen\.partition_consumers")


def rows(head: str) -> str:
    """The rows of the table that begins with this head."""
    return PAGE[PAGE.index(head) :].split("\n\n", maxsplit=1)[0]


async def test_every_table_is_in_the_table_of_tables(connection):
    tables = await connection.fetch("select tablename from pg_tables where schemaname = 'queen'")
    named = {cell for row in rows("| table (schema").splitlines() for cell in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert named == {row["tablename"] for row in tables} | {"queen"}


def test_every_function_that_changes_ready_at_is_in_the_table_of_transitions():
    writers = {name for name, text in FUNCTIONS.items() if WRITES_READY_AT.search(text)}
    named = set(re.findall(r"`(\w+)`", rows("| from | to | when |")))
    assert writers <= named <= FUNCTIONS.keys()


def test_every_module_is_on_the_staircase():
    [stairs] = [block.text for block in blocks(PAGE, "ARCHITECTURE.md") if "0  errors" in block.text]
    modules = {path.stem for path in [*SOURCE.iterdir(), *(SOURCE / "engine").iterdir()]}
    assert {name for name in modules if "_" not in name and name != "py"} <= set(re.findall(r"\w+", stairs))
