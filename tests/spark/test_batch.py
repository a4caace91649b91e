"""A queue as a table: what is in it, and only what was asked for."""

import json
import os
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.errors import ConfigurationError, EncryptionRequired, InvalidPayload, MessageNotFound, QueenError
from queenmq.model import Outgoing
from queenmq.model.payload_limits import DEPTH_MAX, DIGITS_MAX
from tests.spark.conftest import picked, values

TRACE = UUID("0194f7a0-0000-7000-8000-000000000001")
KEYS = "k:" + "A" * 43 + "="


async def test_every_message_is_a_row_that_knows_where_it_lives(push, frame, connection):
    await push("orders", "ann", {"n": 1}, {"n": 2}, producer="shop")
    await push("orders", "bob", {"n": 3}, transaction_id="t-3", trace_id=TRACE)
    rows = frame("orders").collect()
    expected = await connection.fetch(
        'select queue, partition, partition_id, "offset", id::text, transaction_id, trace_id::text, producer, '
        "payload::text from queen.messages order by 1, 2, 4"
    )
    columns = ["queue", "partition", "partition_id", "offset", "message_id", "transaction_id", "trace_id", "producer"]
    assert picked(rows, *columns, "payload") == [tuple(row) for row in expected]
    [created_at] = {row.created_at for row in rows if row.partition == "bob"}
    stored = await connection.fetchval("select created_at from queen.messages where partition = 'bob'")
    assert created_at.astimezone(UTC) == stored


async def test_headers_are_a_map(engine, read):
    await engine.push([Outgoing("orders", b"1", "ann", headers={"kind": "new"}), Outgoing("orders", b"2", "ann")])
    assert picked(await read("orders"), "payload", "headers") == [("1", [("kind", "new")]), ("2", None)]


async def test_only_the_columns_that_are_asked_for_are_there(push, frame, read):
    await push("orders", "ann", 1, 2)
    assert await read("orders", columns="offset,payload") == [
        {"offset": 0, "payload": "1"},
        {"offset": 1, "payload": "2"},
    ]
    assert frame("orders", schema="offset bigint").collect() == [(0,), (1,)]


@pytest.mark.parametrize(
    ("payload_format", "expected"),
    [
        ("json", '{"a": 1, "b": "x"}'),
        ("binary", b'{"a": 1, "b": "x"}'),
        ("a bigint, b string", {"a": 1, "b": "x"}),
        ("b string", {"b": "x"}),
    ],
)
async def test_a_payload_looks_as_asked(push, read, payload_format, expected):
    await push("orders", "ann", {"a": 1, "b": "x"})
    [row] = await read("orders", payloadFormat=payload_format)
    assert row["payload"] == expected


async def test_columns_that_every_message_has_are_never_null(push, frame):
    await push("orders", "ann", 1)

    def nullable(**options):
        return {field.name for field in frame("orders", **options).schema if field.nullable}

    assert nullable() == {"trace_id", "producer", "headers"}
    assert nullable(payloadFormat="total int") == {"trace_id", "producer", "headers", "payload", "payload_error"}
    assert nullable(includeDeadLetters="true") >= {"partition", "error"}


async def test_a_payload_is_a_variant(push, frame):
    await push("orders", "ann", {"a": {"b": [1, 2.5]}}, None)
    rows = frame("orders", payloadFormat="variant").selectExpr("variant_get(payload, '$.a.b[1]', 'double')").collect()
    assert rows == [(2.5,), (None,)]


async def test_payloads_at_their_limits_can_be_parsed(engine, frame):
    nested = b"[" * (DEPTH_MAX - 1) + b"7" + b"]" * (DEPTH_MAX - 1)
    texts = [
        b'{"a": %b}' % value for value in (b"9" * DIGITS_MAX, b"0." + b"1" * DIGITS_MAX, b"5e-324", b"1e999", nested)
    ]
    await engine.push([Outgoing("orders", text, "ann") for text in texts])
    rows = frame("orders", payloadFormat="variant").selectExpr("to_json(payload)").collect()
    assert len(rows) == len(texts)
    rows = frame("orders").selectExpr("from_json(payload, 'a string').a", "from_json(payload, 'a double').a").collect()
    assert [json.loads(row[0]) for row in rows if row[0][0] == "["] == [json.loads(nested)]
    assert [row[1] for row in rows[:4]] == [float("inf"), 0.1111111111111111, 5e-324, float("inf")]


