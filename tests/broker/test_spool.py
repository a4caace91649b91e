"""PostgreSQL goes away and comes back: what was answered is stored, in order, and once."""

import asyncio
import os
import signal
import time

import asyncpg
import httpx
import pytest

from tests.broker.shorthand import SPOOL_SECONDS_MAX, ack, data, drained, maintenance, pop, push, refused, until
from tests.faults.log import stored
from tests.faults.test_restarts import start, stop
from tests.waits import WAIT_SECONDS_MAX

QUICK_SECONDS_MAX = 8.0  # nobody waits for a connection, which would be given up after ten


def kill(server):
    """-9 for all of its processes."""
    for pid in server.workers():
        os.kill(pid, signal.SIGKILL)
    server.kill()


async def log_of(dsn):
    connection = await asyncpg.connect(dsn)
    try:
        return await stored(connection)
    finally:
        await connection.close()


@pytest.fixture
def spool_dir(tmp_path):
    return tmp_path / "spool"


@pytest.mark.parametrize("how", ["fast", "kill"])
async def test_pushes_survive_postgresql_being_away(serve, own_postgres, how):
    dsn = await own_postgres.create_database("queen")
    server = await serve(dsn)
    async with server.client() as http:
        await push(http, "orders", 1, 2)
        popped = await pop(http, "orders", batch=2)
        await stop(own_postgres, how)
        [told] = await push(http, "orders", 3, status=202, transactionId="three")
        assert (told["status"], told["message_id"], told["transaction_id"]) == ("buffered", None, "three")
        asked = time.monotonic()
        await push(http, "orders", 4, 5, status=202, headers={"kept": "on the disk"})
        refused(await http.get("/pop/queue/orders"), 503, "DATABASE_UNAVAILABLE")
        refused(await http.get("/pop/queue/orders?wait=true"), 503, "DATABASE_UNAVAILABLE")
        acks = [{key: popped["messages"][0][key] for key in ("transactionId", "partitionId", "leaseId")}]
        answer = await http.post("/ack/batch", json={"acknowledgments": acks})
        assert "retry-after" in answer.headers
        refused(answer, 503, "DATABASE_UNAVAILABLE")
        operations = [{"type": "push", "items": [{"queue": "orders", "payload": 0}]}]
        refused(await http.post("/transaction", json={"operations": operations}), 503, "DATABASE_UNAVAILABLE")
        refused(await http.post("/system/maintenance", json={"enabled": True}), 503, "DATABASE_UNAVAILABLE")
        assert time.monotonic() - asked < QUICK_SECONDS_MAX
        found = await until(http, databaseAvailable=False)
        assert (found["bufferedMessages"], found["refusedMessages"]) == (3, 0)
        array = await http.post("/push/queue/orders?transactionId=array", json=[6, 7])
        assert (array.status_code, array.json()["partition_id"]) == (202, None)
        assert array.json()["runs"] == [{"status": "buffered", "count": 2, "first_offset": None, "message_id": None}]
        await start(own_postgres)
        await drained(http)
        await push(http, "orders", 8)
        assert await log_of(dsn) == {("orders", "Default"): [1, 2, 3, 4, 5, 6, 7, 8]}
        again = await pop(http, "orders", batch=8, consumerGroup="other", subscriptionMode="all")
        assert [each["data"] for each in again["messages"] if "headers" in each] == [4, 5]
        assert again["messages"][4]["headers"] == {"kept": "on the disk"}
        assert [each["success"] for each in await ack(http, *popped["messages"])] == [True, True]


async def test_without_a_spool_pushes_are_turned_away(serve, own_postgres):
    server = await serve(await own_postgres.create_database("queen"), spool=False)
    async with server.client() as http:
        await push(http, "orders", 1)
        await maintenance(http, enabled=True)
        answer = await http.post("/push", json={"items": [{"queue": "orders", "payload": 2}]})
        refused(answer, 503, "MAINTENANCE")
        await maintenance(http, enabled=False)
        await stop(own_postgres, "immediate")
        answer = await http.post("/push", json={"items": [{"queue": "orders", "payload": 2}]})
        refused(answer, 503, "DATABASE_UNAVAILABLE")
        assert answer.headers["retry-after"] == "1"
        await start(own_postgres)
        await until(http, databaseAvailable=True)
        await push(http, "orders", 2)
        assert data(await pop(http, "orders", batch=10)) == [1, 2]


async def test_a_server_that_is_killed_leaves_its_spool_to_the_next_one(serve, own_postgres, spool_dir):
    dsn = await own_postgres.create_database("queen")
    server = await serve(dsn, spool_dir=spool_dir)
    async with server.client() as http:
        await push(http, "orders", 1)
        await stop(own_postgres, "fast")
        for number in range(2, 20):
            await push(http, "orders", number, status=202)
        kill(server)
    await start(own_postgres)
    server = await serve(dsn, spool_dir=spool_dir)
    async with server.client() as http:
        await push_after(http, 20)
        await drained(http)
    assert await log_of(dsn) == {("orders", "Default"): list(range(1, 21))}


