"""Queen behind a real PgBouncer, in both modes that it can live with."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import asyncpg
import pytest

from queenmq.config import Settings
from queenmq.engine import Engine
from tests.fixtures.pgbouncer import PgBouncer, Starter

HOUR_MS = 3_600_000

Opener = Callable[..., Awaitable[Engine]]


class Pooled(NamedTuple):
    """A way through a pooler, and the settings that go with it."""

    pooler: PgBouncer
    dsn: str
    settings: dict[str, Any]

    @classmethod
    def of(cls, pooler: PgBouncer, mode: str, database: str) -> "Pooled":
        return cls(pooler, pooler.dsn, {"session_dsn": database} if mode == "transaction" else {})


@pytest.fixture(params=["session", "transaction"])
def mode(request: pytest.FixtureRequest) -> str:
    """How the pooler pools."""
    return str(request.param)


@pytest.fixture
def pooled(start_pooler: Starter, mode: str, database: str) -> Pooled:
    """A pooler in front of the test's database."""
    return Pooled.of(start_pooler(mode), mode, database)


@pytest.fixture
async def open_engine(pooled: Pooled) -> AsyncIterator[Opener]:
    """Open one more engine behind the pooler: `await open_engine(upkeep=True)`. All are closed at the end."""
    async with AsyncExitStack() as opened:

        async def open_one(dsn: str = pooled.dsn, **settings: Any) -> Engine:
            # What wakes a poll in these tests is what the test is about, never the fallback poll.
            usual = {"upkeep": False, "poll_interval_min_ms": HOUR_MS, "poll_interval_max_ms": HOUR_MS}
            chosen = Settings(**(usual | pooled.settings | settings))
            return await opened.enter_async_context(Engine(dsn, chosen))

        yield open_one


@pytest.fixture
async def engine(open_engine: Opener) -> Engine:
    """An engine behind the pooler."""
    return await open_engine()


@pytest.fixture
async def connect_through() -> AsyncIterator[Callable[[str], Awaitable[Any]]]:
    """Connect as another client of a pooler would; all are gone at the end."""
    opened: list[Any] = []

    async def connect(dsn: str) -> Any:
        opened.append(await asyncpg.connect(dsn, statement_cache_size=0))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.terminate()
