"""Engines on broken ground; after every test the books must balance."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from queenmq.config import Settings
from queenmq.engine import Engine
from tests.books import assert_the_books_balance
from tests.fixtures.proxy import Proxy

HOUR_MS = 3_600_000

Opener = Callable[..., Awaitable[Engine]]


@pytest.fixture
async def open_engine() -> AsyncIterator[Opener]:
    """Open one more engine: `await open_engine(dsn, pool_size_max=4)`. All are closed at the end."""
    async with AsyncExitStack() as opened:

        async def open_one(dsn: str, **settings: Any) -> Engine:
            # What wakes a poll in these tests is what the test is about, never the fallback poll.
            usual = {"upkeep": False, "poll_interval_min_ms": HOUR_MS, "poll_interval_max_ms": HOUR_MS}
            return await opened.enter_async_context(Engine(dsn, Settings(**(usual | settings))))

        yield open_one


@pytest.fixture
async def engine(open_engine: Opener, proxy: Proxy) -> Engine:
    """An engine that reaches its database through the proxy, without upkeep."""
    return await open_engine(proxy.dsn)


@pytest.fixture
async def balanced(connect: Callable[[], Awaitable[Any]]) -> AsyncIterator[None]:
    """Whatever has happened, nothing contradicts anything else afterwards."""
    yield
    connection = await connect()
    await assert_the_books_balance(connection, await connection.fetchval("select clock_timestamp()"))
