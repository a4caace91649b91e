"""An archive holds every message once, whatever interrupts it, and retention waits for it."""

import asyncio
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from queenmq.errors import Busy, EncryptionRequired, InvalidArgument, QueueNotFound
from queenmq.spark.connection import Connection
from queenmq.spark.pipelines.archive import MESSAGES, QueueArchive, archive, stop_archive
from queenmq.spark.pipelines.history import history
from queenmq.spark.pipelines.manifest import ArchiveUnusable, Manifest, Range
from queenmq.spark.pipelines.store import Store


def archived(place):
    """Every row of every file of an archive, in the order of files."""
    return [row for path in sorted(Path(place).rglob("*.parquet")) for row in pq.ParquetFile(path).read().to_pylist()]


def files(place, pattern):
    return sorted(Path(place).glob(pattern))


def contents(place):
    return {str(path.relative_to(place)): path.read_bytes() for path in Path(place).rglob("*") if path.is_file()}


@pytest.fixture
def run(perform, place):
    """Archive once."""

    async def archive_once(*queues, location=place, **options):
        return await perform(archive, queues=queues or ("orders",), location=location, **options)

    return archive_once


async def test_every_message_is_in_the_archive_sorted_and_the_rest_follows(push, run, place, connection):
    await push("orders", "bob", *range(3), headers={"v": "1"})
    await push("orders", "ann", "é", None, {"a": [1, 2]})
    report = await run()
    assert report.rows == 6
    rows = archived(place)
    assert [(row["partition"], row["offset"]) for row in rows] == [(who, n) for who in ("ann", "bob") for n in range(3)]
    assert [json.loads(row["payload"]) for row in rows] == ["é", None, {"a": [1, 2]}, 0, 1, 2]
    assert rows[-1]["headers"] == [("v", "1")]
    assert str(rows[0]["created_at"].tzinfo) == "UTC"
    [path, *_] = files(place, "queue=orders/*/*.parquet")
    assert path.parent.name == f"day={rows[0]['created_at']:%Y-%m-%d}"

    assert (await run()).rows == 0
    await push("orders", "ann", "later")
    assert (await run()).rows == 1
    assert len(archived(place)) == 7
    [row] = await connection.fetch("select tick from queen.archives")
    assert row["tick"] == Manifest(Store(place), "orders").required()[-1].to_tick


async def test_files_are_the_same_with_a_schema(push, run, place, connection, tmp_path):
    for number in range(5):
        await push("orders", f"p{number}", *range(3), headers={"v": "1"} if number else None)
    await push("orders", "p1", 3, 4)
    yesterday = await connection.execute(
        "update queen.segments set created_at = created_at - interval '1 day' where first_offset = 0 "
        "and partition_id = (select id from queen.partitions where name = 'p1')"
    )
    assert yesterday == "UPDATE 1"
    await run(messages_per_file=5)
    plain = archived(place)
    assert [row["offset"] for row in plain if row["partition"] == "p1"] == [0, 1, 2, 3, 4]
    assert len(files(place, "queue=orders/*/*.parquet")) == 5
    await connection.execute("delete from queen.archives")
    await run(location=str(tmp_path / "typed"), schema="a int", messages_per_file=5)
    assert [{key: row[key] for key in row if key != "data"} for row in archived(tmp_path / "typed")] == plain


async def test_a_step_has_about_so_many_messages_and_a_file_too(push, run, place, connection, monkeypatch):
    counted = []

    def value(self, query, *arguments, ask=Connection.value):
        counted.extend([arguments[1:]] if query == MESSAGES else [])
        return ask(self, query, *arguments)

    for number in range(5):
        await push("orders", f"p{number}", 1, 2, 3)
        await connection.fetchval("select queen.take_tick()")
    monkeypatch.setattr(Connection, "value", value)
    report = await run(messages_per_step=6, messages_per_file=3)
    steps = Manifest(Store(place), "orders").required()
    assert [step.rows for step in steps] == [6, 6, 3]
    assert counted == [(0, 5), (0, 2), (2, 4), (4, 5)], "all of it once, then each step"
    assert report.tables["archived"].records()[0]["steps"] == 3
    assert max(file.rows for step in steps for file in step.files) <= 6
    assert max(len(step.files) for step in steps) == 2


