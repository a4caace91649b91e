"""Eight processes work on one queue and die at random; then the books must balance and the diaries agree."""

import json
import os
import random
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import msgspec

from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.model import Ack, PopRequest
from tests.books import assert_the_books_balance
from tests.chaos.history import History, read
from tests.chaos.worker import GROUPS, PARTITIONS

PROCESSES = 8
SECONDS = float(os.environ.get("QUEEN_TEST_CHAOS_SECONDS", "30"))
ROOT = Path(__file__).parents[2]


class Crowd:
    """The processes; whoever dies is replaced."""

    def __init__(self, dsn: str, directory: Path, dice: random.Random) -> None:
        self.dsn = dsn
        self.directory = directory
        self.dice = dice
        self.names = count()
        self.killed = 0
        self.workers = [self.start() for _ in range(PROCESSES)]

    def start(self) -> subprocess.Popen[bytes]:
        name = f"w{next(self.names)}"
        command = [sys.executable, "-m", "tests.chaos.worker", self.dsn, name, str(self.directory / name)]
        return subprocess.Popen([*command, str(self.dice.getrandbits(32))], cwd=ROOT)

    def shake(self) -> None:
        """Wait for a random time, then kill a random one and start another."""
        place = self.dice.randrange(PROCESSES)
        try:
            code = self.workers[place].wait(timeout=self.dice.uniform(0.5, 1.5))
            raise AssertionError(f"a worker ended by itself with {code}")
        except subprocess.TimeoutExpired:
            self.kill(self.workers[place])
            self.killed += 1
            self.workers[place] = self.start()

    def kill(self, worker: subprocess.Popen[bytes]) -> None:
        worker.kill()
        worker.wait()


async def left(engine: Engine, group: str) -> int:
    """How many messages a group has still to finish."""
    lines = await engine.admin.ledger("orders")
    return sum(line.pending + line.leased for line in lines if line.group_name == group)


async def drain(engine: Engine, diary: Path) -> None:
    """Read what is left, group by group, and write it down like everybody else."""
    with diary.open("a") as file:
        for group in GROUPS:
            request = PopRequest(queue="orders", group=group, batch=1000, max_partitions=PARTITIONS)
            while await left(engine, group):
                asked = time.monotonic_ns()
                popped = await engine.pop(request, wait_seconds=5)
                if popped.messages:
                    messages = [[m.lease.partition, m.offset, msgspec.json.decode(m.payload)] for m in popped.messages]
                    event = {"what": "pop", "worker": "end", "group": group, "asked": asked, "messages": messages}
                    event |= {"lease": str(popped.leases[0].id), "expires": time.time() + 300, "clock": time.time()}
                    file.write(json.dumps(event | {"at": time.monotonic_ns()}) + "\n")
                    answers = await engine.ack([Ack.of(message) for message in popped.messages])
                    assert all(answer.accepted for answer in answers)


async def test_eight_processes_that_die_at_random_lose_nothing_and_break_no_order(database, connect, tmp_path):
    seed = int(os.environ.get("QUEEN_TEST_CHAOS_SEED", random.randrange(2**32)))
    print(f"QUEEN_TEST_CHAOS_SEED={seed}")  # noqa: T201 (to repeat what failed)
    async with Engine(database, Settings(upkeep=False)) as engine:
        await engine.admin.configure_queue("orders", retry_limit=1000, retry_delay_ms=10)
        crowd = Crowd(database, tmp_path, random.Random(seed))
        end = time.monotonic() + SECONDS
        try:
            while time.monotonic() < end:
                crowd.shake()
        finally:
            for worker in crowd.workers:
                crowd.kill(worker)
        await drain(engine, tmp_path / "end")
        assert await engine.admin.resync_partition_lookup() == 0

    connection = await connect()
    log = {
        queue: {
            (row["partition"], row["offset"]): json.loads(row["payload"])
            for row in await connection.fetch(
                'select partition, "offset", payload from queen.messages where queue = $1', queue
            )
        }
        for queue in ("orders", "derived")
    }
    history = History(read(tmp_path.iterdir()), log)
    counts = f"{len(log['orders'])} pushed, {len(log['derived'])} derived, {crowd.killed} killed"
    print(counts, f"{len(history.events)} lines")  # noqa: T201 (how much was tried)
    assert len(history.of("push")) > 10
    assert len(history.of("ack")) > 10
    history.check_pushes()
    history.check_deliveries(GROUPS)
    history.check_acks()
    history.check_leases()
    history.check_transactions()
    await assert_the_books_balance(connection, await connection.fetchval("select clock_timestamp()"))
