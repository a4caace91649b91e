"""Reads by offset over HTTP: /fetch and /partitions/changed."""

import asyncio
import base64
import re
from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg
import pytest

from tests.broker.shorthand import pop, push, refused

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
KEY = base64.b64encode(bytes(range(32))).decode()


async def fetch(http, *entries, **body):
    answer = await http.post("/fetch", json={"entries": list(entries), **body})
    assert answer.status_code == 200, answer.text
    return answer.json()["entries"]


def entry(queue, partition="Default", offset=0, **fields):
    return {"queue": queue, "partition": partition, "offset": offset, **fields}


def payloads(fetched):
    return [record["payload"] for record in fetched["records"]]


async def changed(http, queue, **fields):
    answer = await http.post("/partitions/changed", json={"entries": [{"queue": queue, **fields}]})
    assert answer.status_code == 200, answer.text
    return answer.json()


# -- fetch


async def test_records_are_read_by_offset_without_being_taken(http, queue):
    [one, two] = await push(http, queue, {"n": 1}, "ü")
    [three] = await push(http, queue, None, transactionId="t3")
    [found] = await fetch(http, entry(queue))
    assert found.keys() == {"records", "highWatermark", "logStartOffset"}
    assert (found["highWatermark"], found["logStartOffset"], payloads(found)) == (3, 0, [{"n": 1}, "ü", None])
    assert [record["offset"] for record in found["records"]] == [0, 1, 2]
    ids = [one["transaction_id"], two["transaction_id"], "t3"]
    assert [record["transactionId"] for record in found["records"]] == ids
    assert three["transaction_id"] == "t3"
    assert found["records"][0].keys() == {"offset", "transactionId", "payload", "ts"}
    assert datetime.fromisoformat(found["records"][0]["ts"]).tzinfo is not None
    assert payloads((await fetch(http, entry(queue, offset=2)))[0]) == [None]
    assert len((await pop(http, queue, batch=9))["messages"]) == 3


async def test_the_end_is_no_error_and_beyond_it_is_one(http, queue):
    await push(http, queue, 1)
    end, beyond, far = await fetch(http, *(entry(queue, offset=offset) for offset in (1, 2, 2**62)))
    assert end == {"records": [], "highWatermark": 1, "logStartOffset": 0}
    assert beyond == end | {"error": "OFFSET_OUT_OF_RANGE"}
    assert far == beyond


async def test_what_was_deleted_is_out_of_range(http, server, queue, module_database):
    await push(http, queue, 1, 2)
    connection = await asyncpg.connect(module_database)
    await connection.execute("select queen.clear_queue($1)", queue)
    await connection.close()
    await push(http, queue, 3)
    old, new = await fetch(http, entry(queue), entry(queue, offset=2))
    assert old == {"records": [], "highWatermark": 3, "logStartOffset": 2, "error": "OFFSET_OUT_OF_RANGE"}
    assert payloads(new) == [3]


async def test_a_reader_whose_last_record_was_lost_is_told_so(http, queue):
    await push(http, queue, 1)
    await push(http, queue, 2)
    [found] = await fetch(http, entry(queue))
    known, lost = await fetch(
        http,
        *(entry(queue, offset=1, previousTs=ts) for ts in (found["records"][0]["ts"], "2030-01-31T12:00:00.000001Z")),
    )
    assert payloads(known) == [2]
    assert lost == {"records": [], "highWatermark": 2, "logStartOffset": 0, "error": "POSITION_LOST"}
    refused(
        await http.post("/fetch", json={"entries": [entry(queue, previousTs="yesterday")]}), 400, "INVALID_ARGUMENT"
    )


