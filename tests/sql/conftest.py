"""The queue in SQL on a clock of its own; after every test the books must balance."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.queue_in_sql import Clock, Queue


@pytest.fixture
def queue(connection: Any) -> Queue:
    """One client."""
    return Queue(connection, Clock())


@pytest.fixture
def another(connect: Callable[[], Awaitable[Any]], queue: Queue) -> Callable[[], Awaitable[Queue]]:
    """One more client, on a session of its own, with the same clock: `bob = await another()`."""

    async def open_one() -> Queue:
        return Queue(await connect(), queue.clock)

    return open_one


@pytest.fixture(autouse=True)
async def healthy(connect: Callable[[], Awaitable[Any]], queue: Queue) -> AsyncIterator[None]:
    """Whatever a test does, nothing contradicts anything else afterwards."""
    yield
    rows = await (await connect()).fetch("select * from queen.check_consistency($1)", queue.clock.now)
    assert [dict(row) for row in rows] == []
