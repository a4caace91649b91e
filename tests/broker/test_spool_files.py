"""The spool's files: whatever happens to a process, what was answered is read again, in order, and nothing else."""

import os
import resource
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queenmq.broker.spool_files import HEAD_BYTES, Reader, Record, SpoolFiles

MANY = 1 << 30
ROOM = 1 << 20

records = st.lists(st.builds(Record, st.binary(min_size=1, max_size=200), st.integers(1, 5)), max_size=8)


def read(path):
    reader = Reader(path)
    try:
        return reader.read(MANY, MANY), reader.damaged
    finally:
        reader.close()


def read_all(files):
    return [record for path in files.segments() for record in read(path)[0]]


def append(files, records):
    return files.append(records, into_empty=[True] * len(records))


def numbered(*numbers):
    return [Record(b"%d" % number, 1) for number in numbers]


@pytest.fixture
def open_files(tmp_path):
    opened = []

    def open_one(bytes_max=ROOM, **options):
        opened.append(SpoolFiles(tmp_path / "spool", bytes_max, **options))
        return opened[-1]

    yield open_one
    for files in opened:
        files.close()


@given(written=st.lists(records.filter(len), min_size=1, max_size=4), data=st.data())
def test_a_file_that_was_cut_off_anywhere_gives_a_prefix_of_its_records(tmp_path_factory, written, data):
    files = SpoolFiles(tmp_path_factory.mktemp("spool"), ROOM)
    for group in written:
        assert append(files, group) == ["kept"] * len(group)
    files.close()
    [path] = files.segments()
    everything = [record for group in written for record in group]
    assert read(path) == (everything, False)
    os.truncate(path, data.draw(st.integers(0, path.stat().st_size)))
    found, damaged = read(path)
    assert found == everything[: len(found)]
    assert not damaged
    ends = [HEAD_BYTES + sum(12 + len(record.body) for record in everything[:n]) for n in range(len(everything) + 1)]
    assert len(found) == max((n for n, end in enumerate(ends) if end <= path.stat().st_size), default=0)


