"""Everything works for a role that owns its database and has no other right."""

import asyncio
import json
import re

import asyncpg
import httpx
import pytest

from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.engine.postgres.database import OutcomeUnknown
from queenmq.errors import TimedOut
from queenmq.model import Outgoing
from queenmq.spark.connection import Connection
from tests.faults.log import stored, until_waiting
from tests.fixtures.proxy import proxy_to
from tests.waits import until

pytestmark = pytest.mark.every_postgres

PATH_VALUES = {"queue": "orders", "partition": "Default", "group": "billing", "consumerGroup": "billing"}
NOWHERE = "00000000-0000-0000-0000-000000000000"


def messages(*values):
    return [Outgoing("orders", json.dumps(value).encode(), "ann") for value in values]


async def test_a_server_lives_from_its_first_start_to_its_second(serve, owner):
    server = await serve(dsn=owner.dsn, workers=1, tick_interval_seconds=0.1, retention_interval_seconds=0.1)
    async with server.client() as http:
        item = {"queue": "orders", "payload": {"id": 7}, "transactionId": "id-7", "traceId": NOWHERE}
        assert (await http.post("/push", json={"items": [item, {**item, "transactionId": "id-8"}]})).status_code == 201
        await http.post("/configure", json={"queue": "orders", "options": {"retentionSeconds": 3600}})
        popped = await http.get("/pop/queue/orders", params={"consumerGroup": "billing", "wait": True, "batch": 10})
        acks = [
            {name: message[name] for name in ("transactionId", "partitionId", "leaseId")}
            | {"consumerGroup": "billing", "status": status}
            for message, status in zip(popped.json()["messages"], ("completed", "dlq"), strict=True)
        ]
        answers = await http.post("/ack/batch", json={"acknowledgments": acks})
        assert all(answer["success"] for answer in answers.json())
        connection = await asyncpg.connect(owner.dsn)
        await connection.execute("select queen.push('orders', '1')")
        popped = await http.get("/pop/queue/orders", params={"consumerGroup": "billing", "wait": True})
        assert [message["data"] for message in popped.json()["messages"]] == [1]
        await until("a tick is taken", lambda: connection.fetchval("select count(*) from queen.ticks"))
        await connection.close()
    await look_at_everything(server)
    await server.stop()
    again = await serve(dsn=owner.dsn, workers=1)
    async with again.client() as http:
        assert (await http.get("/resources/queues")).json()["queues"][0]["name"] == "orders"
    log = server.log + again.log
    assert "permission denied" not in log
    assert "failed" not in log


async def look_at_everything(server):
    """Every route that can be read answers without an error of the server's."""
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as http:
        paths = (await http.get("/openapi.json")).json()["paths"]
        for path, methods in paths.items():
            if "get" in methods:
                filled = re.sub(r"\{(\w+)\}", lambda found: PATH_VALUES.get(found[1], NOWHERE), path)
                answer = await http.get(filled, params={"queue": "orders"})
                assert answer.status_code < 500, (filled, answer.text)


async def test_spark_may_read(owner):
    async with Engine(owner.dsn, Settings(upkeep=False)) as engine:
        await engine.push(messages(1, 2))

    def read():
        with Connection(owner.dsn, Settings()) as connection:
            return connection.value("select sum(message_count)::int from queen.segments")

    assert await asyncio.to_thread(read) == 2


async def test_a_lost_call_that_may_not_be_ended_is_waited_for(owner):
    async with proxy_to(owner.dsn) as proxy, Engine(proxy.dsn, Settings(upkeep=False)) as engine:
        await engine.push(messages(1))
        other, watcher = await asyncpg.connect(owner.dsn), await asyncpg.connect(owner.dsn)
        async with asyncio.timeout(30):
            async with other.transaction():
                await other.execute("select from queen.partition_lookup for update")
                fault = proxy.cut_during_request("queen.push_segments")
                asked = proxy.hold_answer("queen.abandon_call")
                push = asyncio.create_task(engine.push(messages(2)))
                await fault.happened()
                await asked.happened()  # the engine is told that the call still runs, which nobody has ended
                await until_waiting(watcher, "queen.push_segments")
                asked.let_through()
            assert [answer.offset for answer in await push] == [1]
        assert await stored(other) == {("orders", "ann"): [1, 2]}
        await other.close()
        await watcher.close()


async def test_a_lost_call_that_does_not_end_in_time_has_no_known_outcome(owner):
    async with Engine(owner.dsn, Settings(upkeep=False, retry_attempts_max=0)) as engine:
        engine.database._patience = 0.1
        other = await asyncpg.connect(owner.dsn)

        async def lose(call_id):
            await other.execute("begin")
            await other.execute("select queen.begin_call($1)", call_id)
            raise OutcomeUnknown("the connection was lost")

        async def outcome():
            pytest.fail("nobody knows yet")

        with pytest.raises(OutcomeUnknown) as lost:
            await engine.database.once(lose, outcome)
        assert isinstance(lost.value.__cause__, TimedOut)
        await other.execute("commit")
        await engine.database.abandon(lost.value.call_id)
        await other.close()