async def test_workers_that_are_killed_leave_the_spool_to_others(serve, connection):
    server = await serve(workers=2)
    async with server.client() as http:
        await maintenance(http, enabled=True)
        await push(http, "orders", *range(10), status=202)
    killed = server.workers()
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(SPOOL_SECONDS_MAX):
        while set(killed) & set(await asyncio.to_thread(server.workers)):  # they may still take a connection
            pass
    async with server.client(transport=httpx.AsyncHTTPTransport(retries=10)) as http:
        await push(http, "orders", 10, status=202)
        await maintenance(http, enabled=False)
        await drained(http)
    assert await stored(connection) == {("orders", "Default"): list(range(11))}


async def test_a_server_stops_in_peace_while_postgresql_is_away(serve, own_postgres, spool_dir):
    dsn = await own_postgres.create_database("queen")
    server = await serve(dsn, spool_dir=spool_dir)
    async with server.client() as http:
        await push(http, "orders", 1)
        await stop(own_postgres, "fast")
        await push(http, "orders", 2, status=202)
    await server.stop()
    await start(own_postgres)
    server = await serve(dsn, spool_dir=spool_dir)
    async with server.client() as http:
        await drained(http)
    assert await log_of(dsn) == {("orders", "Default"): [1, 2]}


async def push_after(http, number):
    """Push behind what may be in the spool."""
    answer = await http.post("/push", json={"items": [{"queue": "orders", "payload": number}]})
    assert answer.status_code in (201, 202)


@pytest.mark.parametrize("fault", ["cut_before_request", "cut_during_request", "cut_after_request"])
async def test_answers_that_are_lost_while_the_spool_is_stored(serve, proxy, connection, fault):
    server = await serve(proxy.dsn, push_messages_max=10)
    async with server.client() as http:
        await maintenance(http, enabled=True)
        for number in range(0, 100, 5):
            await push(http, "orders", *range(number, number + 5), status=202)
        lost = getattr(proxy, fault)("push_spooled", times=4)
        await maintenance(http, enabled=False)
        await drained(http)
        assert lost.seen == 4
        assert await stored(connection) == {("orders", "Default"): list(range(100))}
        async with asyncio.timeout(SPOOL_SECONDS_MAX):
            while await connection.fetchval("select count(*) from queen.spool_positions"):
                pass  # forgotten after the file is gone


@pytest.mark.parametrize("happened", [True, False])
async def test_a_server_that_is_killed_while_its_spool_is_stored(serve, proxy, connection, spool_dir, happened):
    server = await serve(proxy.dsn, spool_dir=spool_dir, push_messages_max=10)
    async with server.client() as http:
        await maintenance(http, enabled=True)
        for number in range(0, 60, 5):
            await push(http, "orders", *range(number, number + 5), status=202)
        fault = proxy.hold_answer("push_spooled") if happened else proxy.cut_before_request("push_spooled", None)
        await maintenance(http, enabled=False)
        await fault.happened()
        kill(server)
    proxy.heal()
    fault.cut()
    proxy.cut()
    server = await serve(proxy.dsn, spool_dir=spool_dir)
    async with server.client() as http:
        await drained(http)
    assert await stored(connection) == {("orders", "Default"): list(range(60))}


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_push_whose_outcome_is_unknown_is_stored_once(serve, proxy, connection, moment):
    server = await serve(proxy.dsn)
    async with server.client() as http:
        await push(http, "orders", 1)
        fault = proxy.cut_before_request if moment == "before" else proxy.cut_after_request
        lost = fault("push_segments", times=None)
        proxy.cut_before_request("queen.abandon_call", times=None)  # so that nobody can ask what became of it
        told = await push(http, "orders", 2, 3, status=202)
        assert lost.seen == 1
        assert [each["status"] for each in told] == ["buffered", "buffered"]
        await push(http, "orders", 4, status=202)
        proxy.heal()
        await drained(http)
        await push(http, "orders", 5)
        assert await stored(connection) == {("orders", "Default"): [1, 2, 3, 4, 5]}


async def test_a_network_that_goes_silent_counts_as_away(serve, proxy, connection):
    server = await serve(proxy.dsn)
    async with server.client() as http:
        await push(http, "orders", 1)
        proxy.pause()
        await push(http, "orders", 2, status=202)
        asked = time.monotonic()
        await push(http, "orders", 3, status=202)
        refused(await http.get("/pop/queue/orders"), 503, "DATABASE_UNAVAILABLE")
        assert time.monotonic() - asked < QUICK_SECONDS_MAX
        proxy.resume()
        await drained(http)
        assert await stored(connection) == {("orders", "Default"): [1, 2, 3]}