@given(written=records.filter(len), data=st.data())
def test_a_changed_byte_is_noticed_and_what_lies_before_it_is_read(tmp_path_factory, written, data):
    files = SpoolFiles(tmp_path_factory.mktemp("spool"), ROOM)
    append(files, written)
    files.close()
    [path] = files.segments()
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(HEAD_BYTES, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    found, _ = read(path)
    assert found == written[: len(found)]
    assert len(found) < len(written)


@given(written=records.filter(len), position=st.integers(0, 50))
def test_a_reader_goes_on_from_a_position(tmp_path_factory, written, position):
    files = SpoolFiles(tmp_path_factory.mktemp("spool"), ROOM)
    append(files, written)
    files.close()
    total = sum(record.messages for record in written)
    position = min(position, total)
    reader = Reader(files.segments()[0])
    inside = reader.skip(position)
    rest = reader.read(MANY, MANY)
    reader.close()
    assert rest == written[len(written) - len(rest) :]
    assert sum(record.messages for record in rest) == total - position + inside
    assert not rest or inside < rest[0].messages


def test_zeros_at_the_end_are_no_record(open_files):
    files = open_files()
    append(files, numbered(1))
    [path] = files.segments()
    with path.open("ab") as file:
        file.write(bytes(100))
    assert read(path) == (numbered(1), False)


def test_a_reader_follows_a_file_that_grows(open_files):
    files = open_files()
    append(files, numbered(1))
    reader = Reader(files.segments()[0])
    assert reader.read(MANY, MANY) == numbered(1)
    assert reader.read(MANY, MANY) == []
    append(files, numbered(2, 3))
    assert reader.read(1, MANY) == numbered(2)
    assert reader.read(MANY, 1) == numbered(3)
    reader.close()


def test_what_an_earlier_process_left_is_continued_unless_it_died_while_writing(open_files):
    append(open_files(), numbered(1, 2))
    files = open_files()
    append(files, numbered(3))
    [old] = files.segments()
    with old.open("ab") as torn:
        torn.write(b"half a record")
    append(open_files(), numbered(4))
    assert len(files.segments()) == 2
    assert read_all(files) == numbered(1, 2, 3, 4)


def test_a_segment_that_was_only_begun_is_passed_by(open_files, tmp_path):
    files = open_files()
    (tmp_path / "spool" / "00000001.spool").write_bytes(b"QUEEN")
    append(files, numbered(1))
    assert read_all(files) == numbered(1)


def test_a_record_that_needs_no_spool_does_not_begin_one(open_files):
    files = open_files()
    assert files.append(numbered(1), into_empty=[False]) == ["not needed"]
    assert files.is_empty()
    append(files, numbered(1))
    assert files.append(numbered(2), into_empty=[False]) == ["kept"]


def test_processes_that_take_turns_keep_the_order(open_files):
    one, two = open_files(), open_files()
    for number in range(0, 10, 2):
        append(one, numbered(number))
        append(two, numbered(number + 1))
    assert read_all(one) == numbered(*range(10))
    assert len(one.segments()) == 1


def test_nobody_appends_while_another_holds_the_files(open_files):
    holder, writer = open_files(), open_files()
    thread = threading.Thread(target=append, args=(writer, numbered(1)))
    with holder.hold():
        thread.start()
        assert holder.segments() == []
    thread.join()
    assert read_all(holder) == numbered(1)


def test_one_at_a_time_stores_what_is_there(open_files):
    one, two = open_files(), open_files()
    with one.draining() as first, two.draining() as second:
        assert (first, second) == (True, False)
    with two.draining() as second:
        assert second


def test_a_segment_is_removed_and_its_writer_begins_another(open_files):
    writer, storer = open_files(), open_files()
    append(writer, numbered(1))
    assert not storer.is_empty()
    with storer.hold():
        storer.remove(Reader(storer.segments()[0]))
    assert writer.is_empty()
    append(writer, numbered(2))
    assert read_all(storer) == numbered(2)


def test_segments_are_bounded(open_files):
    files = open_files(segment_bytes_max=100)
    for number in range(20):
        append(files, numbered(number))
    assert len(files.segments()) > 2
    assert read_all(files) == numbered(*range(20))


def test_a_full_spool_takes_what_still_fits(open_files):
    files = open_files(bytes_max=200)
    large, small = Record(bytes(150), 1), Record(b"small", 1)
    assert append(files, [large, large, small]) == ["kept", "full", "kept"]
    assert read_all(files) == [large, small]


def test_a_damaged_segment_is_kept(open_files, tmp_path):
    files = open_files()
    append(files, numbered(1, 2))
    [path] = files.segments()
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    reader = Reader(path)
    assert reader.read(MANY, MANY) == numbered(1)
    files.remove(reader)
    assert files.is_empty()
    assert [path.suffix for path in (tmp_path / "spool").iterdir() if path.is_file()].count(".damaged") == 1


def test_messages_are_counted_without_reading_them(open_files):
    files = open_files()
    append(files, [Record(b"x", 3), Record(b"y", 4)])
    counts, size = files.counts()
    assert (list(counts.values()), size) == ([7], files.segments()[0].stat().st_size)
    append(files, [Record(b"z", 1)])
    assert list(files.counts()[0].values()) == [8]


def test_a_disk_that_takes_no_more_leaves_whole_records(open_files):
    files = open_files()
    append(files, numbered(1))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (files.segments()[0].stat().st_size + 5, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            append(files, numbered(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert read(files.segments()[0]) == (numbered(1), False)
    append(files, numbered(3))
    assert read_all(files) == numbered(1, 3)


def test_only_the_owner_may_read(open_files, tmp_path):
    files = open_files()
    append(files, numbered(1))
    assert files.segments()[0].stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "spool").stat().st_mode & 0o777 == 0o700
