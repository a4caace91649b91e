"""The tour: it shows what it does, leaves nothing behind, and ends politely."""

import io
import re
import signal
import subprocess
import sys

import asyncpg
import pytest

from queenmq.cli import main
from queenmq.cli.tour import STOPS
from queenmq.config import wants_colour
from queenmq.engine.postgres.embedded import EmbeddedPostgres
from tests.fixtures.clusters import FAST, run_apart, server_dir

RESULTS = [
    "leases last 300 s; 1 retry, then a message is a dead letter",
    "  duplicate",
    "ann: tea, cake\n      lease released: True",
    "attempts [1, 2]\n      dead letter: {'item': 'milk'}, because: sour",
    "eve: bread",
    "ann: tea, cake; bob: milk; eve: bread",
    "in the table: salad\n      in the queue: dan: salad",
]
LEDGER = """
   -> partition  group           pushed  completed  dead  leased  pending  balanced
      ann        __QUEUE_MODE__       2          2     0       0        0       yes
      ann        audit                2          2     0       0        0       yes
      bob        __QUEUE_MODE__       1          0     1       0        0       yes
      bob        audit                1          1     0       0        0       yes
      dan        __QUEUE_MODE__       1          0     0       1        0       yes
      dan        audit                1          0     0       0        1       yes
      eve        __QUEUE_MODE__       1          1     0       0        0       yes
      eve        audit                1          1     0       0        0       yes
"""
QUEEN = [sys.executable, "-c", "import sys; from queenmq.cli import main; sys.exit(main())", "tour"]


@pytest.fixture
def data_dir():
    """A directory with a cluster in it that was made without fsync, and is stopped."""
    with server_dir() as directory:
        with EmbeddedPostgres(directory / "data", settings=FAST):
            pass
        yield directory / "data"


def test_the_tour_stops_at_every_stop_and_ends_with_a_balanced_ledger(database, capsys):
    assert main(["tour", "--dsn", database]) == 0
    said = capsys.readouterr().out
    assert re.findall(r"^(\d)\. ", said, re.MULTILINE) == [str(number) for number, _ in enumerate(STOPS, 1)]
    places = [said.index(result) for result in RESULTS]
    assert places == sorted(places)
    assert LEDGER in said
    assert "\033" not in said


def test_the_tour_shows_the_code_it_runs(database, capsys):
    main(["tour", "--dsn", database])
    said = capsys.readouterr().out
    assert "     messages = await queen.queue(queue).batch(10).auto_ack().pop()\n\n   -> eve" in said
    assert "return " not in said


def test_the_tour_leaves_no_queue_behind(database):
    ended = subprocess.run([*QUEEN, "--dsn", database], check=True, capture_output=True)
    assert ended.stderr == b""
    assert run_apart(rows(database, "select * from queen.queues")) == []
    assert run_apart(rows(database, "select * from queen.check_consistency()")) == []


async def rows(dsn, query):
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetch(query)
    finally:
        await connection.close()


def test_a_private_postgres_is_started_stopped_and_used_again(data_dir, capsys):
    for _ in range(2):
        assert main(["tour", "--data-dir", str(data_dir)]) == 0
        said = capsys.readouterr().out
        assert f"a private PostgreSQL in {data_dir}" in said
        assert LEDGER in said
        assert not (data_dir / "pgdata" / "postmaster.pid").exists()


def test_who_stays_may_look_with_psql_until_ctrl_c(data_dir):
    command = [*QUEEN, "--data-dir", str(data_dir), "--stay"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as tour:
        psql = next(line for line in tour.stdout if "queen.messages" in line)
        seen = subprocess.run(psql, shell=True, check=True, capture_output=True, text=True).stdout
        tour.send_signal(signal.SIGINT)
        assert "Goodbye" in tour.stdout.read()
    assert tour.returncode == 0
    assert '{"item": "salad"}' in seen
    assert not (data_dir / "pgdata" / "postmaster.pid").exists()


async def interrupted(queen, queue):
    """Press Ctrl-C."""
    await queen.queue(queue).create()
    raise KeyboardInterrupt
    return ""


def test_ctrl_c_on_the_way_ends_the_tour_politely(database, monkeypatch, capsys):
    monkeypatch.setattr("queenmq.cli.tour.STOPS", [interrupted])
    assert main(["tour", "--dsn", database]) == 130
    said = capsys.readouterr()
    assert said.out.endswith("\nGoodbye. The tour has tidied up after itself.\n")
    assert said.err == ""
    assert run_apart(rows(database, "select * from queen.queues")) == []


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["--data-dir", "/dev/null/queen"], 1, "/dev/null/queen cannot be a data directory: Not a directory"),
        (["--dsn", "postgresql://u:geheim@127.0.0.1:1/q"], 3, "postgresql://u:***@127.0.0.1:1/q cannot be reached: "),
        (["--dsn", "nonsense"], 3, "nonsense cannot be reached: "),
    ],
)
def test_what_cannot_work_is_said_in_a_sentence(arguments, status, sentence, capsys):
    assert main(["tour", *arguments]) == status
    said = capsys.readouterr()
    assert said.err.startswith(f"queen tour: {sentence}")
    assert "geheim" not in said.err
    assert said.out == ""


def test_a_role_that_may_not_create_a_schema_is_told_so(blank_database, cluster, capsys):
    if cluster.name == "given":
        pytest.skip("a server of one's own may ask the role for a password")
    cluster.execute("create role visitor login")
    try:
        assert main(["tour", "--dsn", blank_database.replace("//postgres@", "//visitor@")]) == 1
    finally:
        cluster.execute("drop role visitor")
    assert "permission denied" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_colour_is_for_terminals_that_want_it(environment, wanted, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    terminal = io.StringIO()
    assert not wants_colour(terminal)
    terminal.isatty = lambda: True
    assert wants_colour(terminal) is wanted
