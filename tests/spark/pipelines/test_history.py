"""History is what was pushed: archived, live, or being pushed at this moment."""

import asyncio
import json

import pytest

from queenmq.errors import EncryptionRequired, InvalidArgument
from queenmq.spark.pipelines.archive import archive
from queenmq.spark.pipelines.history import history, messages


def read(job, place):
    with job("history", dry_run=True) as opened:
        rows = messages(opened, "orders", place).collect()
    assert all(row.headers == {"v": "1"} for row in rows if row.payload in "01234")
    return [(row.partition, row.offset, json.loads(row.payload)) for row in rows]


async def test_nothing_is_missing_or_twice_at_any_seam_while_others_push(push, perform, job, place, connection):
    pushed = []
    stop = asyncio.Event()

    async def produce(name):
        while not stop.is_set():
            value = f"{name} {len(pushed)}"
            pushed.append(value)
            await push("orders", name, value)

    await push("orders", "slow", "first")
    producers = [asyncio.create_task(produce(name)) for name in ("ann", "bob")]
    for _ in range(3):
        await perform(archive, queues=["orders"], location=place)
        known = list(pushed[:-2])  # what two producers may still be pushing
        found = await asyncio.to_thread(read, job, place)
        places = [(partition, offset) for partition, offset, _ in found]
        assert len(set(places)) == len(places)
        assert {value for _, _, value in found} >= set(known)
        for partition in ("ann", "bob"):
            offsets = sorted(offset for name, offset in places if name == partition)
            assert offsets == list(range(len(offsets)))
    stop.set()
    await asyncio.gather(*producers)
    assert sorted(value for _, _, value in await asyncio.to_thread(read, job, place)) == sorted([*pushed, "first"])


async def test_history_is_whole_after_retention_has_deleted_what_is_archived(push, perform, job, place, connection):
    await push("orders", "ann", *range(5), headers={"v": "1"})
    await perform(archive, queues=["orders"], location=place)
    await connection.execute("update queen.queues set retention_seconds = 1")
    await connection.execute("select queen.retain(id, null, 1000, now() + interval '1 hour') from queen.queues")
    await push("orders", "ann", 5)
    assert sorted(value for _, _, value in await asyncio.to_thread(read, job, place)) == list(range(6))
    report = await perform(
        history, queue="orders", archive=place, where="offset >= 4", to=f"{place}-out", format="json"
    )
    assert report.rows == 2
    written = job().spark.read.json(f"{place}-out").collect()
    assert sorted(row.payload for row in written) == ["4", "5"]
    with pytest.raises(InvalidArgument, match="cannot be written"):
        await perform(history, queue="orders", to=f"{place}-out")
    with pytest.raises(InvalidArgument, match="no condition"):
        await perform(history, queue="orders", where="nothing = 1")
    with pytest.raises(InvalidArgument, match="format"):
        await perform(history, queue="orders", format="xls")
    await connection.execute("update queen.queues set encryption_enabled = true")
    with pytest.raises(EncryptionRequired, match="would not be"):
        await perform(history, queue="orders", to=f"{place}-clear")
    assert (await perform(history, queue="orders", to=f"{place}-clear", plaintext=True)).rows == 1
