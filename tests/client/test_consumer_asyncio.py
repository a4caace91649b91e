"""Consume with coroutine functions: leases that are kept and lost, stopping, trouble on the way."""

import asyncio
import contextvars
import functools
import threading

import asyncpg
import pytest

from queenmq import AsyncMessage, AsyncQueen, Queen, Stop
from queenmq.errors import Closed, InvalidArgument
from tests.fixtures.proxy import proxy_to
from tests.waits import WAIT_SECONDS_MAX

SECONDS_MAX = 60

EXPIRY = "select expires_at from queen.active_leases where queue = $1"


@pytest.fixture
async def queen(address):
    async with asyncio.timeout(SECONDS_MAX), AsyncQueen(address) as queen:
        yield queen


@pytest.fixture
async def session(module_database):
    session = await asyncpg.connect(module_database)
    yield session
    await session.close()


async def test_a_lease_is_kept_while_a_handler_works(queen, queue, session):
    await queen.queue(queue).push(1)
    stop = Stop()
    expiries = set()

    async def handler(message):
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while len(expiries) < 3:  # that is, until it was renewed twice
                expiries.add(await session.fetchval(EXPIRY, queue))
        stop.set()

    await queen.queue(queue).lease_seconds(1).consume(handler, stop=stop)
    assert await queen.queue(queue).pop() == []


async def test_a_handler_whose_lease_is_gone_is_interrupted(queen, queue):
    await queen.queue(queue).push_many([1, 2])
    stop = Stop()
    calls = []

    async def handler(message):
        calls.append(message.payload)
        if len(calls) == 1:
            await queen.groups.seek("g", queue, to="beginning")  # ends the lease
            try:
                await asyncio.Event().wait()
            finally:
                calls.append("interrupted")
        if message.payload == 2:
            stop.set()

    await queen.queue(queue).group("g").batch(2).lease_seconds(1).consume(handler, stop=stop)
    assert calls == [1, "interrupted", 1, 2]


async def test_a_handler_that_does_not_end_in_time_is_interrupted_and_its_message_given_back(queen, queue):
    await queen.queue(queue).push(1)
    stop = Stop()

    async def handler(message):
        stop.set()
        await asyncio.Event().wait()

    await queen.queue(queue).consume(handler, stop=stop, grace_seconds=0.01)
    [message] = await queen.queue(queue).pop()
    assert message.retry_count == 0


async def test_a_handler_that_was_begun_is_finished(queen, queue):
    await queen.queue(queue).push(1)
    stop, finished = Stop(), []

    async def handler(message):
        stop.set()
        await queen.ping()
        finished.append(message.payload)

    await queen.queue(queue).consume(handler, stop=stop)
    assert finished == [1]
    assert await queen.queue(queue).pop() == []


async def test_called_off_it_gives_back_what_it_has(queen, queue):
    await queen.queue(queue).push(1)
    begun = asyncio.Event()

    async def handler(message):
        begun.set()
        await asyncio.Event().wait()

    consuming = asyncio.create_task(queen.queue(queue).consume(handler))
    await begun.wait()
    consuming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await consuming
    [message] = await queen.queue(queue).pop()
    assert (message.payload, message.retry_count) == (1, 0)


async def test_plain_functions_run_in_threads_with_the_context_of_the_caller(queen, queue):
    await queen.queue(queue).push(1)
    stop, seen = Stop(), []
    tenant = contextvars.ContextVar("tenant", default="nobody")

    def handler(message: AsyncMessage):
        seen.append((tenant.get(), threading.current_thread() is threading.main_thread()))
        stop.set()

    tenant.set("ann")
    await queen.queue(queue).consume(handler, stop=stop)
    assert seen == [("ann", False)]


class Billing:
    def __init__(self):
        self.stop, self.seen = Stop(), []

    async def __call__(self, amount: int, message: AsyncMessage):
        self.seen.append((amount, message.payload))
        self.stop.set()

    async def bill(self, rate: int, amount: int):
        self.seen.append((rate, amount))
        self.stop.set()


async def test_objects_and_partial_functions_are_handlers_too(queen, queue):
    await queen.queue(queue).push_many([7, 8])
    billing = Billing()
    await queen.queue(queue).consume(billing, stop=billing.stop)
    other = Billing()
    await queen.queue(queue).consume(functools.partial(other.bill, 3), stop=other.stop)
    assert (billing.seen, other.seen) == ([(7, 7)], [(3, 8)])


async def test_the_blocking_client_refuses_coroutine_functions(address, queue):
    async def handler(message): ...

    with Queen(address) as queen, pytest.raises(InvalidArgument, match="AsyncQueen"):
        queen.queue(queue).consume(handler)


async def test_it_ends_with_its_client(address, queue):
    async with asyncio.timeout(SECONDS_MAX):
        queen = AsyncQueen(address)
        begun = asyncio.Event()

        async def handler(message):
            begun.set()

        consuming = asyncio.create_task(queen.queue(queue).consume(handler, concurrency=2))
        await queen.queue(queue).push(1)
        await begun.wait()
        await queen.close()
        with pytest.raises(Closed):
            await consuming


async def test_it_goes_on_when_postgresql_is_back(module_database, queue):
    async with asyncio.timeout(SECONDS_MAX), proxy_to(module_database) as proxy, AsyncQueen(proxy.dsn) as queen:
        stop, first, seen = Stop(), asyncio.Event(), []

        async def handler(message):
            seen.append(message.payload)
            first.set()
            if message.payload == 2:
                stop.set()

        consuming = asyncio.create_task(queen.queue(queue).consume(handler, stop=stop))
        await queen.queue(queue).push(1)
        await first.wait()
        proxy.refuse()
        proxy.cut()
        async with AsyncQueen(module_database) as around:
            await around.queue(queue).push(2)
        proxy.accept()
        await consuming
        assert seen[-1] == 2
