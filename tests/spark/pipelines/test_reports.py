"""stats, traces, dlq-triage and schema say what is there."""

import uuid

import msgspec
import pytest

from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.errors import InvalidPayload
from queenmq.model import Ack, Outgoing, PopRequest
from queenmq.spark.pipelines.page import write_page
from queenmq.spark.pipelines.report import Report, Table
from queenmq.spark.pipelines.schema import schema
from queenmq.spark.pipelines.stats import stats
from queenmq.spark.pipelines.traces import traces
from queenmq.spark.pipelines.triage import HIDDEN, OTHERWISE, suggest, triage


async def give_up(engine, queue, *errors):
    """Let a group take as many messages and set them aside."""
    popped = await engine.pop(PopRequest(queue=queue, group="g", batch=len(errors)))
    await engine.ack([Ack.of(each, "dlq", error) for each, error in zip(popped.messages, errors, strict=True)])


async def test_stats_count_measure_and_compare(push, perform, engine, tmp_path):
    await push("orders", "hot", *["x" * 8] * 9)
    await push("orders", "cold", "x")
    await push("mail", "hot", 1)
    await give_up(engine, "mail", "boom")
    report = await perform(stats)
    assert report.rows == 11
    [mail, orders] = report.tables["throughput and sizes"].records()
    assert (mail["queue"], mail["messages"]) == ("mail", 1)
    assert (orders["partitions"], orders["size_p50"], orders["size_max"], orders["characters"]) == (2, 10, 10, 93)
    hottest = report.tables["hottest partitions"].records()[0]
    assert (hottest["partition"], hottest["share_percent"], hottest["times_fair_share"]) == ("hot", 90, 1.8)
    [outcome] = report.tables["outcomes"].records()
    assert (outcome["queue"], outcome["dead_lettered"], outcome["dead_letter_percent"]) == ("mail", 1, 100)
    assert len(report.pictures) == 3
    assert (await perform(stats, queues=["orders"])).rows == 10

    page = tmp_path / "report.html"
    write_page(str(page), "<all>", [report, Report("more", 0, {"a": None}, {"t": Table.of(("x",), [("<b>",)])})])
    text = page.read_text()
    assert text.count("<svg") == 3
    assert "&lt;all&gt;" in text
    assert "<b>" not in text


async def test_traces_show_paths_latencies_and_where_they_stop(push, perform):
    ids = [str(uuid.uuid4()) for _ in range(3)]
    for number, trace in enumerate(ids):
        for queue in ("intake", "payment", "mail")[: 3 - (number == 2)]:
            await push(queue, "p", {"n": number}, trace_id=trace)
    await push("intake", "p", "without a trace")
    report = await perform(traces)
    assert report.facts["traces"] == 3
    paths = {row["path"]: row["traces"] for row in report.tables["paths"].records()}
    assert paths == {"intake → payment → mail": 2, "intake → payment": 1}
    assert report.tables["where traces stop"].rows == [("mail", 2), ("payment", 1)]
    steps = {(row["from"], row["to"]): row for row in report.tables["steps"].records()}
    assert {step: row["times"] for step, row in steps.items()} == {("intake", "payment"): 3, ("payment", "mail"): 2}
    assert all(0 <= row["p50_ms"] <= row["p95_ms"] <= row["p99_ms"] for row in steps.values())
    assert set(report.pictures) == {"Time of each step", "Where traces stop"}


async def test_triage_groups_dead_letters_by_error_and_shape(push, perform, engine):
    await push("orders", "ann", {"id": 1}, {"id": 2.5}, {"id": 3, "note": "x"}, {"other": True})
    await give_up(
        engine, "orders", "timeout after 30 s: order 'a'", "timeout after 31 s: order 'b'", "timeout after 9 s", None
    )
    report = await perform(triage)
    assert report.facts["worth a redrive"] == 3
    kinds = {(row["error"], row["letters"]): row["suggestion"] for row in report.tables["kinds"].records()}
    assert kinds == {
        ("timeout after <n> s: order <text>", 2): "redrive: the cause was outside the message",
        ("timeout after <n> s", 1): "redrive: the cause was outside the message",
        ("(no error was given)", 1): OTHERWISE,
    }
    assert len({row["payload"] for row in report.tables["kinds"].records()}) == 3
    assert (await perform(triage, dry_run=True)).facts["dead_letters"] == 4


