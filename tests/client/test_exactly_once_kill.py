"""A consumer killed again and again, at any moment: its own table and what it pushed have every message once."""

import random
import signal
import subprocess
import sys
from time import monotonic

import psycopg
import pytest

from queenmq import Queen

MESSAGES = 400
PARTITIONS = 8
KILLS = 4
SECONDS_MAX = 60

PROGRAM = """
import asyncio, sys
import asyncpg
from queenmq import AsyncQueen

address, dsn, queue = sys.argv[1:]

async def main():
    async with AsyncQueen(address) as queen, asyncpg.create_pool(dsn, min_size=1, max_size=4) as pool:
        async def handler(n: int, connection):
            await connection.execute("insert into counted values ($1, $2)", queue, n)
            await connection.execute("update counter set n = n + 1 where queue = $1", queue)
            await queen.push_in(connection, queue + "-next", n)
            print(n, flush=True)  # done, but not committed

        source = queen.queue(queue).group("g").batch(10).lease_seconds(1)
        await source.consume(handler, connection=pool, concurrency=4)

asyncio.run(main())
"""


@pytest.fixture
def count(module_database, queue):
    """What the consumer's own tables say."""
    with psycopg.connect(module_database, autocommit=True) as session:
        session.execute("create table if not exists counted (queue text, n int)")
        session.execute("create table if not exists counter (queue text primary key, n int)")
        session.execute("insert into counter values (%s, 0)", [queue])
        yield lambda: session.execute("select n from counter where queue = %s", [queue]).fetchone()[0]
        rows = session.execute("select n from counted where queue = %s order by n", [queue]).fetchall()
        assert [n for (n,) in rows] == list(range(MESSAGES))


def lives(command: list[str], lines: int) -> None:
    """A consumer that is killed while it handles one of the next messages."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as consumer:
        for _ in range(lines):
            assert consumer.stdout.readline()
        consumer.kill()


def test_every_message_counts_once(address, module_database, queue, count):
    command = [sys.executable, "-W", "error", "-c", PROGRAM, address, module_database, queue]
    with Queen(address) as queen:
        queen.admin.configure(queue, retry_limit=100)  # a consumer that is killed is no fault of its messages
        for n in range(MESSAGES):
            queen.queue(queue).partition(f"p{n % PARTITIONS}").push(n)
        for _ in range(KILLS):
            lives(command, random.randrange(5, MESSAGES // (KILLS + 1)))
        deadline = monotonic() + SECONDS_MAX
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as consumer:
            while count() < MESSAGES and monotonic() < deadline:
                assert consumer.poll() is None
            consumer.send_signal(signal.SIGTERM)
        assert (consumer.returncode, count()) == (0, MESSAGES)
        assert queen.queue(queue).group("g").pop() == []
        pushed: list[int] = []
        while len(pushed) < MESSAGES and monotonic() < deadline:
            messages = queen.queue(f"{queue}-next").batch(1_000).auto_ack().wait(1).pop()
            pushed += [message.payload for message in messages]
        assert sorted(pushed) == list(range(MESSAGES))
