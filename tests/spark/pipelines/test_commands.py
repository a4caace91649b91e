"""queen pipeline, from the terminal's side."""

import json
from pathlib import Path

import pytest

from queenmq.cli import main


@pytest.fixture
def queen(database, capsys):
    """Run a command on the test's database; answers what it printed."""

    def run(*arguments, status=0):
        ended = main(["pipeline", *arguments, "--dsn", database])
        said = capsys.readouterr()
        assert ended == status, said
        return said.out if status == 0 else said.err

    return run


@pytest.fixture
async def orders(push):
    await push("orders", "ann", {"n": 1}, {"n": 2})


def test_what_is_wrong_is_said_in_a_sentence_with_a_hint(queen):
    assert queen("runs") == "No pipeline has run yet.\n"
    assert 'there is no queue "orders"' in queen("archive", "orders", "--to", "somewhere", status=1)
    assert "--stop" in queen("archive", "orders", status=2)
    assert "no time zone" in queen("stats", "--since", "2030-01-01T00:00:00", status=2)
    [run] = json.loads(queen("runs", "--json"))
    assert (run["name"], run["state"], run["error"]) == ("archive", "failed", 'there is no queue "orders"')
    assert queen("runs").splitlines()[1].split()[1] == "archive"


def test_a_database_out_of_reach_is_exit_status_3(capsys):
    assert main(["pipeline", "stats", "--dsn", "postgresql://nobody@127.0.0.1:1/nothing"]) == 3


def test_every_pipeline_prints_tables_or_json(spark, orders, queen, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "SYNTAX" in queen("archive", "orders", "--to", "typed", "--schema", "n no such type", status=1)
    archived = json.loads(queen("archive", "orders", "--to", "archive", "--json"))
    assert archived["tables"]["archived"][0]["messages"] == 2
    assert "day" in queen("history", "orders", "--archive", "archive")
    assert json.loads(queen("replay", "orders", "--to", "again", "--where", "offset = 1", "--json"))["pushed"] == 1
    Path("pipelines.toml").write_text(
        "[[job]]\nname = 'stats'\n[[job]]\nname = 'schema'\narguments = {queue = 'orders'}"
    )
    said = queen("run", "pipelines.toml", "--html", "report.html")
    assert "throughput and sizes" in said
    assert "class Orders(Struct, kw_only=True):" in said
    assert Path("report.html").read_text().count("<svg") == 3
    assert queen("archive", "orders", "--stop").split() == ["stopped", "orders", "dry_run", "no"]
    names = [run["name"] for run in json.loads(queen("runs", "--json"))]
    assert names == ["stop-archive", "schema", "stats", "replay", "history", "archive", "archive"]
