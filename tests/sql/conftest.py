"""The queue in SQL on a clock of its own; after every test the books must balance."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.queue_in_sql import Clock, Queue
from tests.waits import until


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


@pytest.fixture
def until_blocked(queue: Queue) -> Callable[[Queue], Awaitable[None]]:
    """Wait until PostgreSQL says that a client's session waits for another: `await until_blocked(bob)`."""

    async def wait(client: Queue) -> None:
        pid = client.connection.get_server_pid()
        blocked = "select cardinality(pg_blocking_pids($1)) > 0"
        await until("the session waits for another", lambda: queue.connection.fetchval(blocked, pid))

    return wait
