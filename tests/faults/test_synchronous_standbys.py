"""With a synchronous standby, what was answered is on the standby, whatever ends the wait for it."""

import asyncio
import json

import asyncpg
import pytest

from queenmq.engine.postgres import database as engine_database
from queenmq.errors import DatabaseUnavailable
from queenmq.model import Ack, Outgoing, PopRequest
from tests.broker.shorthand import drained, push
from tests.fixtures.proxy import proxy_to

WAITING = "select count(*) from pg_stat_activity where wait_event = 'SyncRep' and query like '%{}%'"
BLOCKED = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%{}%'"
END_WAITS = "select count({}(pid)) from pg_stat_activity where wait_event = 'SyncRep' and query like '%{}%'"
ORDERS = PopRequest(queue="orders", batch=10)
SECONDS_MAX = 60

CONFIRMATIONS = {"pg_cancel_backend": "pg_logical_emit_message", "pg_terminate_backend": "abandon_call"}  # then wait

either_end = pytest.mark.parametrize("end", ["pg_cancel_backend", "pg_terminate_backend"])


@pytest.fixture
async def standby(replication):
    """A synchronous standby of a primary with the database queen."""
    await replication.primary.execute("create database queen")
    return await replication.standby(synchronous=True)


@pytest.fixture
async def engine(open_engine, replication, standby):
    return await open_engine(replication.primary.dsn("queen"))


def message(value, id=None):
    return Outgoing("orders", json.dumps(value).encode(), "ann", id)


async def waits(primary, text, count=1):
    """Return when so many commits of such statements wait for the standby."""
    await primary.until(f"select ({WAITING.format(text)}) >= {count}", True)


async def end_wait(primary, end, text):
    """End the wait of a statement that has committed on the primary only."""
    await waits(primary, text)
    assert await primary.value(END_WAITS.format(end, text)) == 1


async def stored(node):
    rows = await node.value("select string_agg(convert_from(payloads, 'UTF8'), '') from queen.segments", "queen")
    return rows or ""


async def unanswered_until_the_standby_is_back(call, end, text, primary, standby):
    """Make a call while the standby stands still, and end its wait; answers what the call answers afterwards."""
    with standby.stopped():
        task = asyncio.create_task(call)
        await end_wait(primary, end, text)
        await waits(primary, CONFIRMATIONS[end])
        assert not task.done()
    async with asyncio.timeout(SECONDS_MAX):
        return await task


@either_end
async def test_a_push_is_answered_when_the_standby_has_it(engine, replication, standby, end):
    primary = replication.primary
    await engine.push([message(0)])
    [pushed] = await unanswered_until_the_standby_is_back(
        engine.push([message(1)]), end, "push_segments", primary, standby
    )
    assert (pushed.offset, pushed.duplicate) == (1, False)
    assert "[1]" in await stored(primary)
    await primary.stop("immediate")
    await standby.promote()
    assert "[1]" in await stored(standby)


@pytest.mark.parametrize("owner", ["role current_user", "database queen"])
async def test_a_role_that_hides_warnings_does_not_make_a_push_answered_early(open_engine, replication, standby, owner):
    primary = replication.primary
    await primary.execute(f"alter {owner} set client_min_messages = 'error'", "queen")
    engine = await open_engine(primary.dsn("queen"))
    await engine.push([message(0)])
    [pushed] = await unanswered_until_the_standby_is_back(
        engine.push([message(1)]), "pg_cancel_backend", "push_segments", primary, standby
    )
    assert (pushed.offset, pushed.duplicate) == (1, False)
    assert "[1]" in await stored(primary)


@either_end
async def test_an_ack_is_answered_when_the_standby_has_it(engine, replication, standby, end):
    await engine.push([message(1)])
    popped = await engine.pop(ORDERS)
    [acked] = await unanswered_until_the_standby_is_back(
        engine.ack([Ack.of(popped.messages[0])]), end, "ack_batch", replication.primary, standby
    )
    assert acked.accepted
    await replication.primary.stop("immediate")
    await standby.promote()
    assert await standby.value("select completed from queen.ledger", "queen") == 1


@either_end
async def test_a_failed_message_is_answered_and_counted_once_when_the_standby_has_it(engine, replication, standby, end):
    await engine.push([message(1)])
    popped = await engine.pop(ORDERS)
    [acked] = await unanswered_until_the_standby_is_back(
        engine.ack([Ack.of(popped.messages[0], status="failed")]), end, "ack_once", replication.primary, standby
    )
    assert acked.accepted
    await replication.primary.stop("immediate")
    await standby.promote()
    assert await standby.value("select sum(failures) from queen.stuck_partitions", "queen") == 1


