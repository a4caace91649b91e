"""A stage: named sessions, and one that watches them."""

import pytest

from tests.books import assert_the_books_balance
from tests.interleavings.schedule import Stage
from tests.queue_in_sql import NOON


@pytest.fixture
async def stage(connect):
    sessions = {name: await connect() for name in ("alice", "bert", "carl")}
    for session in sessions.values():
        await session.execute("set deadlock_timeout = '5ms'")
    stage = Stage(sessions, await connect())
    yield stage
    await assert_the_books_balance(stage.observer, NOON)
