"""A primary with a synchronous standby is lost under traffic: every push that was answered 201 is on the standby.

Operators end sessions meanwhile, also those that wait for the standby. What such a session has committed is on the
primary only, and must not be answered.
"""

import asyncio
import itertools
import json
from collections import Counter

import httpx
import pytest

from tests.broker.shorthand import drained

PRODUCERS = 6
SECONDS_MAX = 60
END_WAITS = """
select count(case pid % 2 when 0 then pg_cancel_backend(pid) else pg_terminate_backend(pid) end)
  from pg_stat_activity where wait_event = 'SyncRep'
"""


class Producers:
    """Push one message after the other, each once, and remember how each was answered."""

    def __init__(self, server):
        self.answers = {}  # value -> status
        self._server = server
        self._tasks = []
        self._progress = asyncio.Event()

    async def __aenter__(self):
        self._tasks = [asyncio.create_task(self._produce(f"p{number}")) for number in range(PRODUCERS)]
        return self

    async def __aexit__(self, *error):
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _produce(self, name):
        async with self._server.client() as http:
            for number in itertools.count():
                self._progress.set()
                value = f"{name}-{number}"
                try:
                    body = {"items": [{"queue": "orders", "partition": name, "payload": value}]}
                    self.answers[value] = (await http.post("/push", json=body)).status_code
                except httpx.TransportError:
                    self.answers[value] = 0

    async def until(self, status, count):
        """Wait for so many further answers with this status."""
        wanted = self.count(status) + count
        async with asyncio.timeout(SECONDS_MAX):
            while self.count(status) < wanted:
                self._progress.clear()
                await self._progress.wait()

    def count(self, status):
        return Counter(self.answers.values())[status]

    def answered(self, *statuses):
        return {value for value, status in self.answers.items() if status in statuses}


async def end_waits(primary, times):
    """End sessions that wait for the standby, as soon as there are some."""
    ended = 0
    async with asyncio.timeout(SECONDS_MAX):
        while ended < times:
            ended += await primary.value(END_WAITS)


async def stored(node):
    payloads = await node.value(
        "select coalesce(jsonb_agg(convert_from(payloads, 'UTF8')::jsonb), '[]')::text from queen.segments", "queen"
    )
    return Counter(value for segment in json.loads(payloads) for value in segment)


@pytest.mark.parametrize("how", ["kill", "fast"])
@pytest.mark.parametrize("spool", [False, True])
async def test_every_answered_push_is_there_after_a_failover(serve, replication, spool, how):
    primary = replication.primary
    await primary.execute("create database queen")
    standby = await replication.standby(synchronous=True)
    dsn = replication.dsn("queen", primary, standby)
    server = await serve(dsn=dsn, spool=spool, statement_timeout_ms=1000)
    async with Producers(server) as producers:
        await producers.until(201, 100)
        with standby.stopped():
            await end_waits(primary, 10)
        await producers.until(201, 50)
        await replication.detach(standby)
        await end_waits(primary, 20)  # these commits are lost
        await primary.stop(how)
        await standby.promote()
        await producers.until(201, 50)
    if spool:
        async with server.client() as http:
            await drained(http)
    found = await stored(standby)
    assert producers.answered(201, 202) - found.keys() == set(), "nothing that was answered is lost"
    assert [value for value, count in found.items() if count > 1] == [], "nothing is stored twice"
