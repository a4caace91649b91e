"""docs/queues.md names every setting of a queue, with the default and the range that it really has."""

import re

import pytest

from queenmq.model import QueueSettings
from tests.docs.page import ROOT

ROW = re.compile(r"^\| `(?P<name>\w+)` \| `(?P<default>\w+)` \| (?P<range>[^|]+) \|", re.MULTILINE)
ROWS = {row["name"]: row for row in ROW.finditer((ROOT / "docs" / "queues.md").read_text())}
CONFIGURE = "select * from queen.configure_queue('orders', p_options => jsonb_build_object($1::text, $2::{}))"


def test_every_setting_is_documented():
    facts = {"id", "name", "namespace", "task", "created_at", "paused"}
    assert ROWS.keys() == set(QueueSettings.__struct_fields__) - facts


async def test_the_defaults_are_the_documented_ones(connection):
    queue = await connection.fetchrow("select * from queen.configure_queue('orders')")
    assert {name: row["default"] for name, row in ROWS.items()} == {name: str(queue[name]).lower() for name in ROWS}


@pytest.mark.parametrize("name", ROWS)
async def test_the_range_is_the_documented_one(name, connection):
    if ROWS[name]["range"] == "true, false":
        for value in (True, False):
            assert (await connection.fetchrow(CONFIGURE.format("boolean"), name, value))[name] is value
        return
    least, most = map(int, ROWS[name]["range"].split(" to "))
    for value in (least, most):
        assert (await connection.fetchrow(CONFIGURE.format("bigint"), name, value))[name] == value
    for value in (least - 1, most + 1):
        with pytest.raises(Exception, match=f"between {least} and {most}"):
            await connection.fetchrow(CONFIGURE.format("bigint"), name, value)
