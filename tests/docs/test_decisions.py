"""docs/decisions.md is a list: each entry is short, answers the same four questions, and names only what exists."""

import re

import pytest

import queenmq
from queenmq.config import Settings
from tests.docs.page import ROOT

PAGE = (ROOT / "docs" / "decisions.md").read_text()
NOTEBOOK = (ROOT / "docs" / "measurements.md").read_text()
ENTRIES = dict(re.findall(r"^### (.+)\n\n((?:(?!#).*\n?)*)", PAGE, re.MULTILINE))
FIELDS = ["Question", "Decision", "Number", "Would change it"]
LINES_MAX = 15
COLUMNS_MAX = 120
FILE = re.compile(r"`((?:\w+/)+\w+\.(?:py|sql|md|lock|toml)|\w+\.py)`")
PLACES = [ROOT, ROOT / "src" / queenmq.__name__]


@pytest.mark.parametrize("title", ENTRIES)
def test_an_entry_is_short_and_answers_four_questions(title):
    lines = ENTRIES[title].strip().splitlines()
    assert re.findall(r"^- \*\*(.+?):\*\*", ENTRIES[title], re.MULTILINE) == FIELDS
    assert len(lines) <= LINES_MAX
    assert max(map(len, lines)) <= COLUMNS_MAX


def test_every_title_is_an_entry():
    assert list(ENTRIES) == re.findall(r"^### (.+)$", PAGE, re.MULTILINE)
    assert len(ENTRIES) > 80


@pytest.mark.parametrize("text", [PAGE, NOTEBOOK], ids=["decisions", "measurements"])
def test_every_file_that_is_named_exists(text):
    files = FILE.findall(text)
    assert [file for file in files if not any((place / file).exists() for place in PLACES)] == []
    assert files


@pytest.mark.parametrize("text", [PAGE, NOTEBOOK], ids=["decisions", "measurements"])
async def test_every_function_table_and_setting_that_is_named_exists(text, connection):
    rows = await connection.fetch(
        "select proname as name from pg_proc where pronamespace = 'queen'::regnamespace "
        "union all select relname from pg_class where relnamespace = 'queen'::regnamespace"
    )
    named = set(re.findall(r"`queen\.(\w+)", text))
    assert named <= {row["name"] for row in rows}
    assert set(re.findall(r"\bQUEEN_\w+", text)) <= {f"QUEEN_{name.upper()}" for name in Settings.__struct_fields__}