async def test_a_payload_that_does_not_fit_is_kept_with_the_reason(push, read):
    await push("orders", "ann", {"a": 1}, {"a": "one"}, {"a": 3})
    found = await read("orders", payloadFormat="a bigint", columns="payload,payload_error")
    assert [row["payload"] for row in found] == [{"a": 1}, None, {"a": 3}]
    assert [row["payload_error"] is None for row in found] == [True, False, True]
    with pytest.raises(InvalidPayload, match="does not fit the schema"):
        await read("orders", payloadFormat="a bigint", mode="failfast")


async def test_a_schema_with_a_struct_is_a_payload_format_too(push, frame):
    await push("orders", "ann", {"total": 1.5, "more": "ignored"})
    assert frame("orders", schema="payload struct<total: double>").collect() == [((1.5,),)]


async def test_several_queues_are_read_as_a_list_or_by_namespace_or_task(push, read, connection):
    for queue, namespace, task in [("a", "shop", "mail"), ("b", "shop", "print"), ("c", "bank", "mail")]:
        await push(queue, "ann", queue)
        await connection.execute(
            "update queen.queues set namespace = $2, task = $3 where name = $1", queue, namespace, task
        )
    assert values(await read("a, c")) == ["a", "c"]
    assert values(await read("namespace:shop")) == ["a", "b"]
    assert picked(await read("task:mail"), "queue") == [("a",), ("c",)]


async def test_a_read_can_start_and_end_at_offsets_ticks_and_moments(push, read, connection):
    await push("orders", "ann", 0, 1, 2, 3)
    first = await connection.fetchval("select queen.take_tick()")
    await push("orders", "bob", 10, 11)
    second = await connection.fetchval("select queen.take_tick()")
    await push("orders", "ann", 4)
    moment = (
        await connection.fetchval("select max(created_at) from queen.messages where partition = 'bob'")
    ).isoformat()
    later = str(int((datetime.now(UTC) + timedelta(hours=1)).timestamp() * 1000))
    first_tick, second_tick = json.dumps({"tick": first}), json.dumps({"tick": second})
    cases = [
        ({"startingOffsets": '{"ann": 2}'}, [10, 11, 2, 3, 4]),
        ({"startingOffsets": '{"orders": {"ann": 2, "bob": 1}}'}, [11, 2, 3, 4]),
        ({"endingOffsets": '{"ann": 2}'}, [0, 1, 10, 11]),
        ({"startingOffsets": "latest"}, []),
        ({"startingOffsets": first_tick}, [10, 11, 4]),
        ({"endingOffsets": first_tick}, [0, 1, 2, 3]),
        ({"startingOffsets": first_tick, "endingOffsets": second_tick}, [10, 11]),
        ({"startingTimestamp": moment}, [10, 11, 4]),
        ({"endingTimestamp": moment}, [0, 1, 2, 3]),
        ({"startingTimestamp": later}, []),
    ]
    for options, expected in cases:
        assert values(await read("orders", **options)) == expected, options


async def test_some_partitions_alone(push, read):
    for partition in ("ann", "bob", "carl, junior"):
        await push("orders", partition, partition)
    assert values(await read("orders", partitions="ann,bob")) == ["ann", "bob"]
    assert values(await read("orders", partitions='["carl, junior"]')) == ["carl, junior"]


async def test_conditions_are_checked_by_postgres_when_asked_to(push, read):
    await push("orders", "ann", *range(5))
    await push("orders", "bob", 10, trace_id=TRACE)
    await push("orders", "bob", 11, trace_id=uuid4())
    await push("letters", "ann", 99)
    [moment] = {row["created_at"] for row in await read("orders") if row["payload"] == "10"}
    queue, partition, offset, trace, created = ("queue",), ("partition",), ("offset",), ("trace_id",), ("created_at",)
    cases = [
        ([EqualTo(queue, "letters")], [99]),
        ([EqualTo(partition, "bob")], [10, 11]),
        ([In(partition, ("ann", "carl")), GreaterThanOrEqual(offset, 3)], [3, 4]),
        ([EqualTo(partition, "nobody")], []),
        ([EqualTo(partition, "ann"), EqualTo(partition, "bob")], []),
        ([GreaterThan(offset, 2), LessThanOrEqual(offset, 3)], [3]),
        ([EqualTo(trace, str(TRACE))], [10]),
        ([EqualTo(trace, "no uuid")], []),
        ([EqualTo(created, moment)], [10]),
        ([LessThan(created, moment)], [0, 1, 2, 3, 4]),
        ([GreaterThan(created, moment)], [11, 99]),
    ]
    for filters, expected in cases:
        assert values(await read("orders, letters", *filters, pushFilters="true")) == expected, filters


