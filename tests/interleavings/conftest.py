"""A stage: named sessions, and one that watches them."""

import pytest

from tests.books import assert_the_books_balance
from tests.interleavings.schedule import Stage
from tests.queue_in_sql import NOON, Clock, Queue


@pytest.fixture
async def stage(connect):
    sessions = {name: await connect() for name in ("alice", "bert", "carl")}
    for session in sessions.values():
        await session.execute("set deadlock_timeout = '5ms'")
    stage = Stage(sessions, await connect())
    yield stage
    await assert_the_books_balance(stage.observer, NOON)


@pytest.fixture(params=["alone", "in a crowd"])
async def crowd(request, connect):
    """Perhaps a thousand partitions of another queue: rows are then looked for one by one."""
    if request.param == "in a crowd":
        bystander = Queue(await connect(), Clock())
        names = [f"p{number}" for number in range(1_000)]
        await bystander.call("ensure_partitions", ["crowd"] * len(names), names)
        assert await bystander.pop("bystanders", "crowd") == []
        for index in ("partition_lookup_partition", "partition_consumers_place"):
            [few] = await bystander.call("few_versions", f"queen.{index}", 8)
            assert not few["few_versions"]
