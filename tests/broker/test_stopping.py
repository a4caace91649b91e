"""How a server starts and stops: it says why it cannot, and takes nothing back that it has accepted."""

import asyncio
import os
import socket
import subprocess
import sys

import httpx
import pytest

from tests.broker.shorthand import data, pop, push
from tests.faults.log import stored, until_waiting

SECONDS_MAX = 60


async def start(**settings):
    """A process of `queen serve`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("QUEEN_")}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from queenmq.cli import main; raise SystemExit(main())", "serve"),
        env=environment | {f"QUEEN_{name.upper()}": str(value) for name, value in settings.items()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


async def run(**settings):
    """`queen serve` to its end: exit status, what it printed, what it complained about."""
    process = await start(**settings)
    async with asyncio.timeout(SECONDS_MAX):
        printed, complaint = await process.communicate()
    return process.returncode, printed.decode(), complaint.decode()


# -- starting


async def test_a_port_that_is_taken_is_refused(tmp_path, database):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, printed, complaint = await run(port=port, dsn=database, data_dir=tmp_path)
    assert (status, printed) == (1, "")
    assert complaint.startswith(f"queen serve: cannot listen on 127.0.0.1 port {port}: Address already in use\n")


async def test_the_port_of_another_server_is_refused(serve, tmp_path, database):
    server = await serve(workers=1)
    port = httpx.URL(server.url).port
    status, printed, complaint = await run(port=port, dsn=database, data_dir=tmp_path)
    assert (status, printed) == (1, "")
    assert complaint.startswith(f"queen serve: cannot listen on 127.0.0.1 port {port}: ")


@pytest.mark.parametrize(
    ("dsn", "reason"),
    [
        ("postgresql://queen@127.0.0.1:1/queen", "PostgreSQL cannot be reached: [Errno 111] Connection refused"),
        ("queen", "PostgreSQL cannot be reached: invalid DSN: "),
    ],
)
async def test_a_database_that_cannot_be_reached_is_named_as_the_reason(tmp_path, dsn, reason):
    status, printed, complaint = await run(port=0, dsn=dsn, data_dir=tmp_path, workers=2)
    assert (status, printed) == (3, "")
    [said] = [line for line in complaint.splitlines() if line.startswith("queen serve: ")]
    assert said.startswith(f"queen serve: {reason}")
    assert "Traceback" not in complaint


async def test_an_unknown_setting_is_refused(tmp_path):
    status, printed, complaint = await run(porte=1, data_dir=tmp_path)
    assert (status, printed) == (1, "")
    assert "QUEEN_PORTE" in complaint


# -- stopping


async def test_a_server_that_waits_for_its_database_can_be_stopped(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # connections are made, and nobody answers
        silent.setblocking(False)
        process = await start(
            port=0, dsn=f"postgresql://queen@127.0.0.1:{silent.getsockname()[1]}/q", data_dir=tmp_path
        )
        connection, _ = await asyncio.get_running_loop().sock_accept(silent)
        process.terminate()
        async with asyncio.timeout(SECONDS_MAX / 2):
            printed, complaint = await process.communicate()
        connection.close()
    assert (process.returncode, printed, complaint) == (0, b"Queen has stopped.\n", b"")


async def test_a_stopping_server_answers_what_it_has_accepted(serve, connect, queue):
    server = await serve(workers=1)
    async with server.client() as http:
        await push(http, queue, "before")
        assert data(await pop(http, queue, autoAck=True)) == ["before"]
        locker, watcher = await connect(), await connect()
        lock = locker.transaction()
        await lock.start()
        await locker.execute("lock table queen.segments in access exclusive mode")
        pushes = [asyncio.create_task(push(http, queue, number, partition=str(number))) for number in range(5)]
        await until_waiting(watcher, "push")
        polls = [asyncio.create_task(http.get("/pop/queue/nothing", params={"wait": True})) for _ in range(5)]
        answers = await asyncio.gather(http.get("/pop/queue/nothing"), http.get("/pop/queue/nothing"))
        assert [answer.status_code for answer in answers] == [204, 204]
        stopping = asyncio.create_task(server.stop())
        assert [(await poll).status_code for poll in polls] == [204] * 5
        assert not any(each.done() for each in [*pushes, stopping])
        await lock.rollback()
        assert [answer["status"] for each in pushes for answer in await each] == ["queued"] * 5
        await stopping  # which sees it exit with 0
    assert sorted(value for [value] in (await stored(watcher)).values() if value != "before") == list(range(5))


async def test_a_server_stops_under_load_and_has_stored_what_it_answered(serve, connection, queue):
    server = await serve(workers=2)
    answered, enough = [], asyncio.Event()

    async def produce(name):
        async with server.client() as http:
            for number in range(1_000_000):
                try:
                    await push(http, queue, f"{name}-{number}", partition=name)
                except httpx.TransportError:
                    return
                answered.append(f"{name}-{number}")
                if len(answered) > 200:
                    enough.set()

    async def poll():
        async with server.client() as http:
            answer = await http.get("/pop/queue/nothing", params={"wait": True, "timeout": 60_000})
            return answer.status_code

    async with asyncio.timeout(SECONDS_MAX):
        polls = [asyncio.create_task(poll()) for _ in range(10)]
        producers = [asyncio.create_task(produce(str(number))) for number in range(16)]
        await enough.wait()
        await server.stop()
        await asyncio.gather(*producers)
        assert [await each for each in polls] == [204] * 10
    assert set(answered) <= {value for values in (await stored(connection)).values() for value in values}


async def test_a_stopping_server_does_not_wait_for_ever(serve, connect, queue):
    server = await serve(workers=1, stop_seconds_max=0.5, lock_timeout_ms=2_000)
    async with server.client() as http:
        await push(http, queue, 1)
        locker, watcher = await connect(), await connect()
        await locker.execute("begin; lock table queen.segments in access exclusive mode")
        stuck = asyncio.create_task(push(http, queue, 2))
        await until_waiting(watcher, "push")
        await server.stop()
        with pytest.raises((httpx.TransportError, AssertionError)):
            await stuck
    assert "requests in flight took too long" in server.log
