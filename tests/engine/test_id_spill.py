"""Keys in files: no id is lost, memory and disk have an end, and a window that has passed leaves nothing."""

import os
import random
import resource
import tempfile
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from queenmq.engine.dedup import id_spill
from queenmq.engine.dedup import window as dedup
from queenmq.engine.dedup.id_filter import key_of, with_offsets
from queenmq.engine.dedup.id_spill import BYTES_MIN, KEY_BYTES, IdSpill
from queenmq.engine.dedup.partition_ids import WrittenIds, keys_of
from queenmq.engine.dedup.window import DedupWindow
from queenmq.engine.partitions import PartitionInfo, QueueInfo

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


def queue(window=HOUR):
    made = QueueInfo(1, "orders")
    made.dedup_window = window
    return made


class Writer:
    """Writes new ids to partitions of a window, some at a time, and remembers which."""

    def __init__(self, partitions=1):
        own = queue()
        self.window = DedupWindow(BYTES_MIN)
        self.partitions = [PartitionInfo(n, ("orders", str(n)), own, 0) for n in range(partitions)]
        self.offsets = [0] * partitions
        self.written = []  # moment, partition, its ids

    def write(self, now, number=0, count=300):
        first = self.offsets[number]
        if self.window.get(number) is None:
            self.window.start(number, first)
        ids = [f"{number} {n}" for n in range(first, first + count)]
        self.window.learn([WrittenIds(self.partitions[number], first, count, ids, now)])
        self.offsets[number] += count
        self.written.append((now, number, ids))

    def keys(self, since=NOON):
        return keys_of([(number, ids) for now, number, ids in self.written if now >= since])

    def is_known(self, since=NOON):
        return self.window.seen(self.keys(since)).all()

    def is_found(self):
        """Whether each id is looked for where it is."""
        for number, partition in enumerate(self.partitions):
            ids = [id for _, written, ids in self.written if written == number for id in ids]
            keys, entry = keys_of([(number, ids)]), self.window.get(number)
            fresh = entry.originals(ids, keys)
            hashed = zip(entry.suspects(keys, partition.queue.dedup_window), self.window.spill.find(keys), strict=True)
            for offset, (id, (packed, filed)) in enumerate(zip(ids, hashed, strict=True)):
                places = {place for low_bits in packed + filed for place in entry.offsets(low_bits)}
                if offset not in places | {each.offset for each in fresh.get(id, ())}:
                    return False
        return True


@pytest.fixture
def close():
    """Close the files of a writer after the test."""
    writers = []
    yield writers.append
    for writer in writers:
        writer.window.spill.close()


def strangers(count=10_000):
    return keys_of([(1, [f"never pushed {n}" for n in range(count)])])


@pytest.mark.parametrize("partitions", [1, 7, 60])
def test_no_id_is_lost_and_memory_has_an_end_however_many_come(close, partitions):
    writer = Writer(partitions)
    close(writer)
    dice = random.Random(partitions)
    for n in range(400):
        writer.write(NOON + n * SECOND, dice.randrange(partitions), dice.randrange(1, 600))
        assert writer.window.bytes <= BYTES_MIN
    assert len(writer.keys()) > 6 * BYTES_MIN / 16  # six times what memory has room for
    assert writer.is_known()
    assert all(writer.window.get(number) is not None for number in range(partitions))
    assert writer.is_found()
    assert writer.window.seen(strangers()).mean() < 0.01


def test_a_partition_that_is_alone_is_in_files_too(close):
    writer = Writer()
    close(writer)
    while writer.offsets[0] * 16 < 3 * BYTES_MIN:
        writer.write(NOON)
        assert writer.window.bytes <= BYTES_MIN
    assert writer.window.spill.disk_bytes > writer.offsets[0] * KEY_BYTES / 2
    assert writer.is_known()


def test_files_take_as_much_disk_as_the_window_has_ids_and_nothing_after_it(close):
    writer = Writer(3)
    close(writer)
    most = 0
    for minute in range(60 * 5):
        now = NOON + minute * 60 * SECOND
        writer.write(now, minute % 3, 1_000)
        most = max(most, writer.window.spill.disk_bytes)
        if minute % 60 == 59:
            assert writer.is_known(now - HOUR)
    assert 20_000 * KEY_BYTES < most <= 60_000 * KEY_BYTES * 1.5
    files = [each._file for each in writer.window.spill._files]
    writer.write(now + 2 * HOUR)
    assert files
    assert all(file.closed for file in files)
    assert writer.window.spill.disk_bytes == 0


