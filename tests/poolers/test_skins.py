"""The server, the SDK, the command line and Spark's sessions behind a pooler."""

import json
import subprocess
import sys

import httpx
import pytest

from queenmq import AsyncQueen, Queen
from queenmq.config import Settings
from queenmq.spark.connection import Connection

SHARED = "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'queen'"


async def test_a_server_serves(serve, pooled, connection):
    server = await serve(dsn=pooled.dsn, workers=2, **pooled.settings)
    async with server.client() as http:
        item = {"queue": "orders", "payload": {"id": 7}, "transactionId": "id-7"}
        assert (await http.post("/push", json={"items": [item]})).json()[0]["status"] == "queued"
        assert (await http.post("/push", json={"items": [item]})).json()[0]["status"] == "duplicate"
        answer = await http.get("/pop/queue/orders", params={"wait": True, "timeout": 10_000})
        [message] = answer.json()["messages"]
        done = {name: message[name] for name in ("transactionId", "partitionId", "leaseId")}
        [answer] = (await http.post("/ack/batch", json={"acknowledgments": [done | {"status": "completed"}]})).json()
        assert answer["success"]
    async with httpx.AsyncClient(base_url=server.url) as http:
        assert (await http.get("/ready")).status_code == 200
    assert await connection.fetchval(SHARED) > 0


async def test_a_server_keeps_pushes_while_the_pooler_is_away_and_stores_them_later(serve, pooled, connection):
    server = await serve(dsn=pooled.dsn, workers=1, retry_attempts_max=0, **pooled.settings)
    async with server.client() as http:
        pooled.pooler.stop()
        answer = await http.post("/push", json={"items": [{"queue": "orders", "payload": 1}]})
        assert (answer.status_code, answer.json()[0]["status"]) == (202, "buffered")
        pooled.pooler.start()
        answer = await http.get("/pop/queue/orders", params={"wait": True, "timeout": 30_000})
        while answer.status_code == 503:
            answer = await http.get("/pop/queue/orders", params={"wait": True, "timeout": 30_000})
        assert [message["data"] for message in answer.json()["messages"]] == [1]
    assert await connection.fetchval("select count(*) from queen.segments") == 1


async def test_the_sdk_works_without_a_server(pooled):
    async with AsyncQueen(pooled.dsn, settings=Settings(**pooled.settings)) as queen:
        await queen.queue("orders").push({"id": 7})
        [message] = await queen.queue("orders").wait().pop()
        assert message.payload == {"id": 7}
        await queen.ack(message)


def test_a_blocking_program_works_without_a_server(pooled):
    with Queen(pooled.dsn, settings=Settings(**pooled.settings)) as queen:
        queen.queue("orders").push({"id": 7})
        [message] = queen.queue("orders").wait().pop()
        assert message.payload == {"id": 7}


def test_the_command_line_works_without_a_server(pooled, tmp_path):
    def queen(*arguments, status=0):
        environment = {f"QUEEN_{name.upper()}": value for name, value in pooled.settings.items()}
        done = subprocess.run(
            [sys.executable, "-c", "from queenmq.cli import main; raise SystemExit(main())", *arguments],
            env=environment | {"QUEEN_DATA_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == status, done.stderr
        return done.stdout

    queen("migrate", "--dsn", pooled.dsn)
    queen("push", "orders", "7", "--dsn", pooled.dsn)
    assert "7" in queen("pop", "orders", "--dsn", pooled.dsn)
    checkup = json.loads(queen("doctor", "--json", "--dsn", pooled.dsn, status=1))  # for the tests' fsync = off
    [limits] = [check["severity"] for check in checkup["checks"] if check["name"] == "limits"]
    assert limits == ("warning" if pooled.settings else "ok")


@pytest.mark.parametrize("mode", ["session"])
def test_spark_reads_through_a_pooler_of_sessions(pooled, mode):
    with Connection(pooled.dsn, Settings(), {"enable_seqscan": "off"}) as connection:
        assert connection.value("select current_setting('enable_seqscan')") == "off"
        assert connection.value("select current_setting('application_name')") == "queen spark"
        assert connection.value("select current_setting('statement_timeout')") == "1h"
        assert connection.lock(1, 2)
        numbers = connection.stream("select n from generate_series(1, $1) as n", 5, rows=2)
        assert [row["n"] for rows in numbers for row in rows] == [1, 2, 3, 4, 5]
