"""Behind a pooler an engine does everything that it does without one."""

import asyncio

import pytest

from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.engine.postgres.pooling import examine
from queenmq.model import Ack
from tests.engine.shorthand import ack, messages, pop, values
from tests.fixtures.pgbouncer import poolers
from tests.waits import until


async def test_messages_are_pushed_delivered_and_acknowledged(engine, connection):
    for number in range(20):
        await engine.push(messages("orders", number, partition=f"p{number % 3}", ids=[f"id-{number}"]))
    assert (await engine.push(messages("orders", 0, partition="p0", ids=["id-0"])))[0].duplicate
    popped = [await pop(engine, "orders", batch=10) for _ in range(3)]
    assert sorted(value for each in popped for value in values(each)) == list(range(20))
    await engine.transaction([Ack.of(each) for each in popped[0].messages], messages("receipts", "done"))
    for batch in popped[1:]:
        assert all(answer.accepted for answer in await ack(engine, batch))
    assert await connection.fetchval("select sum(pending + leased) from queen.ledger where queue = 'orders'") == 0


async def test_many_calls_at_once(engine):
    await asyncio.gather(*(engine.push(messages("orders", number, partition=f"p{number}")) for number in range(200)))
    popped = await asyncio.gather(*(pop(engine, "orders") for _ in range(200)))
    assert sorted(value for each in popped for value in values(each)) == list(range(200))


async def test_a_push_wakes_a_poll_of_another_engine(open_engine):
    one, other = await open_engine(), await open_engine()
    poll = asyncio.create_task(pop(other, "orders", wait_seconds=30))
    async with asyncio.timeout(20):
        await until("a poll is parked", lambda: any(kind.parked for kind in other.waiting._kinds.values()))
        await one.push(messages("orders", 1))
        assert values(await poll) == [1]


async def test_an_engine_does_not_wake_itself_through_postgresql(engine, connection, monkeypatch):
    heard, rung = asyncio.Event(), []
    monkeypatch.setattr(engine.waiting, "ring", lambda queue, _count: rung.append(queue))
    await connection.add_listener("queen_wake", lambda *_: heard.set())
    async with asyncio.timeout(10):
        await engine.push(messages("orders", 1))
        await heard.wait()
        await connection.execute("""select pg_notify('queen_wake', '{"another": 1}')""")  # heard after that
        await until("the notification is heard", lambda: "another" in rung)
    assert rung.count("orders") == 1


async def test_one_engine_leads_and_moves_the_inbox(open_engine, connection):
    engine = await open_engine(upkeep=True, tick_interval_seconds=0.05)
    async with asyncio.timeout(20):
        await engine.leader.leading.wait()
        poll = asyncio.create_task(pop(engine, "orders", wait_seconds=15))
        await connection.execute("select queen.push('orders', '1')")
        assert values(await poll) == [1]
    await until("a tick is taken", lambda: connection.fetchval("select count(*) from queen.ticks"))


async def test_a_database_is_migrated_through_the_pooler(blank_database, mode, connect_blank):
    with poolers(blank_database) as start:
        settings = {"session_dsn": blank_database} if mode == "transaction" else {}
        async with Engine(start(mode).dsn, Settings(**settings)) as engine:
            await engine.push(messages("orders", 1))
            assert values(await pop(engine, "orders")) == [1]
    assert await (await connect_blank()).fetchval("select count(*) from queen.segments") == 1


async def test_a_session_has_the_settings_of_queen(open_engine, mode):
    engine = await open_engine(statement_timeout_ms=12_345, lock_timeout_ms=2_345)
    names = "statement_timeout", "lock_timeout", "search_path", "application_name", "jit"
    shown = f"select array[{', '.join(f'current_setting({name!r})' for name in names)}]"
    ours = ["12345ms", "2345ms", "pg_catalog", "queen", "off"]
    session = await engine.database.connect()
    assert await session.fetchval(shown) == ours
    await session.close()
    if mode == "session":
        assert await engine.database.value(shown) == ours
    else:  # what is shared with other clients is left as it is
        assert await engine.database.value(shown) == ["0", "0", '"$user", public', "queen", "on"]


@pytest.mark.parametrize("clients", [0, 5])
async def test_the_mode_is_recognised_while_others_use_the_pooler(pooled, mode, connect_through, clients):
    others = [asyncio.create_task(_busy(await connect_through(pooled.dsn))) for _ in range(clients)]
    ways = [await examine(pooled.dsn) for _ in range(10)]
    for other in others:
        other.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    assert {way.shared for way in ways} == {mode == "transaction"}


async def _busy(connection):
    while True:
        await connection.execute("begin; select 1")
        await connection.execute("commit")
