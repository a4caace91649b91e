"""Maintenance: pushes wait in the spool, deliveries wait, on all servers of a database."""

import asyncio

from tests import waits
from tests.broker.shorthand import data, drained, maintenance, pop, push, refused, until
from tests.faults.log import stored


async def test_maintenance_is_shared_by_all_servers(serve, connection):
    one, two = await serve(), await serve(workers=2)
    async with one.client() as first, two.client() as second:
        assert (await maintenance(first, enabled=True))["enabled"]
        await until(second, enabled=True)
        await push(first, "orders", 1, partition="one", status=202)
        await push(second, "orders", 1, 2, partition="two", status=202)
        assert (await until(first, bufferedMessages=1))["bufferedBytes"] > 0
        await until(second, bufferedMessages=2)
        assert await stored(connection) == {}
        assert not (await maintenance(second, enabled=False))["enabled"]
        await drained(first)
        await drained(second)
    assert await stored(connection) == {("orders", "one"): [1], ("orders", "two"): [1, 2]}


async def _paused(http):
    return (await http.get("/system/maintenance/pop")).json()["enabled"]


async def test_paused_deliveries_look_like_an_empty_queue_and_polls_wait(serve):
    one, two = await serve(), await serve()
    async with one.client() as first, two.client() as second:
        assert await maintenance(first, enabled=True, what="/pop") == {"enabled": True}
        await waits.until("the other server pauses deliveries", lambda: _paused(second))
        poll = asyncio.create_task(pop(second, "orders", wait=True, timeout=60_000))
        await push(first, "orders", 1)
        await pop(first, "orders", status=204)
        await pop(second, "orders", status=204, wait=True, timeout=1)
        assert not poll.done()
        await maintenance(first, enabled=False, what="/pop")
        assert data(await poll) == [1]


async def test_a_long_poll_waits_while_its_queue_is_paused_and_another_server_resumes_it(serve):
    one, two = await serve(), await serve()
    async with one.client() as first, two.client() as second:
        await push(first, "orders", 1)
        paused = await first.post("/queues/orders/pause")
        assert paused.json() == {"queue": "orders", "consumerGroup": None, "paused": True, "changed": True}
        poll = asyncio.create_task(pop(second, "orders", wait=True, timeout=60_000))
        await push(first, "orders", 2)
        await pop(first, "orders", status=204, wait=True, timeout=1)
        assert not poll.done()
        assert (await first.post("/queues/orders/resume")).json()["changed"] is True
        assert data(await poll) == [1]


async def test_deliveries_to_one_group_are_paused_over_a_restart(serve):
    server = await serve()
    async with server.client() as http:
        await push(http, "orders", 1)
        for group in ("billing", "audit"):
            await pop(http, "orders", consumerGroup=group, autoAck=True)
        await push(http, "orders", 2)
        address = "/consumer-groups/billing/queues/orders"
        assert (await http.post(f"{address}/pause")).json()["consumerGroup"] == "billing"
    again = await serve()
    async with again.client() as http:
        await pop(http, "orders", status=204, consumerGroup="billing")
        assert data(await pop(http, "orders", consumerGroup="audit")) == [2]
        [reason, *_] = (await http.get("/why/orders", params={"group": "billing"})).json()
        assert reason["cause"] == "group_paused"
        await http.post(f"{address}/resume")
        assert data(await pop(http, "orders", consumerGroup="billing")) == [2]


async def test_a_bad_item_is_refused_before_it_is_spooled(http, queue):
    await maintenance(http, enabled=True)
    refused(await http.post("/push", json={"items": [{"queue": "", "payload": 1}]}), 400, "INVALID_NAME")
    items = [{"queue": queue, "payload": 1}, {"queue": "", "payload": 2}, {"queue": queue, "payload": 3}]
    answer = await http.post("/push", json={"items": items})
    assert answer.status_code == 202
    assert [each["status"] for each in answer.json()] == ["buffered", "failed", "buffered"]
    refused(await http.post("/system/maintenance", json={"enabled": "yes"}), 400, "INVALID_ARGUMENT")
    await maintenance(http, enabled=False)
    await drained(http)
    assert data(await pop(http, queue, batch=10)) == [1, 3]


async def test_a_message_that_was_spooled_twice_is_a_duplicate(http, queue):
    await push(http, queue, 1, transactionId="a")
    await maintenance(http, enabled=True)
    await push(http, queue, 1, transactionId="a", status=202)
    await push(http, queue, 2, transactionId="b", status=202)
    await push(http, queue, 2, transactionId="b", status=202)
    await maintenance(http, enabled=False)
    await drained(http)
    assert data(await pop(http, queue, batch=10)) == [1, 2]


async def test_a_queue_that_is_full_is_waited_for(http, queue):
    await http.post("/configure", json={"queue": queue, "options": {"maxSize": 2}})
    await maintenance(http, enabled=True)
    await push(http, queue, 1, 2, 3, 4, status=202)
    await push(http, f"{queue}-other", 5, status=202)
    await maintenance(http, enabled=False)
    await until(http, enabled=False, bufferedMessages=3)
    assert data(await pop(http, queue, batch=10, autoAck=True)) == [1, 2]
    await drained(http)
    assert data(await pop(http, queue, batch=10)) == [3, 4]
    assert data(await pop(http, f"{queue}-other")) == [5]