def test_ids_with_a_short_window_do_not_wait_for_those_with_a_long_one(close):
    writer = Writer(2)
    close(writer)
    writer.partitions[1].queue = queue(HOUR * 24)
    for n in range(100):
        writer.write(NOON + n * SECOND, n % 2)
    before = writer.window.spill.disk_bytes
    writer.write(NOON + 2 * HOUR, 0)
    assert 0 < writer.window.spill.disk_bytes <= before * 2 / 3
    assert writer.window.seen(keys_of([(1, ids) for _, number, ids in writer.written if number == 1])).all()


def test_a_window_that_became_longer_keeps_what_is_in_files(close):
    writer = Writer()
    close(writer)
    for n in range(100):
        writer.write(NOON + n * SECOND)
    writer.partitions[0].queue.dedup_window = HOUR * 24
    writer.write(NOON + 5 * HOUR)
    assert writer.is_known()


def test_files_have_an_end_too_and_then_partitions_are_forgotten(close, caplog):
    writer = Writer(5)
    close(writer)
    for n in range(1_200):
        writer.write(NOON, n % 5)
    assert sum(writer.offsets) > BYTES_MIN
    assert writer.window.spill.disk_bytes <= BYTES_MIN * KEY_BYTES
    assert {record.message for record in caplog.records} == {dedup.DO_NOT_FIT}


def test_the_more_ids_the_less_memory_for_each():
    files = IdSpill(BYTES_MIN)
    dice = np.random.default_rng(1)
    written = []
    while True:
        keys = key_of(dice.integers(0, 1 << 64, files.piece_keys, dtype=np.uint64))
        if not files.add([with_offsets(keys, keys >> np.uint64(40))], NOON, [], HOUR):
            break
        written.append(keys)
        assert files.bytes <= BYTES_MIN * 3 / 4
    keys = np.concatenate(written)
    assert len(keys) == BYTES_MIN
    assert files.bytes < len(keys)
    assert files.has(keys[::50]).all()
    assert not files.has(key_of(dice.integers(0, 1 << 64, 2_000, dtype=np.uint64))).any()
    assert files.find(keys[::500]) == [[key >> 40] for key in keys[::500].tolist()]
    files.close()
    assert files.bytes == 0


# -- when the disk does not do as it is told


def test_a_file_that_could_not_be_written_to_its_end_loses_nothing(close, caplog, monkeypatch):
    monkeypatch.setattr(id_spill, "RETRY_SECONDS", 0.0)
    writer = Writer()
    close(writer)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (KEY_BYTES * 3_000, limits[1]))  # a file takes that much, and no more
    try:
        for _ in range(50):
            writer.write(NOON)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert {record.message for record in caplog.records} == {id_spill.NOT_WRITTEN}
    assert 0 < writer.window.spill.disk_bytes <= KEY_BYTES * 3_000
    assert writer.is_known()
    writer.write(NOON)  # there is room again
    assert writer.window.spill.disk_bytes > KEY_BYTES * 3_000
    assert writer.is_known()


def test_after_a_failure_files_are_tried_again_later(close, caplog, monkeypatch, tmp_path):
    writer = Writer(2)
    close(writer)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    for n in range(200):
        writer.write(NOON, n % 2)
    assert [record.message for record in caplog.records].count(id_spill.NOT_WRITTEN) == 1
    (tmp_path / "gone").mkdir()
    monkeypatch.setattr(writer.window.spill, "_retry_at", 0.0)
    for n in range(200):
        writer.write(NOON, n % 2)
    assert writer.window.spill.disk_bytes
    assert not list((tmp_path / "gone").iterdir())  # files have no name


def test_what_cannot_be_read_may_be_a_duplicate(close, tmp_path):
    writer = Writer()
    close(writer)
    for _ in range(100):
        writer.write(NOON)
    directory = os.open(tmp_path, os.O_RDONLY)
    for each in writer.window.spill._files:
        os.dup2(directory, each._file.fileno())
    os.close(directory)
    assert writer.is_known()
    with pytest.raises(IsADirectoryError):
        writer.is_found()
    writer.window.forget_all()
    assert not writer.window.seen(writer.keys()).any()
    assert writer.window.get(0) is None
    assert writer.window.bytes == 0