async def test_order_and_number_under_traffic_while_postgresql_restarts(serve, own_postgres):
    dsn = await own_postgres.create_database("queen")
    server = await serve(dsn, workers=2)
    sent = dict.fromkeys(("ann", "bob", "cid", "dee"), 0)
    statuses, enough = set(), asyncio.Event()

    async def produce(name):
        """Every push on a connection of its own: any worker may get it."""
        async with server.client(limits=httpx.Limits(max_keepalive_connections=0)) as http:
            while not enough.is_set():
                item = {"queue": "orders", "partition": name, "payload": sent[name]}
                answer = await http.post("/push", json={"items": [item]})
                assert answer.status_code in (201, 202), answer.text
                statuses.add(answer.status_code)
                sent[name] += 1

    async def more(count):
        goal = {name: number + count for name, number in sent.items()}
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while any(sent[name] < goal[name] for name in sent):
                await asyncio.wait(producers, timeout=0.01, return_when=asyncio.FIRST_EXCEPTION)

    producers = [asyncio.create_task(produce(name)) for name in sent]
    async with server.client() as http:
        for how in ("immediate", "kill"):
            await more(20)
            await stop(own_postgres, how)
            await more(20)
            await start(own_postgres)
        await drained(http)  # while more and more comes
        enough.set()
        await asyncio.gather(*producers)
        await drained(http)
    assert statuses == {201, 202}
    assert await log_of(dsn) == {("orders", name): list(range(number)) for name, number in sent.items()}


async def test_a_full_spool_turns_pushes_away_and_keeps_what_it_has(serve, connection, spool_dir):
    server = await serve(spool_dir=spool_dir, spool_bytes_max=65_536)
    async with server.client() as http:
        await maintenance(http, enabled=True)
        taken = 0
        while (answer := await http.post("/push", json=large(taken))).status_code == 202:
            taken += 1
        assert 5 <= taken <= 6
        assert "QUEEN_SPOOL_BYTES_MAX" in refused(answer, 503, "BUSY")["error"]
        assert answer.headers["retry-after"] == "1"
        assert len(list(spool_dir.glob("*/*.spool"))) == 1
        await maintenance(http, enabled=False)
        await drained(http)
    [messages] = (await stored(connection)).values()
    assert [message["number"] for message in messages] == list(range(taken))


def large(number):
    return {"items": [{"queue": "orders", "payload": {"number": number, "text": "x" * 10_000}}]}


async def test_a_message_that_is_refused_is_set_aside_and_tried_again_later(serve, connection, spool_dir):
    server = await serve(spool_dir=spool_dir)
    async with server.client() as http:
        await maintenance(http, enabled=True)
        await push(http, "orders", 1, status=202)
        await push(http, "secrets", 2, 3, status=202)
        await push(http, "orders", 4, status=202)
        await http.post("/configure", json={"queue": "secrets", "options": {"encryptionEnabled": True}})
        await maintenance(http, enabled=False)
        await drained(http)
        assert (await until(http))["refusedMessages"] == 2
        assert await stored(connection) == {("orders", "Default"): [1, 4]}
        assert "ENCRYPTION_REQUIRED" in server.log
    await server.stop()
    server = await serve(spool_dir=spool_dir, encryption_keys="a:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
    async with server.client() as http:
        await until(http, refusedMessages=0)
        assert sorted(data(await pop(http, "secrets", batch=10))) == [2, 3]


async def test_a_server_with_keys_writes_nothing_readable(serve, spool_dir):
    server = await serve(spool_dir=spool_dir, encryption_keys="a:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
    async with server.client() as http:
        await maintenance(http, enabled=True)
        await push(http, "orders", "a secret", status=202)
        [segment] = spool_dir.glob("*/*.spool")
        assert b"secret" not in segment.read_bytes()
        await maintenance(http, enabled=False)
        await drained(http)
        assert data(await pop(http, "orders")) == ["a secret"]


async def test_a_spool_belongs_to_one_database(serve, own_postgres, spool_dir):
    """Two servers with the same directory and different databases do not see each other's messages."""
    dsn = await own_postgres.create_database("queen")
    one, two = await serve(spool_dir=spool_dir), await serve(dsn, spool_dir=spool_dir)
    async with one.client() as first, two.client() as second:
        await maintenance(first, enabled=True)
        await push(first, "orders", 1, status=202)
        await push(second, "orders", 2)
        assert (await until(second))["bufferedMessages"] == 0
        await maintenance(first, enabled=False)
        await drained(first)
        assert data(await pop(first, "orders", batch=10)) == [1]
        assert data(await pop(second, "orders", batch=10)) == [2]


async def test_a_spool_that_another_database_left_is_reported_and_not_stored(serve, own_postgres, spool_dir):
    other = await own_postgres.create_database("queen")
    first = await serve(spool_dir=spool_dir)
    async with first.client() as http:
        await maintenance(http, enabled=True)
        await push(http, "orders", 1, status=202)
    first.kill()
    second = await serve(other, spool_dir=spool_dir)
    async with second.client() as http:
        assert "a spool of another database stays as it is" in second.log
        await push(http, "orders", 2)
        assert data(await pop(http, "orders", batch=10)) == [2]
    third = await serve(spool_dir=spool_dir)
    async with third.client() as http:
        assert "another database" not in third.log
        await maintenance(http, enabled=False)
        await drained(http)
        assert data(await pop(http, "orders", batch=10)) == [1]


async def test_a_spool_that_cannot_be_kept_stops_the_start(serve, tmp_path):
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(AssertionError, match="QUEEN_SPOOL_DIR"):
        await serve(spool_dir=tmp_path / "file")
