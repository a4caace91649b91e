"""Engines on a database of their own; after every test the books must balance.

No test sleeps. Should a test wait for something that never comes, the safety net ends it.
"""

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from queenmq.config import Settings
from queenmq.engine import Engine
from tests.books import assert_the_books_balance
from tests.fixtures.clusters import run_apart

HERE = Path(__file__).parent
TEST_SECONDS_MAX = 60

Opener = Callable[..., Awaitable[Engine]]


def pytest_collection_modifyitems(items: Iterable[Any]) -> None:
    for item in items:
        if HERE in item.path.parents and inspect.iscoroutinefunction(getattr(item, "obj", None)):
            item.obj = _caught(item.obj)


def _caught(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    @functools.wraps(test)
    async def run(*arguments: Any, **named: Any) -> None:
        async with asyncio.timeout(TEST_SECONDS_MAX):
            await test(*arguments, **named)

    return run


@pytest.fixture
async def open_engine(database: str) -> AsyncIterator[Opener]:
    """Open one more engine on the test's database, without upkeep: `await open_engine(pop_calls_max=1)`."""
    async with AsyncExitStack() as opened:

        async def open_one(dsn: str = database, **settings: Any) -> Engine:
            return await opened.enter_async_context(Engine(dsn, Settings(**({"upkeep": False} | settings))))

        yield open_one


@pytest.fixture
async def engine(open_engine: Opener) -> Engine:
    """An engine on the test's database, without upkeep."""
    return await open_engine()


@pytest.fixture(autouse=True)
def balanced(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test does, nothing contradicts anything else afterwards."""
    if "database" not in request.fixturenames:
        yield
        return
    dsn = request.getfixturevalue("database")
    yield
    run_apart(_check(dsn))


async def _check(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await assert_the_books_balance(connection, await connection.fetchval("select clock_timestamp()"))
    finally:
        await connection.close()
