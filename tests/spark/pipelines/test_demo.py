"""The demonstration, small: orders travel, pipelines run, a page is there."""

import json
from datetime import datetime

import asyncpg
import pytest

from examples.pipelines.demo import main
from tests.fixtures.clusters import run_apart


async def ask(dsn, query):
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetch(query)
    finally:
        await connection.close()


def test_a_small_shop_ends_with_tables_and_a_page(spark, database, tmp_path, capsys):
    out = tmp_path / "demo"
    assert main(["--orders", "100", "--seconds", "5", "--out", str(out), "--dsn", database]) == 0
    said = capsys.readouterr().out
    assert "intake → payment → stock → shipping → mail" in said
    assert "fix first" in said
    assert "report.html" in said
    page = (out / "report.html").read_text()
    assert page.count("<svg") == 5
    runs = run_apart(ask(database, "select name, state from queen.pipeline_runs order by id"))
    assert [tuple(run) for run in runs] == [
        (name, "done") for name in ("archive", "traces", "aggregate", "dlq-triage", "stats")
    ]
    revenue = run_apart(ask(database, "select payload from queen.messages where queue = 'revenue'"))
    ordered = run_apart(ask(database, "select payload from queen.messages where queue = 'intake'"))
    late = run_apart(ask(database, "select payload from queen.messages where queue = 'late-orders'"))
    assert len(ordered) == 100
    orders = [json.loads(row["payload"]) for row in ordered if row not in late]
    windows = [json.loads(row["payload"]) for row in revenue]
    assert len({window["window_start"] for window in windows}) == len(windows) > 0
    for window in windows:
        start, end = (datetime.fromisoformat(window[name]) for name in ("window_start", "window_end"))
        inside = [each["total"] for each in orders if start <= datetime.fromisoformat(each["at"]) < end]
        assert (window["orders"], window["revenue"]) == (len(inside), pytest.approx(sum(inside)))
    [unbalanced] = run_apart(ask(database, "select count(*) from queen.ledger where not balanced"))
    assert unbalanced[0] == 0