@either_end
async def test_a_transaction_is_answered_when_the_standby_has_it(engine, replication, standby, end):
    await engine.push([message(1)])
    popped = await engine.pop(ORDERS)
    [pushed] = await unanswered_until_the_standby_is_back(
        engine.transaction([Ack.of(popped.messages[0])], [message(2)]), end, "transact", replication.primary, standby
    )
    assert pushed.offset == 1
    await replication.primary.stop("immediate")
    await standby.promote()
    assert "[2]" in await stored(standby)
    assert await standby.value("select completed from queen.ledger", "queen") == 1


@either_end
async def test_a_duplicate_is_answered_when_the_standby_has_the_original(
    engine, open_engine, replication, standby, end
):
    primary = replication.primary
    await engine.push([message(0, "zero")])
    other = await open_engine(primary.dsn("queen"))
    with standby.stopped():
        first = asyncio.create_task(engine.push([message(1, "one")]))
        await end_wait(primary, end, "push_segments")
        await primary.until("select count(*) from queen.segments", 2, "queen")
        second = asyncio.create_task(other.push([message(1, "one")]))
        await waits(primary, "partition_lookup where partition_id = any")  # where it asks for the original's partition
        assert not second.done()
        assert not first.done()
    async with asyncio.timeout(SECONDS_MAX):
        [[pushed], [duplicate]] = await asyncio.gather(first, second)
    assert (pushed.offset, pushed.duplicate) == (1, False)
    assert (duplicate.offset, duplicate.duplicate) == (1, True)


@either_end
async def test_without_the_standby_the_outcome_is_unknown(open_engine, replication, standby, end):
    primary = replication.primary
    engine = await open_engine(primary.dsn("queen"), statement_timeout_ms=1000, retry_attempts_max=0)
    await engine.push([message(0)])
    await replication.detach(standby)
    task = asyncio.create_task(engine.push([message(1)]))
    await end_wait(primary, end, "push_segments")
    with pytest.raises(DatabaseUnavailable):
        async with asyncio.timeout(SECONDS_MAX):
            await task
    assert "[1]" in await stored(primary)
    await primary.stop("immediate")
    await standby.promote()
    assert "[1]" not in await stored(standby)


async def test_calls_that_take_too_long_leave_no_waiting_sessions_behind(
    open_engine, replication, standby, monkeypatch
):
    monkeypatch.setattr(engine_database, "GRACE_SECONDS", 0.1)
    primary = replication.primary
    engine = await open_engine(primary.dsn("queen"), statement_timeout_ms=1000, retry_attempts_max=0)
    await engine.push([message(0)])
    popped = await engine.pop(ORDERS)
    await replication.detach(standby)
    for _ in range(3):
        with pytest.raises(DatabaseUnavailable):
            await engine.renew(popped.leases[0].id, 60)
    await primary.until(WAITING.format(""), 0)


async def test_a_spool_file_is_kept_until_the_standby_has_its_messages(serve, replication, standby):
    primary = replication.primary
    async with proxy_to(primary.dsn("queen")) as proxy:
        server = await serve(dsn=proxy.dsn)
        async with server.client() as http:
            await push(http, "orders", 0)
            proxy.refuse()
            proxy.cut()
            await push(http, "orders", 1, 2, status=202)
            blocker = await asyncpg.connect(primary.dsn("queen"))
            await blocker.execute("begin; lock table queen.spool_positions in exclusive mode")
            proxy.accept()
            await primary.until(BLOCKED.format("push_spooled"), 1)
            with standby.stopped():
                await blocker.execute("rollback")
                await end_wait(primary, "pg_cancel_backend", "push_spooled")
                await primary.until("select position from queen.spool_positions", 2, "queen")
                async with asyncio.timeout(SECONDS_MAX):
                    while "the spool has to wait" not in server.log:
                        await http.get(f"{server.url}/health")
                await waits(primary, "from queen.spool_positions where")  # it asks again, before it deletes the file
                assert (await http.get("/system/maintenance")).json()["bufferedBytes"] > 0
            await drained(http)
            await blocker.close()
        assert await stored(primary) == "[0][1,2]"
