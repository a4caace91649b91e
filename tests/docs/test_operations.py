"""docs/operations.md knows every service of upkeep and every view."""

import re

from queenmq.engine.upkeep import Service
from tests.docs.page import ROOT

PAGE = (ROOT / "docs" / "operations.md").read_text()


def test_every_service_is_in_the_table():
    listed = re.findall(r"^\| ([a-z ]+) \|", PAGE[: PAGE.index("## Monitoring")], re.MULTILINE)
    ours = {service.name for service in Service.__subclasses__() if service.__module__.startswith("queenmq.")}
    assert set(listed) - {"service"} == ours


async def test_every_view_is_mentioned(connection):
    views = await connection.fetch("select viewname from pg_views where schemaname = 'queen'")
    missing = [row["viewname"] for row in views if f"`{row['viewname']}`" not in PAGE]
    assert missing == ["messages"], "for people who look at messages, in docs/sql.md"
