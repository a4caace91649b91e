"""A producer whose way to PostgreSQL breaks: nothing is lost, nothing is stored twice, the order holds."""

import asyncio

import pytest

from queenmq import AsyncQueen
from queenmq.errors import Closed
from tests.client.relay import relay
from tests.fixtures.proxy import proxy_to

SECONDS_MAX = 60


async def test_what_was_sent_when_the_answer_was_lost_is_stored_once(module_database, queue):
    async with asyncio.timeout(SECONDS_MAX), proxy_to(module_database) as proxy, AsyncQueen(proxy.dsn) as queen:
        await queen.queue(queue).push("first")
        async with queen.producer(batch_messages=10) as producer:
            faults = [proxy.cut_after_request("push_"), proxy.cut_before_request("push_")]
            for n in range(100):
                await producer.push(queue, n)
            for fault in faults:
                await fault.happened()
        messages = await queen.queue(queue).batch(1_000).pop()
    assert [message.payload for message in messages] == ["first", *range(100)]


async def test_it_waits_for_postgresql_to_come_back(module_database, queue):
    async with asyncio.timeout(SECONDS_MAX), proxy_to(module_database) as proxy, AsyncQueen(proxy.dsn) as queen:
        await queen.queue(queue).push("first")
        async with queen.producer() as producer:
            proxy.refuse()
            proxy.cut()
            receipt = await producer.push(queue, 1)
            proxy.accept()
            assert (await receipt.delivered()).status == "queued"


async def test_it_waits_for_a_server_that_fails(server, queue):
    async with asyncio.timeout(SECONDS_MAX), relay(server.url) as between, AsyncQueen(between.url) as queen:
        between.manner, between.losses_max = b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n", 2
        async with queen.producer(linger_seconds=SECONDS_MAX) as producer:
            for n in range(8):
                await producer.push(queue, n)
        assert between.seen == 3
        assert [each.payload for each in await queen.queue(queue).batch(9).pop()] == list(range(8))


async def test_a_client_that_is_closed_is_not_waited_for(address, queue):
    async with asyncio.timeout(SECONDS_MAX):
        queen = AsyncQueen(address)
        async with queen.producer() as producer:
            await (await producer.push(queue, 1)).delivered()
            await queen.close()
            receipt = await producer.push(queue, 2)
        with pytest.raises(Closed):
            await receipt.delivered()


async def test_called_off_it_tells_what_it_did_not_deliver(module_database, queue):
    reports = []
    async with AsyncQueen(module_database) as queen:
        await queen.admin.configure(queue, max_queue_size=1)
        producer = await queen.producer(on_delivery=reports.append).__aenter__()
        stored = await producer.push(queue, 1)
        kept = await producer.push(queue, 2)
        await stored.delivered()
        leaving = asyncio.create_task(producer.__aexit__(None, None, None))
        await asyncio.wait([leaving], timeout=0.1)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        with pytest.raises(Closed):
            await kept.delivered()
    assert [type(report.outcome).__name__ for report in reports] == ["Pushed", "Closed"]
