"""Reads and lists answer a number of bytes at most, and go on where they ended."""

import asyncio
import json
from uuid import uuid4

import pytest

from tests.broker.shorthand import ack, pop, push
from tests.fixtures.servers import Served
from tests.waits import WAIT_SECONDS_MAX

LIMIT = 1_000


@pytest.fixture(scope="module")
def server(module_database, tmp_path_factory):
    """A server whose answers have 1,000 bytes of messages at most."""
    served = Served(tmp_path_factory.mktemp("server") / "server", module_database, {"pop_bytes_max": LIMIT})
    yield served
    served.end()


def text(size, number=0):
    """A payload of so many bytes of JSON that begins with a number."""
    return f"{number}:".ljust(size - 2, "x")


async def get(http, path, **query):
    answer = await http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def pages(http, path, key, **query):
    """All pages of a list; each has so many bytes at most, or one element, and names the next one."""
    found = []
    cursor = None
    while True:
        page = await get(http, path, **query, **({} if cursor is None else {"cursor": cursor}))
        found.append(page[key])
        assert in_bounds(page[key])
        if (cursor := page["nextCursor"]) is None:
            return found


def in_bounds(listed):
    return sum(len(json.dumps(each["data"])) for each in listed) <= LIMIT or len(listed) == 1


def values(found):
    return [each["data"] for page in found for each in page]


@pytest.mark.parametrize("together", [True, False])
async def test_pages_of_messages_go_on_where_they_ended(http, queue, together):
    sizes = [300, 300, 300, 300, 5_000, 10, 10, 990, 5]
    sent = [text(size, n) for n, size in enumerate(sizes)]
    for batch in [sent] if together else [[each] for each in sent]:
        await push(http, queue, *batch)
    for path, query in (
        ("/messages", {"queue": queue}),
        ("/messages", {"queue": queue, "partition": "Default"}),
        (f"/status/queues/{queue}/messages", {}),
    ):
        found = await pages(http, path, "messages", **query)
        assert values(found) == sent[::-1]
        assert list(map(len, found)) == [2, 2, 1, 3, 1]
        found = await pages(http, path, "messages", limit=2, **query)
        assert values(found) == sent[::-1]


async def test_pages_of_dead_letters_go_on_where_they_ended(http, queue):
    sent = [text(size, n) for n, size in enumerate([300, 300, 300, 300, 5_000, 10, 10])]
    await push(http, queue, *sent)
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while (await get(http, "/dlq", queue=queue))["total"] < len(sent):
            await ack(http, *(await pop(http, queue, batch=100))["messages"], status="dlq")
    listed = []
    while True:
        page = await get(http, "/dlq", queue=queue, offset=len(listed))
        assert in_bounds(page["messages"])
        listed += page["messages"]
        assert page["total"] == len(sent)
        if not page["pagination"]["hasMore"]:
            break
    assert [each["data"] for each in listed] == sent[::-1]


async def test_pages_of_a_trace_go_on_where_they_ended(http, queue):
    trace_id = str(uuid4())
    sent = [text(size, n) for n, size in enumerate([300, 300, 300, 300, 5_000, 10, 10])]
    await push(http, queue, *sent[:4], traceId=trace_id)
    for each in sent[4:]:
        await push(http, queue, each, traceId=trace_id)
    found = await pages(http, f"/traces/id/{trace_id}", "messages")
    assert values(found) == sent
    assert [each["step"] for page in found for each in page] == [1, 2, 3, 4, 5, 6, 7]
    assert list(map(len, found)) == [3, 1, 1, 2]
    ends = {(await get(http, f"/traces/id/{trace_id}", cursor=step))["totalSeconds"] for step in range(6)}
    assert ends == {found[-1][-1]["secondsSinceStart"]}


async def test_pages_of_notes_go_on_where_they_ended(http, queue):
    [pushed] = await push(http, queue, 1)
    name = str(uuid4())
    notes = [text(size, n) for n, size in enumerate([300, 300, 300, 300, 5_000, 10, 10])]
    for note in notes:
        body = {"transactionId": pushed["transaction_id"], "partitionId": pushed["partition_id"], "data": note}
        assert (await http.post("/traces", json=body | {"traceNames": [name]})).status_code == 201
    found = await pages(http, f"/traces/{pushed['partition_id']}/{pushed['transaction_id']}", "traces")
    assert values(found) == notes
    assert list(map(len, found)) == [3, 1, 1, 2]
    named = []
    while len(named) < len(notes):
        page = await get(http, f"/traces/by-name/{name}", offset=len(named))
        assert page["traces"]
        assert in_bounds(page["traces"])
        named += page["traces"]
    assert [each["data"] for each in named] == notes[::-1]


async def fetch(http, *entries, **options):
    answer = await http.post("/fetch", json={"entries": entries, **options})
    assert answer.status_code == 200, answer.text
    found = [[record["payload"] for record in each["records"]] for each in answer.json()["entries"]]
    assert not any("error" in each for each in answer.json()["entries"])
    assert sum(len(json.dumps(payload)) for each in found for payload in each) <= LIMIT or sum(map(len, found)) == 1
    return found


async def test_a_read_of_many_partitions_has_a_limit_for_all_of_them(http, queue):
    for partition in "abc":
        await push(http, queue, text(600), text(10), partition=partition)
    entries = [{"queue": queue, "partition": partition, "offset": 0} for partition in "abc"]
    assert list(map(len, await fetch(http, *entries, maxBytes=10**9))) == [2, 0, 0]
    assert list(map(len, await fetch(http, *entries, maxBytes=1))) == [1, 0, 0]
    entries[0]["offset"] = 2
    assert list(map(len, await fetch(http, *entries))) == [0, 2, 0]


async def test_a_read_gets_one_message_however_large_it_is(http, queue):
    await push(http, queue, text(5_000), text(10))
    entry = {"queue": queue, "partition": "Default", "offset": 0}
    assert await fetch(http, entry) == [[text(5_000)]]
    assert await fetch(http, entry | {"offset": 1}) == [[text(10)]]


async def test_an_offset_that_is_not_stored_is_told_so_also_when_the_answer_is_full(http, queue):
    await push(http, queue, text(5_000))
    full = {"queue": queue, "partition": "Default", "offset": 0}
    answer = await http.post("/fetch", json={"entries": [full, full | {"offset": 7}, full | {"partition": "none"}]})
    assert [each.get("error") for each in answer.json()["entries"]] == [
        None,
        "OFFSET_OUT_OF_RANGE",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]


async def test_a_cursor_that_nobody_gave_out_is_refused(http, queue):
    [pushed] = await push(http, queue, 1)
    for path in (f"/traces/id/{uuid4()}", f"/traces/{pushed['partition_id']}/{pushed['transaction_id']}"):
        answer = await http.get(path, params={"cursor": "x"})
        assert answer.status_code == 400
