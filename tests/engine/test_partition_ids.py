"""Recent ids in memory: what the window knows, what it suspects, and what it forgets first."""

from datetime import UTC, datetime, timedelta
from itertools import compress

from queenmq.engine.dedup import id_filter as keys
from queenmq.engine.dedup import partition_ids as recent_ids
from queenmq.engine.dedup import window as dedup
from queenmq.engine.dedup.partition_ids import Original, PartitionIds, WrittenIds, give_keys, keys_of
from queenmq.engine.dedup.window import DedupWindow
from queenmq.engine.partitions import PartitionInfo, QueueInfo

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def partition(number, window=HOUR):
    queue = QueueInfo(1, "orders")
    queue.dedup_window = window
    return PartitionInfo(number, ("orders", str(number)), queue, 0)


def add(recent, first_offset, count, ids, created_at, window):
    written = WrittenIds(partition(recent.partition_id, window), first_offset, count, ids, created_at)
    give_keys([written])
    recent.add(written)


def suspects(recent, ids, window):
    return list(compress(ids, recent.suspects(keys_of([(recent.partition_id, ids)]), window)))


def originals(recent, ids):
    return recent.originals(ids, keys_of([(recent.partition_id, ids)]))


def where(recent, id):
    [found] = recent.suspects(keys_of([(recent.partition_id, [id])]), HOUR)
    return [offset for low_bits in found for offset in recent.offsets(low_bits)]


def test_ids_below_a_gap_are_known_when_the_gap_is_filled():
    ids = PartitionIds(1, 10)
    add(ids, 12, 1, ["c"], NOON, HOUR)
    assert ids.known == 10
    add(ids, 10, 2, ["a", "b"], NOON, HOUR)
    assert ids.known == 13
    assert originals(ids, ["b", "c", "x"]) == {"b": [Original(11, NOON)], "c": [Original(12, NOON)]}


def test_a_gap_whose_content_was_told_is_closed():
    ids = PartitionIds(1, 0)
    add(ids, 5, 5, ["a"] + [None] * 4, NOON, HOUR)
    ids.catch_up(5)
    assert ids.known == 10


def test_many_ids_are_found_as_few_are():
    ids = PartitionIds(1, 0)
    every = [str(n) for n in range(100)]
    for n in range(0, 100, 10):
        add(ids, n, 10, every[n : n + 10], NOON + timedelta(seconds=n), HOUR)
    found = originals(ids, [*every, "x"])
    assert found == {id: originals(ids, [id])[id] for id in every}
    assert found["37"] == [Original(37, NOON + timedelta(seconds=30))]


def test_an_old_id_becomes_a_suspicion_and_then_nothing(monkeypatch):
    monkeypatch.setattr(recent_ids, "FRESH_IDS_MAX", 2)
    ids = PartitionIds(1, 0)
    add(ids, 0, 3, ["a", "b", "c"], NOON, HOUR)
    assert originals(ids, ["a"]) == {}
    assert suspects(ids, ["a", "x", "c"], HOUR) == ["a", "c"]
    add(ids, 3, 1, ["d"], NOON + 2 * HOUR, HOUR)
    assert suspects(ids, ["a", "b", "c"], HOUR) == []


def test_a_suspicion_tells_where_to_look(monkeypatch):
    monkeypatch.setattr(recent_ids, "FRESH_IDS_MAX", 2)
    ids = PartitionIds(1, 0)
    add(ids, 0, 5, ["a", None, "b", None, "c"], NOON, HOUR)
    add(ids, 5, 4, [None, "a", "d", "a"], NOON, HOUR)
    assert [where(ids, id) for id in ("b", "c", "d", "x")] == [[2], [4], [7], []]
    assert sorted(where(ids, "a")) == [0, 6, 8]


def test_in_a_long_partition_there_are_more_places_to_look(monkeypatch):
    monkeypatch.setattr(recent_ids, "FRESH_IDS_MAX", 2)
    long_ago = 3 * keys.SAME_LOW_BITS + 7
    ids = PartitionIds(1, long_ago)
    add(ids, long_ago, 3, ["a", "b", "c"], NOON, HOUR)
    add(ids, long_ago + 8, 3, ["d", "e", "f"], NOON, HOUR)  # with a gap before it
    assert where(ids, "b") == [8 + n * keys.SAME_LOW_BITS for n in range(4)]
    assert where(ids, "f") == [17 + n * keys.SAME_LOW_BITS for n in range(4)]


def test_thousands_of_packed_ids_are_all_suspected_and_no_others_are(monkeypatch):
    monkeypatch.setattr(recent_ids, "FRESH_IDS_MAX", 10)
    ids = PartitionIds(1, 0)
    every = [str(n) for n in range(5_000)]
    for n in range(0, 5_000, 7):
        part = every[n : n + 7]
        add(ids, n, len(part), part, NOON + timedelta(seconds=n), HOUR * 24)
    assert set(suspects(ids, every, HOUR * 24)) | set(originals(ids, every)) == set(every)
    assert suspects(ids, [f"other {n}" for n in range(5_000)], HOUR * 24) == []


def test_the_filter_misses_nothing_however_much_comes_and_suspects_few():
    window = DedupWindow(1 << 30)
    here = partition(1, HOUR * 24)
    window.start(1, 0)
    for n in range(0, 50_000, 500):
        ids = [str(number) for number in range(n, n + 500)]
        window.learn([WrittenIds(here, n, 500, ids, NOON)])
    assert window.seen(keys_of([(1, [str(n) for n in range(50_000)])])).all()
    assert window.seen(keys_of([(1, [f"other {n}" for n in range(50_000)])])).sum() < 250
    assert window.seen(keys_of([(2, [str(n) for n in range(50_000)])])).sum() < 250


def test_memory_has_an_end_and_the_partition_written_last_stays():
    window = DedupWindow(20_000)
    for number in range(100):
        window.start(number, 0)
        window.learn([WrittenIds(partition(number), 0, 3, ["a", "b", "c"], NOON)])
    known = [number for number in range(100) if window.get(number) is not None]
    assert 0 < len(known) < 20
    assert known[-1] == 99
    assert sum(window.get(number).bytes for number in known) <= 20_000


def test_ids_that_are_forgotten_while_they_are_needed_are_warned_of(caplog):
    window = DedupWindow(20_000)

    def push(number):
        if window.get(number) is None:
            window.start(number, 0)
        window.learn([WrittenIds(partition(number), 0, 3, ["a", "b", "c"], NOON)])

    for number in range(dedup.LATELY + 5):  # idle ones are not missed
        push(0)
        window.get(0).written -= dedup.LATELY
        push(number)
        window.get(number).written -= dedup.LATELY
    assert not caplog.records
    for number in range(100):
        push(number)
    [warning] = caplog.records
    assert warning.message == dedup.DO_NOT_FIT
    assert warning.bytes_max == 20_000
