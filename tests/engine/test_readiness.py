"""Readiness knows whether some process does the upkeep."""

import asyncio

import pytest

from queenmq.engine import readiness as engine_readiness
from queenmq.engine.availability import Presence
from queenmq.engine.readiness import LEADERLESS_SECONDS_MAX, Readiness

LEAD = "select pg_advisory_lock(20814, 0)"


@pytest.fixture
def clock(monkeypatch):
    """The seconds that readiness sees: `clock.append(30)` moves them."""
    seconds = [0.0]
    monkeypatch.setattr(engine_readiness, "monotonic", lambda: sum(seconds))
    return seconds


async def test_a_leader_that_does_nothing_any_more_counts_as_none(engine, connect, clock, monkeypatch):
    presence = Presence(engine.database, engine.waiting)
    watch = asyncio.create_task(presence.watch())
    readiness = Readiness(engine.database, presence)

    async def parts_later():
        clock.append(LEADERLESS_SECONDS_MAX + 1)
        await readiness.look()
        return [each.part for each in await readiness.obstacles()]

    assert await parts_later() == ["upkeep"]

    leader = await connect()
    await leader.execute(LEAD)
    assert await parts_later() == []

    monkeypatch.setattr(engine_readiness, "LEADER_IDLE_SECONDS_MAX", 0.0)  # it was idle for longer than this
    assert await parts_later() == ["upkeep"]
    watch.cancel()


async def test_a_change_of_leaders_does_not_count(engine, connect, clock):
    presence = Presence(engine.database, engine.waiting)
    watch = asyncio.create_task(presence.watch())
    readiness = Readiness(engine.database, presence)
    leader = await connect()
    await leader.execute(LEAD)
    await readiness.look()
    await leader.close()
    clock.append(LEADERLESS_SECONDS_MAX - 1)
    await readiness.look()
    assert await readiness.obstacles() == []
    watch.cancel()
