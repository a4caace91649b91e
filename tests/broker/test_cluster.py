"""Several servers on one database, and several workers of one server, are one queue; any of them may die."""

import asyncio
import contextlib
import os
import signal
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.broker.shorthand import ack, data, pop, push
from tests.fixtures.servers import Served

HOUR_MS = 3_600_000
# What wakes a poll here is a notification, never the fallback poll.
NO_FALLBACK = {"poll_interval_min_ms": HOUR_MS, "poll_interval_max_ms": HOUR_MS}
SECONDS_MAX = 60


@pytest.fixture(scope="module")
def pair(module_database, tmp_path_factory):
    """Two servers on one database, which live as long as the module."""
    directory = tmp_path_factory.mktemp("pair")
    with ThreadPoolExecutor() as threads:
        starting = [
            threads.submit(Served, directory / name, module_database, {"workers": 1} | NO_FALLBACK)
            for name in ("here", "there")
        ]
    servers = [each.result() for each in starting]
    yield servers
    for server in servers:
        sys.stderr.write(server.log)
        server.end()


@pytest.fixture
async def here(pair):
    """A client of one of the two."""
    async with pair[0].client() as client:
        yield client


@pytest.fixture
async def there(pair):
    """A client of the other."""
    async with pair[1].client() as client:
        yield client


def visit(server):
    """A client whose every request is a connection of its own, so that all workers get some."""
    return server.client(limits=httpx.Limits(max_keepalive_connections=0))


async def answers(http):
    """Whether somebody answers."""
    try:
        return (await http.get("/pop/queue/anybody")).status_code == 204
    except httpx.TransportError:
        return False


def is_running(pid):
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "XZ"
    return False


# -- one queue


async def test_a_push_on_one_server_wakes_a_poll_on_the_other(here, there, queue):
    for number in range(10):
        poll = asyncio.create_task(pop(there, queue, wait=True, autoAck=True))
        await push(here, queue, number)
        assert data(await poll) == [number]


async def test_an_ack_on_one_server_wakes_a_poll_on_the_other_for_the_rest(here, there, queue):
    await push(here, queue, 1, 2)
    first = (await pop(here, queue))["messages"]
    poll = asyncio.create_task(pop(there, queue, wait=True))
    await pop(here, queue, status=204)
    [answer] = await ack(here, *first)
    assert answer["success"]
    assert data(await poll) == [2]


async def test_any_server_takes_the_ack_of_what_another_delivered(here, there, queue):
    await push(here, queue, *range(10))
    messages = (await pop(here, queue, batch=10))["messages"]
    assert all(each["success"] for each in await ack(there, *messages[:5]))
    assert all(each["success"] for each in await ack(here, *messages[5:]))
    assert not any(each["success"] for each in await ack(there, *messages))
    await pop(there, queue, status=204)


async def test_any_server_extends_a_lease_and_commits_a_transaction(here, there, queue):
    await push(here, queue, 1, transactionId="one")
    [message] = (await pop(here, queue))["messages"]
    [extended] = (await there.post(f"/lease/{message['leaseId']}/extend", json={"seconds": 600})).json()
    assert extended["success"]
    operations = [
        {"type": "ack"} | {key: message[key] for key in ("transactionId", "partitionId", "leaseId")},
        {"type": "push", "items": [{"queue": f"{queue}-next", "payload": 2}]},
    ]
    done = (await there.post("/transaction", json={"operations": operations})).json()
    assert done["success"], done
    assert data(await pop(here, f"{queue}-next")) == [2]


async def test_a_duplicate_is_one_on_every_server(here, there, queue):
    [first] = await push(here, queue, 1, transactionId="same")
    [second] = await push(there, queue, 2, transactionId="same")
    assert [first["status"], second["status"]] == ["queued", "duplicate"]
    assert first["message_id"] == second["message_id"]


async def test_of_the_same_ids_pushed_everywhere_at_once_one_each_is_stored(here, there, queue):
    ids = [f"id-{number}" for number in range(50)]
    pushes = [push(http, queue, 0, transactionId=id) for id in ids for http in (here, there) * 2]
    statuses = [answer["status"] for [answer] in await asyncio.gather(*pushes)]
    assert statuses.count("queued") == len(ids)
    stored = (await pop(here, queue, batch=1000))["messages"]
    assert sorted(message["transactionId"] for message in stored) == sorted(ids)


async def test_consumers_on_two_servers_never_hold_the_same_message(here, there, queue):
    for partition in range(20):
        await push(here, queue, *range(10), partition=f"p{partition}")
    popped = await asyncio.gather(*(pop(http, queue, batch=10) for http in (here, there) * 10))
    ids = Counter(message["id"] for each in popped for message in each["messages"])
    assert len(ids) == ids.total() == 200


# -- death


async def test_a_server_goes_on_when_another_is_killed_with_its_leases(serve, queue):
    killed, server = await asyncio.gather(serve(workers=1), serve(workers=1))
    async with killed.client() as here, server.client() as there:
        for partition in ("a", "b"):
            await push(here, queue, f"{partition}1", f"{partition}2", partition=partition)
        held = (await pop(here, queue, batch=10, leaseTime=3))["messages"]
        poll = asyncio.create_task(pop(here, f"{queue}-other", wait=True))
        await push(there, f"{queue}-third", 0)
        killed.kill()
        with pytest.raises(httpx.TransportError):
            await poll
        other = (await pop(there, queue, batch=10))["messages"]
        assert {message["partition"] for message in held + other} == {"a", "b"}
        assert all(each["success"] for each in await ack(there, *other))
        [answer] = await ack(there, held[0])
        assert answer["success"], "the lease outlives the server that gave it"
        again = await pop(there, queue, wait=True)
        assert data(again) == [held[1]["data"]]
        await push(there, f"{queue}-other", 1)
        assert data(await pop(there, f"{queue}-other")) == [1], "the killed poll took nothing with it"


async def test_workers_end_with_a_killed_supervisor(serve):
    server = await serve(workers=2)
    workers = server.workers()
    server.process.kill()
    async with asyncio.timeout(SECONDS_MAX):
        while any(is_running(pid) for pid in workers):
            await asyncio.to_thread(os.sched_yield)
    server.kill()


async def test_a_killed_worker_is_replaced_while_the_others_serve(serve, queue):
    server = await serve(workers=3, **NO_FALLBACK)
    async with asyncio.timeout(SECONDS_MAX), visit(server) as http:
        polls = [asyncio.create_task(pop(http, queue, wait=True, autoAck=True)) for _ in range(12)]
        for number in range(12):  # in any worker: they are of one queue
            await push(http, queue, number, partition=str(number))
        assert sorted(value for each in await asyncio.gather(*polls) for value in data(each)) == list(range(12))

        while len(server.workers()) < 3:
            await answers(http)
        [victim, *others] = server.workers()
        os.kill(victim, signal.SIGKILL)
        served = 0
        while len(set(server.workers()) - {victim}) < 3:
            served += await answers(http)
        assert served
        assert set(others) < set(server.workers())
        await push(http, queue, 1)
        assert data(await pop(http, queue)) == [1]


async def test_the_only_worker_is_replaced(serve, queue):
    server = await serve(workers=1)
    async with asyncio.timeout(SECONDS_MAX), visit(server) as http:
        await push(http, queue, 1)
        [victim] = server.workers()
        os.kill(victim, signal.SIGKILL)
        while not await answers(http):
            pass
        assert victim not in server.workers()
        assert data(await pop(http, queue)) == [1]
    assert "a worker died and is replaced" in server.log
