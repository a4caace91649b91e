"""Many handlers of one consumer: one call pops for all of them, and each partition feeds one handler, in order."""

import asyncio
from collections import defaultdict

import asyncpg
import pytest

from queenmq import AsyncQueen, Stop
from tests.fixtures.proxy import proxy_to
from tests.waits import WAIT_SECONDS_MAX, until

SECONDS_MAX = 60

EXPIRIES = "select partition, expires_at from queen.active_leases where queue = $1"


@pytest.fixture
async def queen(address):
    async with asyncio.timeout(SECONDS_MAX), AsyncQueen(address) as queen:
        yield queen


async def push_to(queen, queue, partitions, *payloads):
    for partition in partitions:
        await queen.queue(queue).partition(partition).push_many(payloads)


@pytest.mark.parametrize("batch", [1, 3])
async def test_many_handlers_keep_the_order_of_every_partition(queen, queue, batch):
    await push_to(queen, queue, map(str, range(20)), *range(10))
    stop, seen, busy = Stop(), defaultdict(list), set()

    async def handler(message):
        assert message.partition not in busy
        busy.add(message.partition)
        await queen.ping()
        busy.remove(message.partition)
        seen[message.partition].append(message.payload)
        if sum(map(len, seen.values())) == 200:
            stop.set()

    await queen.queue(queue).batch(batch).consume(handler, concurrency=8, stop=stop)
    assert list(seen.values()) == [list(range(10))] * 20
    assert await queen.queue(queue).pop() == []


async def test_one_call_pops_for_all_idle_handlers(module_database, queue):
    async with asyncio.timeout(SECONDS_MAX), AsyncQueen(module_database) as queen:
        await push_to(queen, queue, map(str, range(16)), 1)
        stop, begun = Stop(), []
        pops = queen._transport.engine.popper.batcher

        async def handler(message):
            begun.append(pops.requests)
            if len(begun) == 16:
                stop.set()
            await stop.wait()

        before = pops.requests
        await queen.queue(queue).consume(handler, concurrency=16, stop=stop)
        assert begun == [before + 1] * 16


async def test_what_no_handler_begins_within_a_second_is_given_back(queen, queue):
    await push_to(queen, queue, "abc", 1)
    stop, elsewhere = Stop(), []

    async def handler(message):
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while len(elsewhere) < 2:
                elsewhere.extend(await queen.queue(queue).wait().pop())
        stop.set()

    await queen.queue(queue).batch(3).max_partitions(3).consume(handler, stop=stop)
    assert len({message.partition for message in elsewhere}) == 2
    assert [message.retry_count for message in elsewhere] == [0, 0]


async def test_all_leases_are_kept_while_handlers_work(queen, queue, module_database):
    await push_to(queen, queue, "abc", 1)
    stop, expiries = Stop(), defaultdict(set)
    session = await asyncpg.connect(module_database)

    async def renewed_twice():
        for row in await session.fetch(EXPIRIES, queue):
            expiries[row["partition"]].add(row["expires_at"])
        return len(expiries) == 3 and all(len(each) >= 3 for each in expiries.values())

    async def handler(message):
        if message.partition == "a":
            await until("every lease was renewed twice", renewed_twice)
            stop.set()
        await stop.wait()

    await queen.queue(queue).lease_seconds(1).consume(handler, concurrency=3, stop=stop)
    await session.close()
    assert await queen.queue(queue).pop() == []


async def test_a_lease_that_is_lost_interrupts_its_own_handler_alone(queen, queue):
    await push_to(queen, queue, "ab", 1)
    stop, calls, both = Stop(), [], asyncio.Barrier(2)

    async def handler(message):
        calls.append(message.partition)
        if len(calls) > 2:
            stop.set()
            return
        await both.wait()
        if message.partition == "b":
            await queen.groups.seek("g", queue, partition="a", to="beginning")  # ends the lease of the other one
            await stop.wait()
            return
        try:
            await stop.wait()
        finally:
            calls.append(f"{message.partition} is interrupted, {stop.is_set()}")

    await queen.queue(queue).group("g").lease_seconds(1).consume(handler, concurrency=2, stop=stop)
    assert sorted(calls[:2]) == ["a", "b"]
    assert calls[2:] == ["a is interrupted, False", "a"]
    assert await queen.queue(queue).group("g").pop() == []


async def test_acks_that_are_too_many_for_a_server_are_sent_apart(serve, queue):
    server = await serve(push_items_max=1)
    async with asyncio.timeout(SECONDS_MAX), AsyncQueen(server.url) as queen:
        for payload in range(4):
            await queen.queue(queue).push(payload)
        stop, told = Stop(), []

        async def handler(numbers: list[int]):
            stop.set()

        def on_ack(message, status, acked):
            told.append((message.payload, status, acked.success))

        await queen.queue(queue).batch(4).consume(handler, on_ack=on_ack, stop=stop)
        assert told == [(number, "completed", True) for number in range(4)]


async def test_nothing_is_lost_and_nothing_overtakes_when_connections_break(module_database, queue):
    async with asyncio.timeout(SECONDS_MAX), proxy_to(module_database) as proxy, AsyncQueen(proxy.dsn) as queen:
        await push_to(queen, queue, map(str, range(20)), *range(20))
        stop, seen, handled = Stop(), defaultdict(list), set()

        async def handler(message):
            seen[message.partition].append(message.payload)
            if (message.partition, message.payload) not in handled and len(handled) % 60 == 30:
                proxy.cut()
            handled.add((message.partition, message.payload))
            if len(handled) == 400:
                stop.set()

        await queen.queue(queue).batch(3).lease_seconds(2).consume(handler, concurrency=8, stop=stop)
    assert [list(dict.fromkeys(each)) for each in seen.values()] == [list(range(20))] * 20