async def test_only_what_repeats_itself_has_a_dictionary(push, run, place):
    await push("orders", "ann", *({"customer": "ann", "tags": ["a"]} for _ in range(3)), headers={"v": "1"})
    await run(schema="customer string, tags array<string>")
    [path] = files(place, "queue=orders/*/*.parquet")
    group = pq.ParquetFile(path).metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    plain = {each.path_in_schema for each in columns if not each.has_dictionary_page}
    assert plain == {"offset", "message_id", "transaction_id", "payload"}


async def test_a_typed_archive_has_the_fields_beside_the_text(push, run, place):
    await push("orders", "ann", {"total": 3, "more": True}, "nothing of the kind")
    await run(schema="total int")
    assert [(row["data"], row["payload"]) for row in archived(place)] == [
        ({"total": 3}, '{"total": 3, "more": true}'),
        ({"total": None}, '"nothing of the kind"'),
    ]


@pytest.mark.parametrize("lost", ["the manifest", "a file", "what retention was told"])
async def test_an_interrupted_archive_is_completed_byte_by_byte_the_same(push, run, place, connection, lost):
    await push("orders", "ann", *range(4))
    await run()
    whole = contents(place)
    [manifest] = (name for name in whole if name.endswith(".json"))
    step = json.loads(whole[manifest])
    if lost != "what retention was told":  # the step was begun, and did not get so far
        (Path(place) / manifest).rename((Path(place) / manifest).with_name("next.json"))
        intended = {name: value for name, value in step.items() if name not in ("rows", "files")}
        (Path(place) / manifest).with_name("next.json").write_text(json.dumps(intended))
    if lost == "a file":
        (Path(place) / step["files"][0]["path"]).unlink()
    await connection.execute("update queen.archives set tick = 0")
    await push("orders", "ann", 4)
    assert (await run()).rows == (1 if lost == "what retention was told" else 5)
    assert {name: contents(place)[name] for name in whole} == whole
    assert [json.loads(row["payload"]) for row in archived(place)] == [0, 1, 2, 3, 4]


async def test_an_interrupted_step_whose_end_is_forgotten_gets_another_end(push, run, place, connection):
    await push("orders", "ann", 1)
    tick = await connection.fetchval("select queen.take_tick()")
    installation = str(await connection.fetchval("select id from queen.system_state"))
    queue_id = await connection.fetchval("select id from queen.queues")
    Manifest(Store(place), "orders").intend(
        Range(installation=installation, queue="orders", queue_id=queue_id, from_tick=0, to_tick=tick)
    )
    await push("orders", "ann", 2)
    await connection.fetchval("select queen.take_tick()")
    await connection.execute("delete from queen.ticks where id = $1", tick)  # as after 30 days
    assert (await run()).rows == 2
    assert [json.loads(row["payload"]) for row in archived(place)] == [1, 2]
    assert len(Manifest(Store(place), "orders").required()) == 1


async def test_retention_deletes_only_what_is_in_the_archive(push, run, engine, connection):
    await engine.admin.configure_queue("orders", retention_seconds=1)
    await push("orders", "ann", *range(3))
    await run()
    await push("orders", "ann", 3)
    queue_id = await connection.fetchval("select id from queen.queues")
    later = "clock_timestamp() + interval '1 hour'"
    retain = f"select sum(messages) from queen.retain($1, null, 1000, {later})"
    assert await connection.fetchval(retain, queue_id) == 3
    assert await connection.fetchval(retain, queue_id) == 0
    await run()
    assert await connection.fetchval(retain, queue_id) == 1


async def test_where_archiving_was_stopped_retention_goes_on(push, run, perform, engine, connection):
    await engine.admin.configure_queue("orders", retention_seconds=1)
    await run()
    await push("orders", "ann", 1)
    queue_id = await connection.fetchval("select id from queen.queues")
    retain = "select sum(messages) from queen.retain($1, null, 1000, clock_timestamp() + interval '1 hour')"
    assert await connection.fetchval(retain, queue_id) == 0
    await perform(stop_archive, queues=["orders"], dry_run=True)
    assert await connection.fetchval(retain, queue_id) == 0
    await perform(stop_archive, queues=["orders"])
    assert await connection.fetchval(retain, queue_id) == 1


