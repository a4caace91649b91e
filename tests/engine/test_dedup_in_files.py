"""Duplicates where the ids of the window do not fit into memory."""

import os
import tempfile

import pytest

from queenmq.engine.dedup import duplicate_lookup as originals
from queenmq.engine.dedup import id_spill as key_files
from queenmq.engine.dedup import window as dedup
from queenmq.model import Outgoing

pytestmark = pytest.mark.every_postgres

FEW_BYTES = key_files.BYTES_MIN
PARTITIONS = [str(number) for number in range(30)]


def many(round, count=1_200):
    """New ids for all partitions."""
    return [
        Outgoing("orders", b"1", PARTITIONS[number % len(PARTITIONS)], f"{round} {number}") for number in range(count)
    ]


async def test_what_does_not_fit_into_memory_is_read_once(open_engine, connection):
    await (await open_engine()).push(many("before"))
    engine = await open_engine(dedup_bytes_max=FEW_BYTES)
    pushed = [await engine.push(many(0))]
    before = engine.database.calls
    for round in range(1, 40):
        pushed.append(await engine.push(many(round)))
        assert engine.history.memory.dedup.window.bytes <= FEW_BYTES
    assert engine.database.calls - before <= 39 + 2  # pushes, and perhaps a notification
    assert engine.history.memory.dedup.window.spill.disk_bytes > FEW_BYTES
    for round in ("before", 0, 1, 17, 38, 39):
        again = await engine.push(many(round))
        assert all(each.duplicate for each in again)
        if round != "before":
            assert [each.offset for each in again] == [each.offset for each in pushed[round]]
    assert await connection.fetchval("select count(*) from queen.messages") == 41 * 1_200


async def test_where_files_cannot_be_read_ids_are_read_from_the_log_again(open_engine, connection, tmp_path, caplog):
    engine = await open_engine(dedup_bytes_max=FEW_BYTES)
    pushed = [await engine.push(many(round)) for round in range(20)]
    directory = os.open(tmp_path, os.O_RDONLY)
    for each in engine.history.memory.dedup.window.spill._files:
        os.dup2(directory, each._file.fileno())
    os.close(directory)
    again = await engine.push(many(3))
    assert [(each.offset, each.duplicate) for each in again] == [(each.offset, True) for each in pushed[3]]
    assert await connection.fetchval("select count(*) from queen.messages") == 20 * 1_200
    assert originals.NOT_READ in {record.message for record in caplog.records}


async def test_where_no_file_can_be_written_ids_are_read_again_and_the_log_says_why(
    open_engine, connection, monkeypatch, tmp_path, caplog
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    engine = await open_engine(dedup_bytes_max=FEW_BYTES)
    for round in range(20):
        await engine.push(many(round))
    assert all(each.duplicate for each in await engine.push(many(0)))
    assert await connection.fetchval("select count(*) from queen.messages") == 20 * 1_200
    assert {record.message for record in caplog.records} == {key_files.NOT_WRITTEN, dedup.DO_NOT_FIT}
    assert "gone" in next(record.error for record in caplog.records if record.message == key_files.NOT_WRITTEN)
