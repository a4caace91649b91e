"""Figures of queues and groups: looked up once in a while, and kept while PostgreSQL is away."""

import contextlib

from queenmq.config import Settings
from queenmq.engine import Engine, figures
from queenmq.engine.figures import QueueDepth
from queenmq.errors import QueenError
from tests.engine.shorthand import messages, pop
from tests.waits import until


async def test_queues_and_groups_are_told_with_the_fullest_first(engine):
    await engine.push([*messages("small", 1), *messages("large", 1, 2, 3)])
    await pop(engine, "large", group="g")
    depths, lags, dead_letters, leases, *_ = await engine.figures.read()
    assert depths == [QueueDepth("large", 3, 3, None), QueueDepth("small", 1, 1, None)]
    assert [(lag.queue, lag.group, lag.messages) for lag in lags] == [("large", "g", 3)]
    assert lags[0].seconds > 0
    assert (dead_letters, leases) == ([], 1)


async def test_who_asks_often_does_not_ask_the_database(engine, monkeypatch):
    await engine.push(messages("orders", 1))
    first = await engine.figures.read()
    await engine.push(messages("orders", 2))
    assert await engine.figures.read() == first
    monkeypatch.setattr(figures, "FRESH_SECONDS", 0)
    depths, *_ = await engine.figures.read()
    assert depths == [QueueDepth("orders", 2, 2, None)]


async def test_figures_outlive_the_way_to_postgres(proxy, monkeypatch):
    async with Engine(proxy.dsn) as engine:
        await engine.push(messages("orders", 1))
        before = await engine.figures.read()
        monkeypatch.setattr(figures, "FRESH_SECONDS", 0)
        proxy.refuse()
        proxy.cut()
        assert await engine.figures.read() == before
        proxy.accept()


async def test_standbys_and_a_failover_are_told(replication, monkeypatch):
    monkeypatch.setattr(figures, "FRESH_SECONDS", 0)
    standby = await replication.standby()
    dsn = replication.dsn("postgres", replication.primary, standby)
    async with Engine(dsn, Settings.load({}, upkeep="false")) as engine:
        await replication.caught_up(standby)
        before = await engine.figures.read()
        assert [each.name for each in before.standbys] == [standby.name]
        with standby.stopped():
            await engine.push(messages("orders", 1))
            (behind,) = (await engine.figures.read()).standbys
            assert behind.missing_bytes > 0
        await replication.caught_up(standby)
        await replication.primary.stop("kill")
        await standby.promote()
        await until("the new primary's run is told", lambda: _runs_anew(engine, before.running_since))
        assert (await engine.figures.read()).standbys == []


async def _runs_anew(engine, since):
    with contextlib.suppress(QueenError):  # until the standby takes writes
        await engine.push(messages("orders", 2))
    return (await engine.figures.read()).running_since not in (None, since)