async def test_triage_passes_over_what_it_cannot_decrypt_and_counts_it(database, perform, monkeypatch):
    settings = Settings.load({}, upkeep="false", encryption_keys=f"old:{'A' * 43}=")
    async with Engine(database, settings) as engine:
        await engine.admin.configure_queue("secrets", encryption_enabled=True)
        await engine.push([Outgoing("secrets", b'{"pin": 1}'), Outgoing("secrets", b'{"pin": 2}')])
        await give_up(engine, "secrets", "timeout", "timeout")
        await engine.push([Outgoing("plain", b'{"pin": 3}')])
        await give_up(engine, "plain", "timeout")
    monkeypatch.setenv("QUEEN_ENCRYPTION_KEYS", f"old:{'B' * 43}=")  # another key of the same name
    report = await perform(triage)
    assert (report.facts["dead_letters"], report.facts["not decrypted"]) == (3, 2)
    kinds = {(row["queue"], row["letters"], row["payload"]) for row in report.tables["kinds"].records()}
    assert kinds == {("secrets", 2, HIDDEN), ("plain", 1, "OBJECT<pin: NUMBER>")}
    assert {row["payload"] for row in report.tables["samples"].records()} == {HIDDEN, '{"pin": 3}'}


@pytest.mark.parametrize(
    ("error", "word"),
    [
        ("HTTP 503", "redrive"),
        ("card refused", "look"),
        ("connection to db refused", "redrive"),
        ("KeyError: 'total'", "fix"),
        ("customer 7 not found", "look"),
        ("boom", "look"),
    ],
)
def test_an_error_is_judged_by_its_words(error, word):
    assert suggest(error).startswith(word)


async def test_schema_is_learned_with_nulls_and_variants(push, perform, tmp_path):
    await push(
        "order-lines", "ann",
        {"id": 1, "price": 1.5, "who": {"name": "Ann", "vip": True}, "tags": ["a"], "class": "x"},
        {"id": 2, "price": 2.5, "who": {"name": None}, "code": 7, "tags": []},
        {"id": 3, "price": 0.5, "who": {"name": "Bob"}, "code": "7"},
    )  # fmt: skip
    ddl, model = tmp_path / "orders.ddl", tmp_path / "orders.py"
    report = await perform(schema, queue="order-lines", ddl=str(ddl), model=str(model))
    fields = {row["field"]: row for row in report.tables["fields"].records()}
    assert (fields["id"]["type"], fields["id"]["missing"]) == ("bigint", 0)
    assert (fields["who.name"]["present"], fields["who.name"]["null"]) == (3, 1)
    assert (fields["who.vip"]["missing"], fields["tags"]["missing"]) == (2, 1)
    assert (fields["code"]["type"], fields["code"]["variants"]) == ("variant", "BIGINT, STRING")
    assert "`id` bigint" in ddl.read_text()
    names = {}
    exec(compile(model.read_text(), "model", "exec"), names)
    order = msgspec.json.decode(
        b'{"id": 1, "price": 2, "who": {"name": "Ann"}, "class": "x"}', type=names["OrderLines"]
    )
    assert (order.id, order.who.name, order.field_class, order.tags) == (1, "Ann", "x", None)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"price": 2, "who": {}}', type=names["OrderLines"])


async def test_payloads_that_are_no_objects_have_a_type_and_no_model(push, perform, engine, tmp_path):
    await push("numbers", "ann", 1, 2)
    assert (await perform(schema, queue="numbers")).facts["ddl"] == "bigint"
    with pytest.raises(InvalidPayload):
        await perform(schema, queue="numbers", model=str(tmp_path / "model.py"))
    with pytest.raises(InvalidPayload, match="no messages"):
        await perform(schema, queue="numbers", where="offset > 7")