async def test_spark_pushes_its_conditions_and_checks_what_is_left(push, frame):
    await push("orders", "ann", *range(50))
    await push("orders", "bob", 1, 2)
    asked = frame("orders", pushFilters="true").where("partition = 'bob' and offset = 1")
    plan = asked._jdf.queryExecution().executedPlan().toString()
    assert "(offset#" in plan
    assert "= bob" not in plan
    assert values(asked.collect()) == [2]


async def test_conditions_of_one_query_do_not_reach_the_next(push, frame):
    await push("orders", "ann", 1)
    await push("orders", "bob", 2)
    orders = frame("orders")
    assert values(orders.where("partition = 'ann'").collect()) == [1]
    assert values(orders.collect()) == [1, 2]


async def test_dead_letters_come_with_their_story(push, read, connection):
    await push("orders", "ann", 1, 2)
    await connection.execute(
        'insert into queen.dead_letters (queue_id, partition_id, group_name, "offset", created_at, failed_at, '
        "retry_count, error, transaction_id, encrypted, payload) select queue_id, partition_id, 'billing', 0, now(), "
        "now(), 3, 'no money', 't-1', false, '1' from queen.partition_lookup"
    )
    assert picked(await read("orders", includeDeadLetters="true"), "payload", "group", "error", "retry_count") == [
        ("1", "billing", "no money", 3),
        ("1", None, None, None),
        ("2", None, None, None),
    ]
    assert "group" not in (await read("orders"))[0]


async def test_encrypted_messages_are_decrypted_in_the_task(database, read, monkeypatch):
    async with Engine(database, Settings.load({}, upkeep="false", encryption_keys=KEYS)) as engine:
        await engine.admin.configure_queue("secrets", encryption_enabled=True)
        await engine.push([Outgoing("secrets", b'{"pin":1}', "ann")])
    with pytest.raises(EncryptionRequired):
        await read("secrets")
    for payload_format in ("json", "binary", "pin int"):
        [row] = await read("secrets", undecryptable="null", payloadFormat=payload_format)
        assert row["payload"] is None
    monkeypatch.setenv("QUEEN_ENCRYPTION_KEYS", KEYS)
    assert values(await read("secrets")) == [{"pin": 1}]


async def test_work_is_shared_by_messages_not_by_transactions(push, frame):
    for number in range(3):
        await push("orders", f"p{number}", *range(10))
    await push("orders", "large", *range(2500))
    assert frame("orders").rdd.getNumPartitions() == 1
    counts = frame("orders", columns="offset", minPartitions="3").rdd.glom().map(len).collect()
    assert len(counts) == 3
    assert sum(counts) == 2530
    assert max(counts) <= 1_030


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queu": "orders"}, 'no option "queu"; did you mean "queue"?'),
        ({"queue": "orders", "group": "g"}, 'a batch read has no option "group"'),
        ({"queue": "nowhere"}, 'no queue "nowhere"'),
        ({"queue": "namespace:none"}, 'no queue with the namespace "none"'),
        ({"queue": " "}, "queue is empty"),
        ({"columns": "ofset"}, 'did you mean "offset"?'),
        ({"partitions": "nobody"}, 'no partition "nobody" in orders'),
        ({"partitions": "a,,b"}, "partitions is a list of names"),
        ({"startingOffsets": "first"}, "startingOffsets is not JSON"),
        ({"startingOffsets": '{"ann": -1}'}, "startingOffsets is earliest, latest"),
        ({"startingOffsets": '{"nobody": 1}'}, 'the partition "nobody"'),
        ({"startingOffsets": '{"letters": {"ann": 1}}'}, 'the queue "letters"'),
        ({"startingOffsets": '{"tick": 99999}'}, "no tick 99999"),
        ({"endingOffsets": "earliest"}, "never earliest"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp is not a time"),
        ({"startingTimestamp": "2025-01-01T00:00:00"}, "has no time zone"),
        ({"startingOffsets": "latest", "startingTimestamp": "0"}, "not both"),
        ({"minPartitions": "none"}, "minPartitions is a number"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss is true or false"),
        ({"payloadFormat": "jsn"}, "payloadFormat is json, binary, variant or the fields of a payload"),
        ({"payloadFormat": "varient"}, 'not "varient"; did you mean "variant"?'),
        ({"payloadFormat": "a bigit, b string"}, 'the field "a" cannot be a "bigit"; did you mean "bigint"?'),
        ({"payloadFormat": "a int, b array<strin>"}, 'the field "b" cannot be a "strin"; did you mean "string"?'),
        ({"payloadFormat": "a int b string"}, '"b" is not expected after the field "a"'),
        ({"payloadFormat": "a-b int"}, 'the field "a" cannot be a "-"'),
        ({"payloadFormat": "a int, b"}, 'the field "b" has no type'),
        ({"payloadFormat": "a int,"}, "a field is expected where there is nothing"),
        ({"payloadFormat": "a int, a string"}, 'payloadFormat gives the field "a" twice'),
        ({"payloadFormat": "a struct<n int, n int>"}, 'payloadFormat gives the field "n" twice'),
        ({"payloadFormat": "a array"}, 'the field "a" does not say what is in it'),
        ({"payloadFormat": "a map<string>"}, "needs two types"),
        ({"payloadFormat": "a array<int"}, 'a ">" is missing in the type of the field "a"'),
        ({"undecryptable": "drop"}, "undecryptable is error or null"),
        ({"mode": "dropmalformed"}, "mode is permissive or failfast"),
        ({"url": "postgresql://me:pw-secret@127.0.0.1:1/x"}, "me:***@127.0.0.1:1/x cannot be reached"),
        ({"readUrl": "postgresql://me:pw-secret@127.0.0.1:1/x"}, "me:***@127.0.0.1:1/x cannot be reached"),
        ({"url": "mysql://me:pw-secret@x"}, "is no address of PostgreSQL"),
    ],
)
async def test_bad_input_is_refused_with_what_is_wrong(push, read, options, message):
    await push("orders", "ann", 1)
    with pytest.raises(QueenError) as refusal:
        await read(**{"queue": "orders", **options})
    assert message in str(refusal.value)
    assert "pw-secret" not in str(refusal.value)


