"""Workers, servers and PostgreSQL are killed under load, for half a minute; then diaries and log must agree.

    QUEEN_TEST_CHAOS_SECONDS=300 QUEEN_TEST_CHAOS_SEED=7 make test ARGS='tests/broker/test_server_chaos.py -s'

Two servers with two workers each share a database; clients push to one of them and consume from both. What was
answered 201 or 202 must be delivered to both groups, in order, and nothing that was acknowledged again.
"""

import asyncio
import contextlib
import os
import random
import signal
from collections import Counter
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from time import monotonic

import httpx
import pytest

from queenmq.engine.postgres.embedded import EmbeddedPostgres
from tests.faults import outage
from tests.faults.chaos.diary import Diary
from tests.faults.chaos.story import DRAIN, SECONDS, beginning_of_the_story, end_of_the_story, seed, summary
from tests.faults.chaos.verdict import complaints
from tests.faults.chaos.visitor import Place, Remote, Visitor
from tests.faults.chaos.worker import GROUPS
from tests.fixtures.servers import Served
from tests.waits import WAIT_SECONDS_MAX

SERVERS = 2
VISITORS = 8
END_SECONDS_MAX = 60


class House:
    """Two servers and their PostgreSQL, any of which may be struck."""

    def __init__(self, dsn: str, postgres: EmbeddedPostgres, directory: Path, dice: random.Random) -> None:
        self.struck: Counter[str] = Counter()
        self._dsn = dsn
        self._postgres = postgres
        self._directory = directory
        self._dice = dice
        self._numbers = count()
        self._plan: list[str] = []
        self._servers: list[Served] = []
        self.places: list[Place] = []

    async def open(self) -> None:
        for number in range(SERVERS):
            self._servers.append(await self._start(number))
            self.places.append(Place(self._servers[number].url))

    async def close(self) -> None:
        """Stop in peace, when the spools are empty: until then a push has to queue up there."""
        for place, server in zip(self.places, self._servers, strict=True):
            probe = {"items": [{"queue": "probe", "payload": None}]}
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                while (await place.http.post("/push", json=probe)).status_code != 201:
                    pass
            await place.http.aclose()
            await server.stop()

    async def burn(self) -> None:
        for server in self._servers:
            await asyncio.to_thread(server.kill)

    async def strike(self, visits: list[asyncio.Task[None]]) -> None:
        """Kill one thing, and have it back after a while."""
        if not self._plan:
            self._plan = self._dice.sample(["worker", "worker", "server", "postgres"], 4)
        target = self._plan.pop()
        strikes = {"worker": self._strike_worker, "server": self._strike_server, "postgres": self._strike_postgres}
        await strikes[target](visits)
        self.struck[target] += 1
        await self.wait(visits, 0.5, 1.5)

    async def wait(self, visits: list[asyncio.Task[None]], least: float, most: float) -> None:
        """Let some time pass; no visit ends by itself."""
        done, _ = await asyncio.wait(visits, timeout=self._dice.uniform(least, most), return_when="FIRST_COMPLETED")
        for visit in done:
            visit.result()
            pytest.fail("a visitor has left")

    async def _strike_worker(self, _visits: list[asyncio.Task[None]]) -> None:
        workers = self._dice.choice(self._servers).workers()
        if workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._dice.choice(workers), signal.SIGKILL)

    async def _strike_server(self, visits: list[asyncio.Task[None]]) -> None:
        number = self._dice.randrange(SERVERS)
        self.places[number].there.clear()
        await asyncio.to_thread(self._servers[number].kill)
        await self.wait(visits, 0, 1)
        self._servers[number] = await self._start(number)
        self.places[number].there.set()

    async def _strike_postgres(self, visits: list[asyncio.Task[None]]) -> None:
        await outage.stop(self._postgres, "kill")
        await self.wait(visits, 0, 2)
        await outage.start(self._postgres)

    async def _start(self, number: int) -> Served:
        """A server with the port and the spool of the one before it."""
        port = httpx.URL(self._servers[number].url).port if number < len(self._servers) else 0
        settings = {"workers": 2, "port": port, "data_dir": self._directory / f"data{number}"}
        return await asyncio.to_thread(Served, self._directory / f"server{next(self._numbers)}", self._dsn, settings)


async def live_and_let_die(house: House, directory: Path, dice: random.Random) -> None:
    """Visitors come and strikes fall, for a while; in the end all visitors leave satisfied."""
    visitors = []
    for number in range(VISITORS):
        own = random.Random(dice.getrandbits(32))
        remote = Remote(house.places[number % SERVERS], house.places, own)
        visitors.append(Visitor(f"v{number}", remote, Diary(directory / f"v{number}", f"v{number}"), own))
    visits = [asyncio.create_task(visitor.run()) for visitor in visitors]
    end = monotonic() + SECONDS
    try:
        while monotonic() < end:
            await house.strike(visits)
        for visitor in visitors:
            visitor.stopping = True
        async with asyncio.timeout(END_SECONDS_MAX):
            await asyncio.gather(*visits)
    finally:
        for visit in visits:
            visit.cancel()
        await asyncio.gather(*visits, return_exceptions=True)


async def test_servers_that_are_killed_with_their_postgres_lose_nothing_repeat_nothing_and_break_no_order(
    durable_postgres, tmp_path
):
    dice = random.Random(seed())
    dsn = await beginning_of_the_story(durable_postgres)
    diaries = tmp_path / "diaries"
    diaries.mkdir()
    house = House(dsn, durable_postgres, tmp_path, dice)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(house.burn)
        await house.open()
        await live_and_let_die(house, diaries, dice)
        async with asyncio.timeout(END_SECONDS_MAX):
            await house.close()
    history = await end_of_the_story(dsn, diaries)
    print(f"{summary(history)}, struck: {dict(house.struck)}")  # noqa: T201
    assert complaints(history, GROUPS, DRAIN) == []
    assert house.struck.keys() == {"worker", "server", "postgres"}
    for what in ("push", "ack", "transact", "renew"):
        assert any(call.answer is not None for call in history.of(what)), f"no {what} was answered"