async def test_an_unknown_partition_harms_no_other(http, queue):
    await push(http, queue, 1)
    nowhere, found, none = await fetch(http, entry(f"{queue}-x"), entry(queue), entry(queue, "none"))
    assert nowhere["error"] == none["error"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert (nowhere["records"], payloads(found)) == ([], [1])


async def test_an_entry_stays_within_its_bytes_but_gets_one_record(http, queue):
    texts = [str(number) * 98 for number in range(10)]  # a hundred bytes with their quotes
    await push(http, queue, *texts)
    for size, count in [(1, 1), (100, 1), (199, 1), (200, 2), (999, 9), (1000, 10), (10**15, 10)]:
        [found] = await fetch(http, entry(queue, maxBytes=size))
        assert payloads(found) == texts[:count]
    [found] = await fetch(http, entry(queue, offset=7, maxBytes=250))
    assert payloads(found) == texts[7:9]


async def test_the_total_stays_within_its_bytes_but_for_one_record_each(http, queue):
    for name in ("ann", "bob", "carl"):
        await push(http, queue, *["x" * 98] * 5, partition=name)
    entries = [entry(queue, name) for name in ("ann", "bob", "carl")]
    found = await fetch(http, *entries, maxBytes=700)
    assert [len(each["records"]) for each in found] == [5, 2, 1]
    assert [len(each["records"]) for each in await fetch(http, *entries, maxBytes=1)] == [1, 1, 1]


async def test_an_answer_has_at_most_8_mib(http, queue):
    for _ in range(10):
        await push(http, queue, "x" * 1024 * 1024)
    [found] = await fetch(http, entry(queue, maxBytes=10**9), maxBytes=10**9)
    assert len(found["records"]) == 7
    offset, sizes = 7, []
    while offset < 10:
        [found] = await fetch(http, entry(queue, offset=offset))
        sizes.append(len(found["records"]))
        offset = found["records"][-1]["offset"] + 1
    assert sizes == [3]


async def test_encrypted_payloads_are_read_with_the_key_only(serve, connection):
    keyed, keyless = await serve(encryption_keys=f"k1:{KEY}"), await serve()
    await connection.execute("select queen.configure_queue('secrets', p_options => '{\"encryption_enabled\": true}')")
    entries = [entry("secrets"), entry("open")]
    async with keyed.client() as http:
        await push(http, "secrets", {"pin": 1234})
        await push(http, "open", 1)
        assert [payloads(each) for each in await fetch(http, *entries)] == [[{"pin": 1234}], [1]]
    async with keyless.client() as http:
        secret, public = await fetch(http, *entries)
    assert (secret["records"], secret["error"], secret["highWatermark"]) == ([], "ENCRYPTION_REQUIRED", 1)
    assert payloads(public) == [1]


# -- bad input


@pytest.mark.parametrize(
    "entries",
    [
        [{"queue": "q", "partition": "p"}], [{"queue": "q", "partition": "p", "offset": -1}],
        [{"queue": "q", "partition": "p", "offset": "0"}], [{"queue": 1, "partition": "p", "offset": 0}],
        [{"queue": "q", "partition": "p", "offset": 0, "maxBytes": 0}],
        [{"queue": "q", "partition": "p", "offset": 2**63}],
        [{"queue": "q", "partition": "p", "offset": 0}] * 1025, None, {},
    ],
)  # fmt: skip
async def test_a_bad_fetch_is_refused(http, entries):
    refused(await http.post("/fetch", json={"entries": entries}), 400, "INVALID_ARGUMENT")


async def test_no_entries_are_no_trouble(http):
    assert await fetch(http) == []
    answer = await http.post("/partitions/changed", json={"entries": []})
    assert answer.json()["entries"] == []


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"since": "yesterday"}, "INVALID_TIMESTAMP"), ({"since": "2030-01-01T00:00:00"}, "INVALID_TIMESTAMP"),
        ({"after": "x"}, "INVALID_ARGUMENT"), ({"limit": 0}, "INVALID_ARGUMENT"), ({"limit": 1001}, "INVALID_ARGUMENT"),
        ({"after": "1.2.3"}, "INVALID_ARGUMENT"), ({"queue": 7}, "INVALID_ARGUMENT"),
    ],
)  # fmt: skip
async def test_a_bad_question_about_changes_is_refused(http, queue, fields, code):
    await push(http, queue, 1)
    body = {"entries": [{"queue": queue, **fields}]}
    refused(await http.post("/partitions/changed", json=body), 400, code)


