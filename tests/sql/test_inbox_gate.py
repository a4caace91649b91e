"""The gate behind the inbox: a row that queen.push would not write is set aside, and holds nobody up."""

import json

import asyncpg
import pytest

from queenmq.errors import InvalidHeaders, InvalidName, InvalidPayload, TimedOut

pytestmark = pytest.mark.every_postgres

LONG = "n" * 256
# What queen.push refuses, as a raw row.
BAD_ROWS = {
    "empty queue name": {"queue_name": ""},
    "long queue name": {"queue_name": LONG},
    "reserved queue name": {"queue_name": "__system_x"},
    "control character": {"queue_name": "a\tb"},
    "empty partition name": {"partition_name": ""},
    "long partition name": {"partition_name": LONG},
    "empty transaction id": {"transaction_id": ""},
    "long transaction id": {"transaction_id": LONG},
    "no JSON": {"payload": "{broken"},
    "no payload": {"payload": ""},
    "a text without an end": {"payload": '"\\ud800"'},
    "a null character": {"payload": '"\\u0000"'},
    "two values": {"payload": "1],[2"},
    "two values in a row": {"payload": "1,2"},
    "a number that is too long": {"payload": "1" * 331},
    "a number that Python cannot read": {"payload": f'{{"amounts": [1, {"7" * 5000}]}}'},
    "too many levels": {"payload": "[" * 201 + "]" * 201},
    "levels that Spark cannot read": {"payload": '[{"a":' * 750 + "1" + "}]" * 750},
    "headers in a list": {"headers": '["a"]'},
    "headers that are no strings": {"headers": '{"a": 1}'},
    "headers in headers": {"headers": '{"a": ["b"]}'},
    "long headers": {"headers": json.dumps({"a": "x" * 5000})},
    "many headers": {"headers": json.dumps({str(n): "x" for n in range(33)})},
    "an empty header name": {"headers": '{"": "x"}'},
}
COLUMNS = ["queue_name", "partition_name", "transaction_id", "headers", "payload"]
INSERT = (
    "insert into queen.inbox (queue_name, partition_name, transaction_id, headers, payload, created_at) "
    "values ($1, $2, $3, $4, $5, now())"
)


async def insert(connection, **values):
    row = {"queue_name": "orders", "partition_name": "ann", "transaction_id": None, "headers": None, "payload": "1"}
    await connection.execute(INSERT, *((row | values)[column] for column in COLUMNS))


async def stored(queue, name="orders"):
    rows = await queue.connection.fetch(
        'select payload from queen.messages where queue = $1 order by partition, "offset"', name
    )
    return [json.loads(row["payload"]) for row in rows]


@pytest.mark.parametrize("name", BAD_ROWS)
async def test_a_row_that_push_would_not_write_is_set_aside_and_its_neighbours_are_placed(queue, name):
    await insert(queue.connection, payload='"before"')
    await insert(queue.connection, **BAD_ROWS[name])
    await insert(queue.connection, payload='"after"')
    row = await queue.sequence()
    assert (row["moved"], row["set_aside"], row["more"]) == (0, 1, True)
    row = await queue.sequence()
    assert (row["moved"], row["set_aside"], row["more"]) == (2, 0, False)
    assert await stored(queue) == ["before", "after"]
    [aside] = await set_aside(queue)
    assert aside["reason"]
    await queue.call("delete_set_aside", [aside["id"]])


@pytest.mark.parametrize("payload", ["1" * 330, f'"{"1" * 5000}"', "[" * 200 + "]" * 200, f'"{"[" * 5000}"', "1e300"])
async def test_a_row_within_the_limits_is_placed_as_it_is(queue, payload):
    await insert(queue.connection, payload=payload)
    assert (await queue.sequence())["moved"] == 1
    assert await queue.connection.fetchval("select payload::text from queen.messages") == payload


