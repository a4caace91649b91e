"""An archive whose driver is killed, at whatever moment, is completed by the next run: every message once."""

import sys
from hashlib import sha256
from itertools import count
from pathlib import Path

import pyarrow.parquet as pq

from queenmq.spark.pipelines.archive import archive
from queenmq.spark.pipelines.manifest import NEXT, Manifest
from queenmq.spark.pipelines.store import Store
from tests.spark.jobs import kill, launch, until

LOCKED = "select count(*) from pg_stat_activity where application_name = 'queen spark' and wait_event_type = 'Lock'"
# PostgreSQL would go on with a statement that waits for a lock, and find out later that nobody is there.
END = "select pg_terminate_backend(pid, 10000) from pg_stat_activity where application_name = 'queen spark'"
MESSAGES = "select partition, \"offset\", payload from queen.messages where queue = 'orders'"


def digest(rows):
    lines = sorted(f"{row['partition']} {row['offset']} {row['payload']}" for row in rows)
    return sha256("\n".join(lines).encode()).hexdigest(), len(lines)


def archived(place):
    paths = [Path(place) / file.path for step in Manifest(Store(place), "orders").required() for file in step.files]
    return [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]


async def test_a_driver_killed_between_any_two_steps_leaves_an_archive_that_is_completed(
    push, perform, place, database, connection, connect
):
    numbers = count()
    nothing, announced = "select 1", Path(place) / "_queen" / "orders" / NEXT

    async def push_some():
        for number in range(6):
            await push("orders", f"p{number}", *(next(numbers) for _ in range(10)))

    def start():
        command = ["pipeline", "archive", "orders", "--to", place, "--dsn", database, "--master", "local[1]"]
        command += ["--messages-per-file", "5"]
        return launch(sys.executable, "-c", f"from queenmq.cli import main; raise SystemExit(main({command}))")

    async def killed(*, first_lock, then_lock=nothing, reached):
        """Start a driver that is stopped by a lock, then perhaps let on to another; kill it when it is there."""
        await push_some()
        first, then = await connect(), await connect()
        held, held_then = first.transaction(), then.transaction()
        await held.start()
        await first.execute(first_lock)
        driver = start()
        if then_lock != nothing:
            await until(connection, driver, LOCKED)
            await held_then.start()
            await then.execute(then_lock)
            await held.rollback()
        await until(connection, driver, *reached)
        kill(driver)
        await connection.execute(END)
        await (held.rollback() if then_lock == nothing else held_then.rollback())

    async def told():
        return await connection.fetchval("select max(tick) from queen.archives")

    def steps():
        return Manifest(Store(place), "orders").steps()

    # Retention is not told yet that there will be an archive.
    await killed(first_lock="lock table queen.archives in access exclusive mode", reached=[LOCKED])
    assert (await told(), steps(), announced.exists()) == (None, [], False)

    # A step is announced, and nothing of it is written.
    await killed(first_lock="lock table queen.partitions in access exclusive mode", reached=[LOCKED])
    assert (await told(), steps(), announced.exists()) == (0, [], True)

    # Some files are written, or all of them.
    await killed(first_lock=nothing, reached=[nothing, lambda: any(Path(place).rglob("*.parquet"))])

    # The manifest is written, and retention does not know.
    before = len(steps())
    await killed(
        first_lock="lock table queen.partitions in access exclusive mode",
        then_lock="select 1 from queen.archives for update",
        reached=[LOCKED, lambda: len(steps()) > before],
    )
    assert await told() < steps()[-1].to_tick

    await push_some()
    await perform(archive, queues=["orders"], location=place)
    assert digest(archived(place)) == digest(await connection.fetch(MESSAGES))
    assert len(archived(place)) == 60 * 5
    assert not announced.exists()
    assert await told() == steps()[-1].to_tick
    states = await connection.fetch("select state from queen.pipeline_runs order by id")
    assert [row["state"] for row in states] == ["running"] * 4 + ["done"]  # which queen pipeline runs shows as lost