async def test_the_driver_is_told_the_sentence_the_code_and_the_hint(push, frame):
    with pytest.raises(PySparkException) as refusal:
        frame("nowhere").count()
    assert 'there is no queue "nowhere"' in str(refusal.value)
    assert "[QUEUE_NOT_FOUND] Names are case-sensitive" in str(refusal.value)
    assert "Failed to generate Python data source read partitions: queenmq.errors.QueueNotFound: there is" in str(
        refusal.value
    )
    assert "Traceback" not in str(refusal.value)


async def test_errors_of_a_users_own_function_keep_their_traceback(spark, frame):
    with pytest.raises(PySparkException):
        frame("nowhere").count()
    with pytest.raises(PySparkException, match="Traceback"):
        spark.sparkContext.parallelize([0], 1).map(lambda zero: 1 / zero).collect()


async def test_offsets_that_retention_has_deleted_are_data_loss(push, read, connection):
    await push("orders", "ann", 0)
    await push("orders", "ann", 1)
    await connection.execute("delete from queen.segments where first_offset = 0")
    await connection.execute("update queen.partition_lookup set start_offset = 1")
    asked = {"startingOffsets": '{"ann": 0}'}
    with pytest.raises(MessageNotFound, match='"ann" of queue "orders" begins with offset 1'):
        await read("orders", **asked)
    assert values(await read("orders", failOnDataLoss="false", **asked)) == [1]


async def test_messages_deleted_between_planning_and_reading_are_data_loss(push, frame, connection):
    await push("orders", "ann", 0)
    strict, tolerant = frame("orders"), frame("orders", failOnDataLoss="false")
    assert [each.rdd.getNumPartitions() for each in (strict, tolerant)] == [1, 1]  # planned
    await connection.execute("select queen.clear_queue('orders')")
    with pytest.raises(PySparkException, match="1 segments of orders were deleted"):
        strict.collect()
    assert tolerant.collect() == []


async def test_the_address_is_in_no_plan(push, frame):
    await push("orders", "ann", 1)
    assert "postgresql" not in frame("orders")._jdf.queryExecution().toString()


async def test_a_database_without_queen_says_so(spark, blank_database, read):
    with pytest.raises(QueenError, match="queen migrate"):
        await read("orders", url=blank_database)


async def test_a_role_that_may_not_read_is_told_so(push, read, connection, database):
    await push("orders", "ann", 1)
    role = f"queen_test_nobody_{os.getpid()}"
    await connection.execute(f"create role {role} login")
    try:
        with pytest.raises(ConfigurationError, match="does not allow this to us"):
            await read("orders", url=database.replace("//postgres@", f"//{role}@"))
    finally:
        await connection.execute(f"drop role {role}")