async def test_too_many_questions_about_changes_are_refused(http, queue):
    body = {"entries": [{"queue": queue}] * 101}
    refused(await http.post("/partitions/changed", json=body), 400, "INVALID_ARGUMENT")


# -- changed partitions


async def test_changed_partitions_tell_their_ends(http, queue):
    [ann] = await push(http, queue, 1, partition="ann")
    await push(http, queue, 2, 3, partition="bob")
    answer = await changed(http, queue)
    [page] = answer["entries"]
    assert page.keys() == {"partitions"}
    one, two = page["partitions"]
    assert one.keys() == {"name", "id", "lastOffset", "logStart", "lastWriteAt"}
    assert (one["name"], one["id"], one["lastOffset"], one["logStart"]) == ("ann", ann["partition_id"], 0, 0)
    assert (two["name"], two["lastOffset"], two["logStart"]) == ("bob", 1, 0)
    for time in (answer["safeTime"], one["lastWriteAt"], two["lastWriteAt"]):
        assert TIME.fullmatch(time)
    assert one["lastWriteAt"] < two["lastWriteAt"] <= answer["safeTime"]


async def test_what_was_written_at_or_after_a_moment(http, queue):
    for name in ("ann", "bob", "carl"):
        await push(http, queue, 1, partition=name)
    partitions = (await changed(http, queue))["entries"][0]["partitions"]
    since = partitions[1]["lastWriteAt"]
    later = (await changed(http, queue, since=since))["entries"][0]["partitions"]
    assert [each["name"] for each in later] == ["bob", "carl"]
    future = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    assert (await changed(http, queue, since=future))["entries"] == [{"partitions": []}]


async def test_pages_are_turned_with_next(http, queue):
    names = [f"p{number}" for number in range(5)]
    for name in names:
        await push(http, queue, 1, partition=name)
    seen, after = [], None
    for _ in range(3):
        [page] = (await changed(http, queue, limit=2, **({"after": after} if after else {})))["entries"]
        seen += [each["name"] for each in page["partitions"]]
        after = page.get("next")
    assert (seen, after) == (names, None)


async def test_an_unknown_queue_is_told_apart(http, queue):
    await push(http, queue, 1)
    answer = await http.post("/partitions/changed", json={"entries": [{"queue": f"{queue}-x"}, {"queue": queue}]})
    unknown, known = answer.json()["entries"]
    assert unknown == {"partitions": [], "error": "UNKNOWN_TOPIC_OR_PARTITION"}
    assert len(known["partitions"]) == 1


async def test_whoever_follows_the_safe_time_misses_nothing(http, queue, module_database):
    """Eight writers at once, and one who is slow to commit; a follower asks again and again from the last safe time."""
    writers = [write(http, queue, writer) for writer in range(8)]
    writing = asyncio.gather(*writers, write_slowly(http, queue, module_database))
    known, since = {}, None
    while True:
        finished = writing.done()
        answer = await changed(http, queue, **({"since": since} if since else {}))
        known |= {each["name"]: each["lastOffset"] for each in answer["entries"][0]["partitions"]}
        since = answer["safeTime"]
        if finished:
            break
    await writing
    assert known == {f"p{number}": 15 for number in range(20)} | {"slow": 20}


async def write(http, queue, writer):
    """Forty messages over twenty partitions."""
    for number in range(40):
        await push(http, queue, number, partition=f"p{(number + writer) % 20}")


async def write_slowly(http, queue, dsn):
    """Twenty messages, each written well before it is committed."""
    [pushed] = await push(http, queue, 0, partition="slow")
    connection = await asyncpg.connect(dsn)
    for _ in range(20):
        async with connection.transaction():
            await connection.execute(
                "select woken from queen.push_segments($1, $2, $3)", [UUID(pushed["partition_id"]).int], [1], [b"[1]"]
            )
            await changed(http, queue)
            await changed(http, queue)
    await connection.close()
