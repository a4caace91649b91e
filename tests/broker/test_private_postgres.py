"""A server without a DSN looks after its private PostgreSQL: whatever ends it, the server goes on with it."""

import asyncio
import contextlib
import os
import select
import signal
from pathlib import Path

import asyncpg
import pytest

from queenmq.engine.postgres.embedded import EmbeddedPostgres
from queenmq.engine.postgres.embedded.postmaster import Postmaster
from tests.broker.shorthand import data, pop, push
from tests.fixtures.clusters import server_dir

SECONDS_MAX = 60
CALCULATION = "select sum(sqrt(a * b)) from generate_series(1, 1000000) a, generate_series(1, 1000000) b"
STATE = "select state from pg_stat_activity where pid = $1"


@pytest.fixture
def data_dir():
    """A directory that the account of the private PostgreSQL can enter."""
    with server_dir() as directory:
        yield directory / "data"


@pytest.fixture
async def private(data_dir, serve):
    """A server with a private PostgreSQL."""
    return await serve(dsn=None, data_dir=data_dir, spool=False)


def postmaster(data_dir):
    found = Postmaster.of(data_dir / "pgdata", wait_seconds=0)
    return found.pid if found is not None else None


def kill(pid):
    """End a process; when this returns it has ended."""
    process = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    assert select.select([process], [], [], SECONDS_MAX)[0]
    os.close(process)


async def until_ready(http, server, status=200):
    async with asyncio.timeout(SECONDS_MAX):
        while (answer := await http.get(f"{server.url}/ready")).status_code != status:
            pass
    return answer


async def until(http, server, condition):
    async with asyncio.timeout(SECONDS_MAX):
        while not condition():
            await http.get(f"{server.url}/health")


async def session(data_dir):
    return await asyncpg.connect(f"postgresql://postgres@/queen?host={data_dir / 'pgdata'}")


async def test_a_postgres_that_was_killed_is_started_again(private, data_dir):
    async with private.client() as http:
        await push(http, "q", 1)
        killed = postmaster(data_dir)
        kill(killed)
        answer = await until_ready(http, private, 503)
        assert answer.json()["code"] == "DATABASE_UNAVAILABLE"
        assert (await http.get(f"{private.url}/health")).status_code == 200
        await until_ready(http, private)
        assert postmaster(data_dir) != killed
        await push(http, "q", 2)
        assert data(await pop(http, "q", batch=10)) == [1, 2]
    assert "the private PostgreSQL has ended and is started again" in private.log
    assert "the private PostgreSQL runs again" in private.log
    await private.stop()
    assert postmaster(data_dir) is None, "a server stops the PostgreSQL that it has started again"


async def test_a_backend_that_was_killed_does_not_end_a_server(private, data_dir):
    async with private.client() as http:
        await push(http, "q", 1)
        connection = await session(data_dir)
        kill(connection.get_server_pid())  # PostgreSQL ends all others, recovers, and goes on
        connection.terminate()
        await until(http, private, lambda: "wake-ups from other servers are interrupted" in private.log)
        await until_ready(http, private)
        await push(http, "q", 2)
        assert data(await pop(http, "q", batch=10)) == [1, 2]
    assert "is started again" not in private.log


async def test_a_calculation_of_a_killed_postgres_does_not_keep_it_from_starting(private, data_dir):
    async with private.client() as http:
        await push(http, "q", 1)
        connection = await session(data_dir)
        endless = asyncio.create_task(connection.fetchval(CALCULATION))
        other = await session(data_dir)
        async with asyncio.timeout(SECONDS_MAX):
            while await other.fetchval(STATE, connection.get_server_pid()) != "active":
                pass
        kill(postmaster(data_dir))
        await until_ready(http, private, 503)
        await until_ready(http, private)
        await push(http, "q", 2)
        with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            await endless
        connection.terminate()
        other.terminate()


async def test_a_postgres_that_cannot_start_is_tried_again_until_it_can(private, data_dir):
    setting = data_dir / "pgdata" / "postgresql.auto.conf"
    async with private.client() as http:
        await push(http, "q", 1)
        setting.write_text("no_such_setting = 1\n")
        kill(postmaster(data_dir))
        await until(http, private, lambda: private.log.count("could not be started") >= 2)
        answer = await until_ready(http, private, 503)
        [first, *_] = answer.json()["parts"]
        assert first["part"] == "postgresql"
        assert "could not be started" in first["problem"]
        assert str(data_dir / "pgdata" / "server.log") in first["problem"]
        assert "FATAL:  configuration file" in private.log
        setting.write_text("")
        await until_ready(http, private)
        await push(http, "q", 2)
        assert data(await pop(http, "q", batch=10)) == [1, 2]


async def test_a_server_stops_properly_while_its_postgres_cannot_start(private, data_dir):
    async with private.client() as http:
        (data_dir / "pgdata" / "postgresql.auto.conf").write_text("no_such_setting = 1\n")
        kill(postmaster(data_dir))
        await until(http, private, lambda: "could not be started" in private.log)
    await private.stop()
    assert postmaster(data_dir) is None


async def test_a_data_directory_that_is_gone_is_not_made_anew(private, data_dir):
    pgdata, elsewhere = data_dir / "pgdata", data_dir / "elsewhere"
    async with private.client() as http:
        await push(http, "q", 1)
        pgdata.rename(elsewhere)  # as if its file system was unmounted
        kill(int((elsewhere / "postmaster.pid").read_text().split()[0]))
        await until(http, private, lambda: "does not exist any more" in private.log)
        assert not pgdata.exists()
        elsewhere.rename(pgdata)
        await until_ready(http, private)
        assert data(await pop(http, "q")) == [1]


async def test_a_server_that_shares_a_private_postgres_takes_it_over(data_dir, serve):
    first = await serve(dsn=None, data_dir=data_dir)
    second = await serve(dsn=None, data_dir=data_dir)
    async with second.client() as http:
        await push(http, "q", 1)
        await first.stop()  # which started PostgreSQL, and stops it
        await until(http, second, lambda: "the private PostgreSQL runs again" in second.log)
        await until_ready(http, second)
        assert data(await pop(http, "q")) == [1]
    await second.stop()
    assert postmaster(data_dir) is None


async def test_a_restart_keeps_the_address_of_a_postgres_with_a_long_path(serve):
    with server_dir() as directory:
        data_dir = Path(directory / ("long" * 30))
        server = await serve(dsn=None, data_dir=data_dir, spool=False)
        async with server.client() as http:
            await push(http, "q", 1)
            kill(postmaster(data_dir))
            await until_ready(http, server, 503)
            await until_ready(http, server)
            assert data(await pop(http, "q")) == [1]
        await server.stop()


def test_a_stop_waits_for_a_start_of_another_process(data_dir):
    first, second = EmbeddedPostgres(data_dir), EmbeddedPostgres(data_dir)
    first.start()
    second.start()
    assert first.is_running()
    first.stop()
    assert not second.is_running()
    second.start()
    assert second.started_here
    second.stop()