async def test_a_run_that_looked_before_another_ended_looks_again(push, job, place):
    await push("orders", "ann", 1)

    def one_after_the_other():
        with job("early") as early:
            waiting = QueueArchive(early, "orders", Store(place), None, 10, plaintext=False)
            with job("late") as late:
                archive(late, queues=["orders"], location=place)
            return waiting.run(10, 0)

    assert await asyncio.to_thread(one_after_the_other) == []
    assert len(Manifest(Store(place), "orders").required()) == 1


async def test_what_was_cleared_while_it_was_archived_leaves_an_empty_step(push, run, perform, place, connection):
    await push("orders", "ann", 1)
    tick = await connection.fetchval("select queen.take_tick()")
    names = {"installation": str(await connection.fetchval("select id from queen.system_state"))}
    queue_id = await connection.fetchval("select id from queen.queues")
    Manifest(Store(place), "orders").intend(
        Range(**names, queue="orders", queue_id=queue_id, from_tick=0, to_tick=tick)
    )
    await connection.execute("select queen.clear_queue('orders')")
    await push("orders", "ann", 2)
    assert (await run(messages_per_step=1)).rows == 1
    assert [step.rows for step in Manifest(Store(place), "orders").required()] == [0, 1]


async def test_a_dry_run_counts_and_changes_nothing(push, run, place, connection):
    await push("orders", "ann", 1, 2)
    await connection.fetchval("select queen.take_tick()")
    assert (await run(dry_run=True)).rows == 2
    assert contents(place) == {}
    assert await connection.fetchval("select count(*) from queen.archives") == 0
    assert await connection.fetchval("select count(*) from queen.pipeline_runs") == 0


async def test_an_archive_of_something_else_is_refused(push, run, place, connection):
    await push("orders", "ann", 1)
    await run()
    with pytest.raises(ArchiveUnusable, match="ends with tick 0"):
        await run(location=f"{place}-elsewhere")
    await connection.execute("update queen.system_state set id = gen_random_uuid()")
    with pytest.raises(ArchiveUnusable, match="not of this one"):
        await run()


async def test_a_damaged_archive_is_refused(push, run, place):
    await push("orders", "ann", 1)
    await run()
    [manifest] = files(place, "_queen/orders/*.json")
    text = manifest.read_text()
    damages = {
        "is damaged": text[:-3],
        "format 9": text.replace('"format": 1', '"format": 9'),
        "lacks its beginning": text.replace('"from_tick": 0', '"from_tick": 3'),
    }
    for sentence, damaged in damages.items():
        manifest.write_text(damaged)
        with pytest.raises(ArchiveUnusable, match=sentence):
            await run()
    manifest.write_text(text)
    files(place, "**/*.parquet")[0].write_bytes(b"short")
    with pytest.raises(ArchiveUnusable, match="missing or damaged"):
        Manifest(Store(place), "orders").required()


async def test_bad_requests_are_refused_with_a_sentence(push, run, perform, place, connection, monkeypatch):
    with pytest.raises(QueueNotFound):
        await run("nowhere")
    with pytest.raises(InvalidArgument):
        await run(messages_per_step=0)
    await push("orders", "ann", 1)
    with pytest.raises(ArchiveUnusable, match="no archive of the queue"):
        await perform(history, queue="orders", archive=place)
    await connection.execute("update queen.queues set encryption_enabled = true")
    with pytest.raises(EncryptionRequired):
        await run()
    await connection.execute("update queen.queues set encryption_enabled = false")
    queue_id = await connection.fetchval("select id from queen.queues")
    await connection.execute("select pg_advisory_lock(x'517ee8'::int, $1)", queue_id)
    monkeypatch.setattr("queenmq.spark.connection.LOCK_SECONDS_MAX", 0.0)
    with pytest.raises(Busy):
        await run()
