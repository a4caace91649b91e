"""Every setting is in docs/settings.md, with its default and its meaning, and nothing else is."""

import re
from pathlib import Path

import msgspec
from msgspec.inspect import Metadata, type_info

from queenmq.config import Settings

DOCUMENT = (Path(__file__).parents[2] / "docs" / "settings.md").read_text()


def rows() -> dict[str, str]:
    """The line of the table that each setting must have."""
    found = {}
    for field in type_info(Settings).fields:
        assert isinstance(field.type, Metadata), f"{field.name} has no description"
        description = field.type.extra_json_schema["description"]
        variable = f"QUEEN_{field.name.upper()}"
        found[variable] = f"| `{variable}` | {shown(field.default)} | {description} |"
    return found


def shown(default: object) -> str:
    if default is msgspec.NODEFAULT:
        return "see below"
    return "none" if default is None else "`{}`".format(msgspec.json.encode(default).decode().strip('"'))


def test_every_setting_is_documented_with_its_default():
    missing = [row for row in rows().values() if row not in DOCUMENT]
    assert missing == [], "paste these lines into docs/settings.md:\n" + "\n".join(missing)


def test_nothing_else_is_documented():
    assert set(re.findall(r"^\| `(QUEEN_\w+)`", DOCUMENT, re.MULTILINE)) == set(rows())
