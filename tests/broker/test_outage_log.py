"""What a server writes into its log while PostgreSQL is away: lines with a cause, never a traceback."""

import asyncio
import contextlib
import re

import httpx
import pytest

from tests.broker.shorthand import push
from tests.faults import outage

LINE = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z (INFO|WARNING|ERROR) +queenmq\.")


async def until_answered(http, path, status):
    async with asyncio.timeout(30):
        while (await http.get(path)).status_code != status:
            pass


async def until_logged(http, server, sentence, times):
    async with asyncio.timeout(30):
        while server.log.count(sentence) < times:
            await http.get(f"{server.url}/health")


async def traffic(http):
    while True:
        with contextlib.suppress(httpx.TransportError):
            await http.post("/push", json={"items": [{"queue": "q", "payload": 1}]})
            await http.get("/pop/queue/q", params={"autoAck": "true"})


@pytest.mark.parametrize("how", ["kill", "fast", "immediate"])
async def test_an_outage_of_postgres_writes_single_lines_with_the_cause(serve, own_postgres, how):
    server = await serve(dsn=await own_postgres.create_database("queen"), spool=False)
    async with server.client() as http:
        await push(http, "q", 1)
        busy = [asyncio.create_task(traffic(http)) for _ in range(4)]
        parked = asyncio.create_task(http.get("/pop/queue/none", params={"wait": "true", "timeout": "60000"}))
        await outage.stop(own_postgres, how)
        await until_answered(http, f"{server.url}/ready", 503)
        await until_logged(
            http, server, "wake-ups from other servers are interrupted", 2
        )  # lost, and refused a second later
        await outage.start(own_postgres)
        await until_answered(http, f"{server.url}/ready", 200)
        for task in [*busy, parked]:
            task.cancel()
        await asyncio.gather(*busy, parked, return_exceptions=True)
    lines = server.log.splitlines()
    assert [line for line in lines if not LINE.match(line)] == []
    away = [line for line in lines if "PostgreSQL is away" in line and "queenmq.engine.availability" in line]
    assert len(away) == 1
    assert "cause=" in away[0]
    assert len(lines) < 40, "one line when something begins to fail, not one for each attempt"
