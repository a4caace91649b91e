"""Connections come and go; polls, wake-ups and upkeep do not."""

import asyncio
import json
import time

import pytest

from queenmq.engine import waiting
from queenmq.engine.postgres import database as engine_database
from queenmq.engine.postgres import sessions
from queenmq.engine.upkeep import inbox, leader
from queenmq.errors import DatabaseUnavailable
from queenmq.model import Ack, Outgoing, PopRequest

pytestmark = pytest.mark.usefixtures("balanced")

LISTENERS = """
select count(*) from pg_stat_activity where datname = current_database() and query like 'LISTEN "queen_wake"%'
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Nobody waits for long before the next attempt."""
    monkeypatch.setattr(waiting, "RECONNECT_SECONDS", 0.05)
    monkeypatch.setattr(leader, "CANDIDATE_SECONDS", 0.05)


def messages(*values, partition="ann"):
    return [Outgoing("orders", json.dumps(value).encode(), partition) for value in values]


def values(popped):
    return [json.loads(bytes(message.payload)) for message in popped.messages]


ORDERS = PopRequest(queue="orders", batch=10)


async def until(condition, connection):
    """Look at something in this process again and again, with a question to the database in between."""
    async with asyncio.timeout(20):
        while not condition():
            await connection.fetchval("select 1")


async def until_listening(connection, count):
    async with asyncio.timeout(20):
        while await connection.fetchval(LISTENERS) != count:
            pass


async def parked(engine, connection, count=1):
    polls = [asyncio.create_task(engine.pop(ORDERS, wait_seconds=60)) for _ in range(count)]
    await until(lambda: engine.waiting.parked == count, connection)
    return polls


async def test_a_parked_poll_survives_and_is_woken_by_a_push_here(engine, proxy, connection):
    [poll] = await parked(engine, connection)
    assert proxy.cut() > 0
    await engine.push(messages(1))
    assert values(await poll) == [1]


async def test_the_listener_comes_back_by_itself(engine, open_engine, database, proxy, connection):
    another = await open_engine(database)
    await until_listening(connection, 2)
    [poll] = await parked(engine, connection)
    proxy.refuse()
    proxy.cut()
    await until_listening(connection, 1)
    proxy.accept()
    await until_listening(connection, 2)
    await until(lambda: engine.waiting.parked == 1, connection)
    await another.push(messages(1))
    assert values(await poll) == [1]


async def test_what_was_pushed_while_nobody_listened_is_found(engine, open_engine, database, proxy, connection):
    another = await open_engine(database)
    await until_listening(connection, 2)
    polls = await parked(engine, connection, 3)
    proxy.refuse()
    proxy.cut()
    await until_listening(connection, 1)
    for name in ("ann", "bob", "cid"):
        await another.push(messages(name, partition=name))
    proxy.accept()
    assert sorted(value for popped in await asyncio.gather(*polls) for value in values(popped)) == ["ann", "bob", "cid"]


async def test_a_wake_up_that_could_not_be_sent_is_sent_later(engine, open_engine, database, proxy, connection):
    another = await open_engine(database)
    await until_listening(connection, 2)
    [poll] = await parked(another, connection)
    fault = proxy.cut_before_request("pg_notify")
    await engine.push(messages(1))
    await fault.happened()
    assert values(await poll) == [1]


async def test_calls_and_polls_continue_after_every_cut(engine, proxy, connection):
    for round in range(10):
        [poll] = await parked(engine, connection)
        proxy.cut()
        await engine.push(messages(round))
        popped = await poll
        proxy.cut()
        [answer] = await engine.ack([Ack.of(message) for message in popped.messages])
        assert (values(popped), answer.accepted) == ([round], True)


