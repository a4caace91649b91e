"""A replay pushes the same messages, in the same partitions and order, once."""

import json

import pytest

from queenmq.errors import EncryptionRequired, InvalidArgument
from queenmq.spark.pipelines.replay import replay

TRACE = "01890000-0000-7000-8000-000000000001"


async def stored(connection, queue):
    rows = await connection.fetch(
        'select partition, "offset", payload, trace_id, transaction_id from queen.messages where queue = $1 '
        'order by partition, "offset"',
        queue,
    )
    return [(row["partition"], json.loads(row["payload"])) for row in rows], rows


async def test_partitions_and_order_are_kept_and_nothing_is_pushed_twice(push, perform, connection, monkeypatch):
    monkeypatch.setattr("queenmq.spark.pipelines.replay.BATCH", 2)
    await push("orders", "ann", *range(3), headers={"v": "1"})
    await push("orders", "bob", "x", trace_id=TRACE)
    await push("orders", "ann", 3)
    dry = await perform(replay, queue="orders", to="again", dry_run=True)
    assert (dry.rows, dry.facts["matching"]) == (0, 5)
    assert dry.tables["partitions"].rows == [("ann", 4), ("bob", 1)]
    assert await stored(connection, "again") == ([], [])

    first = await perform(replay, queue="orders", to="again")
    assert (first.rows, first.facts["there already"]) == (5, 0)
    values, rows = await stored(connection, "again")
    assert values == [("ann", 0), ("ann", 1), ("ann", 2), ("ann", 3), ("bob", "x")]
    assert str(rows[-1]["trace_id"]) == TRACE
    assert rows[0]["transaction_id"].startswith("replay:1:")
    assert (await perform(replay, queue="orders", to="again")).rows == 0
    assert (await perform(replay, queue="orders", to="again", label="2", where="offset = 3")).rows == 1
    assert len((await stored(connection, "again"))[0]) == 6
    assert (await perform(replay, queue="orders", to="traced", trace=TRACE.upper())).rows == 1


async def test_a_rate_is_kept(push, perform, monkeypatch):
    pauses, clock = [], [0.0]

    def sleep(seconds):
        pauses.append(seconds)
        clock[0] += seconds

    monkeypatch.setattr("queenmq.spark.pipelines.replay.monotonic", lambda: clock[0])
    monkeypatch.setattr("queenmq.spark.pipelines.replay.sleep", sleep)
    await push("orders", "ann", *range(5))
    await perform(replay, queue="orders", to="again", rate=2)
    assert pauses == [0.0, 1.0, 1.0]


async def test_what_is_encrypted_stays_so_unless_allowed(push, perform, connection):
    await push("secrets", "ann", 1)
    await push("vault", "ann", 1)
    await connection.execute("update queen.queues set encryption_enabled = true")
    with pytest.raises(EncryptionRequired, match='"again" would not be'):
        await perform(replay, queue="secrets", to="again")
    assert (await perform(replay, queue="secrets", to="vault", dry_run=True)).facts["matching"] == 1
    assert (await perform(replay, queue="secrets", to="again", plaintext=True)).rows == 1


async def test_bad_requests_are_refused(push, perform):
    await push("orders", "ann", 1)
    for options in ({"rate": 0}, {"label": ""}, {"where": "no such"}):
        with pytest.raises(InvalidArgument):
            await perform(replay, queue="orders", to="again", **options)
