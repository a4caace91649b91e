"""The private PostgreSQL: it starts, is found again, survives a crash, and never runs as root."""

import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from queenmq.engine.postgres.embedded import EmbeddedPostgres
from queenmq.engine.postgres.embedded.account import Account
from queenmq.engine.postgres.embedded.binaries import wheel_bin_dir
from queenmq.engine.postgres.embedded.postmaster import Postmaster
from queenmq.errors import ConfigurationError, DatabaseUnavailable
from tests.fixtures.clusters import FAST, server_dir

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to lend the server an account")


@pytest.fixture
def directory():
    with server_dir() as path:
        yield path


async def ask(postgres, question, database="postgres"):
    connection = await asyncpg.connect(postgres.dsn(database))
    try:
        return await connection.fetchval(question)
    finally:
        await connection.close()


def kill_postmaster(postgres):
    pid = Postmaster.of(postgres.pgdata, wait_seconds=0).pid
    process = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    select.select([process], [], [], 10)  # until it has ended
    os.close(process)
    return pid


async def test_it_answers_on_a_private_socket_only(own_postgres):
    assert await ask(own_postgres, "show listen_addresses") == ""
    assert await ask(own_postgres, "show server_encoding") == "UTF8"
    assert own_postgres.pgdata.stat().st_mode & 0o077 == 0


async def test_a_database_is_created_once(own_postgres):
    dsn = await own_postgres.create_database("queen")
    assert await own_postgres.create_database("queen") == dsn
    assert await ask(own_postgres, "select current_database()", "queen") == "queen"


async def test_what_is_committed_is_durable_unless_a_test_says_otherwise(directory):
    with EmbeddedPostgres(directory / "data") as postgres:
        assert await ask(postgres, "show fsync") == "on"
        assert await ask(postgres, "show synchronous_commit") == "on"
        assert await ask(postgres, "show full_page_writes") == "on"


async def test_a_server_that_runs_already_is_used_and_not_stopped(own_postgres):
    second = EmbeddedPostgres(own_postgres.data_dir, settings=FAST)
    second.start()
    assert not second.started_here
    assert second.dsn() == own_postgres.dsn()
    second.stop()
    assert await ask(own_postgres, "select 1") == 1


async def test_it_starts_again_with_its_data(own_postgres):
    await own_postgres.create_database("kept")
    own_postgres.stop()
    own_postgres.start()
    assert await ask(own_postgres, "select 7", "kept") == 7


async def test_it_recovers_after_a_kill(own_postgres):
    await own_postgres.create_database("kept")
    kill_postmaster(own_postgres)
    own_postgres.start()
    assert await ask(own_postgres, "select 7", "kept") == 7


async def test_a_server_that_crashed_needs_no_stopping(own_postgres):
    kill_postmaster(own_postgres)
    own_postgres.stop()
    assert not own_postgres.started_here


def test_what_a_killed_start_left_behind_is_removed(own_postgres):
    own_postgres.stop()
    (own_postgres.data_dir / ".new-half").mkdir()
    own_postgres.start()
    assert {path.name for path in own_postgres.data_dir.iterdir()} == {".lock", "pgdata"}


async def test_a_process_number_that_went_to_someone_else_is_not_taken_for_the_server(own_postgres):
    pid = kill_postmaster(own_postgres)
    for name in ["postmaster.pid", ".s.PGSQL.5432.lock"]:
        path = own_postgres.pgdata / name
        path.write_text(path.read_text().replace(str(pid), str(os.getpid()), 1))
    own_postgres.start()
    assert await ask(own_postgres, "select 1") == 1


async def test_a_long_path_puts_the_socket_elsewhere(directory):
    with EmbeddedPostgres(directory / ("long" * 30), settings=FAST) as postgres:
        assert await ask(postgres, "select 1") == 1
        second = EmbeddedPostgres(postgres.data_dir, settings=FAST)
        second.start()
        assert second.dsn() == postgres.dsn()


def test_a_server_that_cannot_start_shows_its_log(directory):
    postgres = EmbeddedPostgres(directory / "data", settings={**FAST, "shared_buffers": "nonsense"})
    with pytest.raises(DatabaseUnavailable, match='invalid value for parameter "shared_buffers"'):
        postgres.start()


def test_data_of_another_major_version_is_refused(own_postgres):
    own_postgres.stop()
    version = own_postgres.pgdata / "PG_VERSION"
    version.write_text("12\n")
    with pytest.raises(ConfigurationError, match="was made by PostgreSQL 12"):
        own_postgres.start()


def test_a_dsn_needs_a_server(directory):
    with pytest.raises(DatabaseUnavailable, match="was not started"):
        EmbeddedPostgres(directory / "data").dsn()


def test_processes_that_start_together_share_one_server(directory):
    program = (
        "import sys, pathlib; from queenmq.engine.postgres.embedded import EmbeddedPostgres; "
        "postgres = EmbeddedPostgres(pathlib.Path(sys.argv[1])); postgres.start(); "
        "print(postgres.started_here)"
    )
    command = [sys.executable, "-c", program, str(directory / "data")]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = sorted(process.communicate(timeout=60)[0].strip() for process in processes)
    postgres = EmbeddedPostgres(directory / "data")
    postgres.start()
    postgres.started_here = True  # whoever started it is gone
    postgres.stop()
    assert said == ["False", "False", "True"]


@as_root
def test_root_lends_the_server_another_account(own_postgres):
    assert own_postgres.pgdata.stat().st_uid != 0
    server = Postmaster.of(own_postgres.pgdata, wait_seconds=0)
    assert Path(f"/proc/{server.pid}").stat().st_uid == own_postgres.pgdata.stat().st_uid


@as_root
def test_a_directory_closed_to_that_account_is_named(directory):
    closed = directory / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(ConfigurationError, match=f"cannot enter {closed}: set QUEEN_DATA_DIR"):
        EmbeddedPostgres(closed / "data").start()


@as_root
async def test_programs_closed_to_that_account_are_copied_not_opened(directory, monkeypatch):
    site = directory / "site"
    site.mkdir(mode=0o700)
    original = wheel_bin_dir().parent.parent
    shutil.copytree(original, site / original.name)
    shutil.copytree(original.with_suffix(".libs"), site / f"{original.name}.libs")
    closed = site / original.name / "pginstall" / "bin"
    monkeypatch.setattr("queenmq.engine.postgres.embedded.wheel_bin_dir", lambda: closed)
    monkeypatch.setattr("queenmq.engine.postgres.embedded.binaries.wheel_bin_dir", lambda: closed)
    with EmbeddedPostgres(directory / "data", settings=FAST) as postgres:
        assert postgres.bin_dir.is_relative_to(postgres.data_dir)
        assert await ask(postgres, "select 1") == 1
    assert Account(postgres.pgdata).obstacle(closed) == site