async def test_upkeep_moves_to_another_engine(open_engine, database, proxy, connection):
    first = await open_engine(proxy.dsn, upkeep=True)
    await asyncio.wait_for(first.leader.leading.wait(), 20)
    second = await open_engine(database, upkeep=True)
    proxy.refuse()
    proxy.cut()
    await asyncio.wait_for(second.leader.leading.wait(), 20)
    await until(lambda: not first.leader.leading.is_set(), connection)
    [poll] = await parked(second, connection)
    await connection.execute("select queen.push('orders', '7', 'ann')")
    assert values(await poll) == [7]
    proxy.accept()
    await second.close()
    await asyncio.wait_for(first.leader.leading.wait(), 20)
    [poll] = await parked(first, connection)
    await connection.execute("select queen.push('orders', '8', 'bob')")
    assert values(await poll) == [8]


async def test_a_leader_that_is_cut_again_and_again_leads_again(open_engine, proxy, connection):
    engine = await open_engine(proxy.dsn, upkeep=True)
    for number in range(5):
        await asyncio.wait_for(engine.leader.leading.wait(), 20)
        [poll] = await parked(engine, connection)
        await connection.execute(f"select queen.push('orders', '{number}', 'p{number}')")
        assert values(await poll) == [number]
        proxy.cut()
        await until(lambda: not engine.leader.leading.is_set(), connection)


async def test_a_network_that_says_nothing_is_given_up(open_engine, proxy, monkeypatch):
    monkeypatch.setattr(engine_database, "GRACE_SECONDS", 0.3)
    monkeypatch.setattr(sessions, "CONNECT_SECONDS_MAX", 0.3)
    engine = await open_engine(proxy.dsn, statement_timeout_ms=200, lock_timeout_ms=200)
    await engine.push(messages(1))
    popped = await engine.pop(ORDERS)
    proxy.pause()
    began = time.monotonic()
    calls = [
        engine.push(messages(2)),
        engine.pop(ORDERS),
        engine.ack([Ack.of(message) for message in popped.messages]),
        engine.renew(popped.leases[0].id),
        engine.transaction(messages=messages(3)),
        engine.admin.queue("orders"),
    ]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer) for answer in answers if not isinstance(answer, DatabaseUnavailable)] == []
    assert time.monotonic() - began < 10
    proxy.resume()
    [answer] = await engine.ack([Ack.of(message) for message in popped.messages])
    assert answer.accepted
    await engine.push(messages(4))
    popped = await engine.pop(ORDERS, wait_seconds=5)
    assert values(popped)[-1] == 4


async def test_a_network_that_pauses_for_a_moment_costs_nothing(engine, proxy):
    await engine.push(messages(1))
    proxy.pause()
    push, pop = asyncio.create_task(engine.push(messages(2))), asyncio.create_task(engine.pop(ORDERS))
    await asyncio.wait([push, pop], timeout=0.2)
    proxy.resume()
    assert [answer.offset for answer in await push] == [1]
    assert values(await pop)[0] == 1


async def test_an_engine_can_be_closed_while_the_network_says_nothing(open_engine, proxy, connection, monkeypatch):
    monkeypatch.setattr(engine_database, "GRACE_SECONDS", 0.3)
    monkeypatch.setattr(sessions, "CONNECT_SECONDS_MAX", 0.3)
    monkeypatch.setattr(engine_database, "CLOSE_SECONDS_MAX", 0.5)
    monkeypatch.setattr(inbox, "ANSWER_SECONDS_MAX", 0.5)
    engine = await open_engine(proxy.dsn, statement_timeout_ms=200, lock_timeout_ms=200, upkeep=True)
    await asyncio.wait_for(engine.leader.leading.wait(), 20)
    await engine.push(messages(1))
    proxy.pause()
    push = asyncio.create_task(engine.push(messages(2)))
    await until(lambda: engine.pusher.batcher.requests == 2, connection)
    async with asyncio.timeout(20):
        await engine.close()
    with pytest.raises(DatabaseUnavailable):
        await push


async def test_an_engine_can_be_closed_while_nobody_is_there(open_engine, proxy, connection):
    engine = await open_engine(proxy.dsn, upkeep=True)
    [poll] = await parked(engine, connection)
    proxy.refuse()
    proxy.cut()
    async with asyncio.timeout(20):
        await engine.close()
    assert values(await poll) == []
