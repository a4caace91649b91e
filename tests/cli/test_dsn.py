"""The private PostgreSQL of a server on this machine is found without being named."""

import os

import asyncpg
import pytest

from queenmq import AsyncQueen, Queen
from queenmq.cli import Exit, main
from queenmq.config import Settings
from queenmq.engine.postgres.embedded.local import NotRunning, local_dsn
from queenmq.spark.options import BATCH, Options
from tests.fixtures.clusters import server_dir
from tests.fixtures.servers import Served

STRANGER = 12345  # the id of an account that owns nothing


@pytest.fixture(scope="module")
def private():
    """A server on a PostgreSQL of its own, and its data directory."""
    with server_dir() as directory:
        served = Served(directory / "server", None, {"workers": 1})
        yield served, directory / "server" / "data"
        served.end()


@pytest.fixture(autouse=True)
def here(private, monkeypatch):
    """The settings of the server count for this process too, except for the port."""
    monkeypatch.setenv("QUEEN_DATA_DIR", str(private[1]))


@pytest.fixture
def dsn(capsys):
    assert main(["dsn"]) == Exit.OK
    return capsys.readouterr().out.removesuffix("\n")


async def test_the_address_that_is_printed_leads_to_the_private_postgresql(dsn):
    connection = await asyncpg.connect(dsn)
    try:
        assert await connection.fetchval("select count(*) from queen.queues") >= 0
    finally:
        await connection.close()


def test_the_address_of_a_given_postgresql_is_printed_as_it_is(monkeypatch, capsys):
    monkeypatch.setenv("QUEEN_DSN", "postgresql://me:secret@db.example/shop")
    assert main(["dsn"]) == Exit.OK
    assert capsys.readouterr().out == "postgresql://me:secret@db.example/shop\n"


def test_a_private_postgresql_that_does_not_run_has_no_address(tmp_path, capsys):
    assert main(["dsn", "--data-dir", str(tmp_path)]) == Exit.OUT_OF_REACH
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(
        f"queen dsn: no private PostgreSQL runs in {tmp_path}\nStart a server with `queen serve`"
    )


async def test_a_client_goes_straight_to_the_private_postgresql(private):
    async with AsyncQueen.local() as queen:
        await queen.queue("direct").push(1)
    with Queen.local() as queen:
        queen.queue("direct").push(2)
    with Queen(private[0].url) as queen:
        assert [each.payload for each in queen.queue("direct").batch(2).pop()] == [1, 2]


def test_a_client_without_a_local_server_says_so_at_once(tmp_path):
    with pytest.raises(NotRunning, match="no private PostgreSQL runs in"):
        Queen.local(settings=Settings.load({}, data_dir=tmp_path))


def test_spark_reads_the_private_postgresql(dsn):
    assert Options.of({"queue": "orders"}, BATCH, "a batch").dsn(reading=True) == dsn


def test_a_pipeline_finds_the_private_postgresql(capsys):
    assert main(["pipeline", "runs"]) == Exit.OK
    assert capsys.readouterr().out == "No pipeline has run yet.\n"


def test_the_settings_show_the_address(dsn, capsys):
    assert main(["settings"]) == Exit.OK
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("QUEEN_DSN")]
    assert line.split(maxsplit=2) == ["QUEEN_DSN", dsn, "the private PostgreSQL, which runs"]


def test_the_doctor_shows_the_address(private, dsn, capsys):
    main(["doctor", "--url", private[0].url])
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.split()[1] == "database"]
    assert line.split()[2] == dsn


def test_the_greeting_of_the_server_shows_the_address_quoted_for_a_shell(private, dsn):
    lines = iter(private[0].process.stdout.readline, "Ctrl-C stops it.\n")
    greeting = list(lines)
    assert f"  database   '{dsn}'\n" in greeting
    assert "  retention  new queues keep finished messages 7 days, dead letters 30 days\n" in greeting


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another account for a moment")
def test_a_data_directory_of_another_account_is_named(private):
    os.seteuid(STRANGER)
    try:
        with pytest.raises(NotRunning, match=r"postmaster\.pid is closed to this account"):
            local_dsn(Settings.load({}, data_dir=private[1]))
    finally:
        os.seteuid(0)