async def test_nobody_can_claim_to_be_a_producer(queue):
    columns = await queue.connection.fetch(
        "select attname from pg_attribute where attrelid = 'queen.inbox'::regclass and attnum > 0 and not attisdropped"
    )
    assert {row[0] for row in columns} & {"producer", "encrypted"} == set()


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"queue": ""}, InvalidName),
        ({"queue": None}, InvalidName),
        ({"queue": LONG}, InvalidName),
        ({"partition": ""}, InvalidName),
        ({"payload": None}, InvalidPayload),
        ({"transaction_id": LONG}, InvalidPayload),
        ({"headers": '{"a": 1}'}, InvalidHeaders),
    ],
)
async def test_an_insert_into_the_view_is_checked_like_a_push(queue, values, error):
    """And what else the row says about itself is ignored: the producer, the offset, the time."""
    row = {"queue": "orders", "partition": "ann", "transaction_id": None, "headers": None, "payload": "1"}
    statement = (
        "insert into queen.messages (queue, partition, transaction_id, headers, payload, producer, "
        '"offset", created_at) '
        "values ($1, $2, $3, $4, $5, 'forged', 99, '2000-01-01')"
    )
    await queue.connection.execute(statement, *row.values())
    with pytest.raises(asyncpg.PostgresError) as raised:
        await queue.connection.execute(statement, *(row | values).values())
    assert raised.value.sqlstate == error.sqlstate
    await queue.connection.execute(statement, *row.values())
    await queue.sequence()
    rows = await queue.connection.fetch('select producer, "offset", created_at from queen.messages order by "offset"')
    assert [(row["producer"], row["offset"]) for row in rows] == [(None, 0), (None, 1)]
    assert rows[0]["created_at"] == queue.clock.now


async def set_aside(queue):
    return await queue.connection.fetch("select * from queen.set_aside order by id")


async def test_a_row_that_cannot_be_placed_is_set_aside_and_the_others_are_placed(queue):
    for values in ({"payload": '"before"'}, {"queue_name": ""}, {"payload": '"between"'}, {"partition_name": LONG}):
        await insert(queue.connection, **values)
    await insert(queue.connection, payload='"after"')
    row = await queue.sequence()
    assert (row["moved"], row["set_aside"], row["more"]) == (0, 2, True)
    row = await queue.sequence()
    assert (row["moved"], row["set_aside"], row["more"]) == (3, 0, False)
    assert await stored(queue) == ["before", "between", "after"]
    reasons = [(row["queue"], row["reason"]) for row in await set_aside(queue)]
    assert reasons == [
        ("", "the queue name is empty"),
        ("orders", "the partition name has 256 characters; 255 is the most"),
    ]
    found = await queue.connection.fetch('select "check", detail from queen.check_consistency($1)', queue.clock.now)
    assert [row["check"] for row in found] == ["message set aside"] * 2
    await queue.call("delete_set_aside", [row["id"] for row in await set_aside(queue)])


async def test_what_was_set_aside_can_be_mended_and_tried_again(queue):
    await insert(queue.connection, queue_name="", payload='"lost and found"')
    assert (await queue.sequence())["set_aside"] == 1
    [row] = await set_aside(queue)
    assert (await queue.call("retry_set_aside", [row["id"]]))[0][0] == 1
    assert (await queue.sequence())["set_aside"] == 1
    [row] = await set_aside(queue)
    await queue.connection.execute("update queen.inbox_set_aside set queue_name = 'orders'")
    assert (await queue.call("retry_set_aside"))[0][0] == 1
    await queue.sequence()
    assert await stored(queue) == ["lost and found"]
    assert await set_aside(queue) == []


async def test_what_is_still_wrong_is_set_aside_again(queue):
    await insert(queue.connection, payload="1],[2")
    await insert(queue.connection, payload="3")
    await queue.sequence()
    assert (await queue.call("retry_set_aside"))[0][0] == 1
    await queue.sequence()
    await queue.sequence()
    assert await stored(queue) == [3]
    [row] = await set_aside(queue)
    assert (await queue.call("delete_set_aside", [row["id"]]))[0][0] == 1


async def test_an_error_that_no_row_is_to_blame_for_sets_nothing_aside(queue, another):
    """The sequencer gives up waiting for a lock; the rows stay in the inbox."""
    await queue.push("orders", "ann", 0)
    await insert(queue.connection)
    alice = await another()
    async with alice.connection.transaction():
        await alice.connection.execute("select from queen.partition_lookup for update")
        await queue.connection.execute("set lock_timeout = '20ms'")
        with pytest.raises(TimedOut):
            await queue.sequence()
    assert (await queue.sequence())["moved"] == 1
    assert await set_aside(queue) == []
