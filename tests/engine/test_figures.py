"""Figures of queues and groups: looked up once in a while, and kept while PostgreSQL is away."""

from queenmq.engine import Engine, figures
from queenmq.engine.figures import QueueDepth
from tests.engine.shorthand import messages, pop


async def test_queues_and_groups_are_told_with_the_fullest_first(engine):
    await engine.push([*messages("small", 1), *messages("large", 1, 2, 3)])
    await pop(engine, "large", group="g")
    depths, lags, dead_letters, leases = await engine.figures.read()
    assert depths == [QueueDepth("large", 3, 3), QueueDepth("small", 1, 1)]
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
    assert depths == [QueueDepth("orders", 2, 2)]


async def test_figures_outlive_the_way_to_postgres(proxy, monkeypatch):
    async with Engine(proxy.dsn) as engine:
        await engine.push(messages("orders", 1))
        before = await engine.figures.read()
        monkeypatch.setattr(figures, "FRESH_SECONDS", 0)
        proxy.refuse()
        proxy.cut()
        assert await engine.figures.read() == before
        proxy.accept()
