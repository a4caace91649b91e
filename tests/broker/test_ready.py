"""/ready is 200 only if a push and a pop would work now; otherwise it says which part is in the way, and what to do."""

import asyncio
import shutil
import subprocess
from contextlib import contextmanager

import asyncpg
import pytest

from tests.broker.shorthand import data, pop, push, refused
from tests.fixtures.clusters import server_dir

READY_SECONDS_MAX = 40
SYNC_WAITS = "select count(*) from pg_stat_activity where wait_event = 'SyncRep' and application_name = 'queen'"


async def until_ready(http, server, part=None):
    """Wait until the server is ready, or until this part is not; answers the body."""
    async with asyncio.timeout(READY_SECONDS_MAX):
        while True:
            answer = await http.get(f"{server.url}/ready")
            found = [each["part"] for each in answer.json().get("parts", [])]
            if found == ([part] if part else []):
                assert answer.status_code == (503 if part else 200), answer.text
                return answer


async def refuses_push(http):
    answer = await http.post("/push", json={"items": [{"queue": "q", "payload": 1}]})
    return answer.status_code == 503


async def test_a_read_only_postgres_is_not_ready_until_it_can_be_written(serve, own_postgres):
    server = await serve(dsn=await own_postgres.create_database("queen"), spool=False)
    async with server.client() as http:
        await until_ready(http, server)
        await set_everywhere(own_postgres, "default_transaction_read_only", "on")
        answer = await until_ready(http, server, "primary")
        problem = refused(answer, 503, "NOT_READY")
        assert "default_transaction_read_only is on" in problem["error"]
        assert "Turn default_transaction_read_only off" in problem["hint"]
        assert answer.headers["retry-after"]
        assert await refuses_push(http)
        assert (await http.get(f"{server.url}/health")).status_code == 200
        await set_everywhere(own_postgres, "default_transaction_read_only", "off")
        await until_ready(http, server)
        await push(http, "q", 1)


async def test_a_standby_is_not_ready_until_it_is_promoted(serve, replication):
    primary = replication.primary
    standby = await replication.standby()
    await primary.execute("create database queen")
    hosts = f"postgresql://postgres@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/queen"  # any of them
    server = await serve(dsn=hosts, spool=False)
    async with server.client() as http:
        await push(http, "q", 1)
        await replication.caught_up(standby)
        await primary.stop("immediate")
        answer = await until_ready(http, server, "primary")
        assert "a standby that was not promoted" in answer.json()["error"]
        assert "Promote it" in answer.json()["hint"]
        await standby.promote()
        await until_ready(http, server)
        await push(http, "q", 2)
        assert data(await pop(http, "q", batch=10)) == [1, 2]


async def test_a_synchronous_standby_that_is_away_makes_a_server_unready(serve, replication):
    primary = replication.primary
    await primary.execute("create database queen")
    standby = await replication.standby(synchronous=True)
    server = await serve(dsn=primary.dsn("queen"))
    async with server.client() as http:
        await push(http, "q", 1)
        await until_ready(http, server)
        with standby.stopped():
            answer = await until_ready(http, server, "synchronous standby")
            assert "did not confirm a commit within 2 s" in answer.json()["error"]
            assert "synchronous_standby_names" in answer.json()["hint"]
            for _ in range(3):  # further looks leave no sessions behind that wait
                await primary.until(f"select ({SYNC_WAITS}) > 0", True)
                await primary.until(f"select ({SYNC_WAITS}) < 3", True)
        await until_ready(http, server)
        await push(http, "q", 2)


async def test_a_full_disk_makes_a_server_unready_until_there_is_room(serve, own_postgres):
    with server_dir() as directory, small_disk(directory / "small") as small:
        shutil.chown(small, *owner(own_postgres.pgdata))
        await execute(own_postgres, f"create tablespace small location '{small}'")
        await execute(own_postgres, "create database queen tablespace small")
        server = await serve(dsn=own_postgres.dsn("queen"), spool=False)
        async with server.client() as http:
            await until_ready(http, server)
            fill(small / "ballast")
            answer = await until_ready(http, server, "disk")
            assert "No space left on device" in answer.json()["error"]
            assert "Make room" in answer.json()["hint"]
            assert (await http.post("/push", json={"items": [{"queue": "q", "payload": "x" * 9_000_000}]})).is_error
            (small / "ballast").unlink()
            await until_ready(http, server)
            await push(http, "q", 1)
        await server.stop()
        await execute(own_postgres, "drop database queen with (force)", "drop tablespace small")


async def test_a_schema_of_a_later_version_makes_a_server_unready(serve, connection):
    server = await serve()
    async with server.client() as http:
        await connection.execute("insert into queen.schema_version (version, name, breaking) values (9999, 'x', false)")
        await until_ready(http, server)
        await connection.execute("update queen.schema_version set breaking = true where version = 9999")
        answer = await until_ready(http, server, "schema")
        assert "took step 9999 of the schema" in answer.json()["error"]
        assert answer.json()["hint"] == "Upgrade this installation of queenmq."


async def test_paused_deliveries_make_a_server_unready(serve):
    server = await serve()
    async with server.client() as http:
        await http.post("/system/maintenance/pop", json={"enabled": True})
        assert "a pop gets nothing" in (await until_ready(http, server, "maintenance")).json()["error"]
        await http.post("/system/maintenance/pop", json={"enabled": False})
        await until_ready(http, server)


async def test_paused_pushes_make_a_server_unready_that_keeps_no_spool(serve):
    with_spool, without = await serve(), await serve(spool=False)
    async with with_spool.client() as http:
        await http.post("/system/maintenance", json={"enabled": True})
        await until_ready(http, without, "maintenance")
        await until_ready(http, with_spool)
        await http.post("/system/maintenance", json={"enabled": False})
        await until_ready(http, without)


async def test_without_upkeep_a_server_is_not_ready(serve):
    server = await serve(upkeep=False)
    async with server.client() as http:
        await until_ready(http, server)  # a new leader may be about to take over
        answer = await until_ready(http, server, "upkeep")
        assert "no process has done the upkeep for" in answer.json()["error"]
        await serve()
        await until_ready(http, server)


# -- faults


async def execute(postgres, *statements):
    connection = await asyncpg.connect(postgres.dsn())
    for statement in statements:
        await connection.execute(statement)
    await connection.close()


async def set_everywhere(postgres, name, value):
    await execute(postgres, f"alter system set {name} = {value}", "select pg_reload_conf()")


def owner(path):
    entry = path.stat()
    return entry.st_uid, entry.st_gid


@contextmanager
def small_disk(path):
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", path]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk takes the right to mount one")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)


def fill(path):
    """Leave no room on the disk of this file."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
