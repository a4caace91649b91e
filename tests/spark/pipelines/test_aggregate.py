"""An aggregation pushes every window once, and late messages where they belong."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.errors import InvalidArgument, QueueNotFound
from queenmq.model import Outgoing
from queenmq.spark.pipelines.aggregate import aggregate
from queenmq.spark.pipelines.aggregation import load_aggregation
from tests.fixtures.clusters import run_apart

SPEC = """
from = "orders"
to = "totals"
payload = "customer string, total double, at timestamp"
event_time = "at"
watermark = "10 minutes"
ahead = "2 minutes"
late = "late-orders"
by = ["customer"]
partition_by = "customer"

[window]
size = "1 minute"

[values]
orders = "count(*)"
revenue = "sum(total)"
"""


def spec(tmp_path, text=SPEC):
    path = tmp_path / "totals.toml"
    path.write_text(text)
    return str(path)


def order(customer, total, minutes_ago):
    moment = datetime.now(UTC).replace(second=30, microsecond=0) - timedelta(minutes=minutes_ago)
    return {"customer": customer, "total": total, "at": moment.isoformat()}


def counted(report):
    return {name: report.facts[name] for name in ("read", "windows pushed", "late", "still open")}


@pytest.fixture
def shop(database, job):
    """Push orders, aggregate them, and look at a queue; Spark starts queries in the thread that has its session."""
    return Shop(database, job)


class Shop:
    def __init__(self, dsn, job):
        self._dsn, self._job = dsn, job

    def push(self, *payloads, minutes_ago=0):
        async def work():
            async with Engine(self._dsn, Settings.load({}, upkeep="false")) as engine:
                await engine.push([Outgoing("orders", json.dumps(each).encode(), "p") for each in payloads])

        run_apart(work())
        self.ask("update queen.segments set created_at = created_at - make_interval(mins => $1)", minutes_ago)

    def aggregate(self, file, checkpoint="unused", *, dry_run=False, **options):
        with self._job("aggregate", dry_run=dry_run) as opened:
            return aggregate(opened, file=file, checkpoint=str(checkpoint), **options)

    def ask(self, query, *arguments):
        with self._job("look", dry_run=True) as opened:
            return opened.connection.rows(query, *arguments)

    def queue(self, name):
        query = 'select partition, payload from queen.messages where queue = $1 order by partition, "offset"'
        return [(row["partition"], json.loads(row["payload"])) for row in self.ask(query, name)]


def test_windows_are_pushed_once_and_late_messages_elsewhere(shop, tmp_path):
    file, checkpoint = spec(tmp_path), tmp_path / "checkpoint"
    timely = order("ann", 1, 69), order("ann", 2, 69), order("bob", 5, 69)
    late, early = order("ann", 7, 120), order("ann", 8, 40)
    shop.push(*timely, late, early, "nothing of the kind", minutes_ago=60)
    assert counted(shop.aggregate(file, checkpoint)) == {"read": 6, "windows pushed": 0, "late": 3, "still open": 2}
    assert [value for _, value in shop.queue("late-orders")] == [late, early, "nothing of the kind"]
    assert shop.queue("totals") == []
    shop.push(order("ann", 0, 0))  # time goes on: the first windows are final
    assert counted(shop.aggregate(file, checkpoint)) == {"read": 1, "windows pushed": 2, "late": 0, "still open": 1}
    assert counted(shop.aggregate(file, checkpoint)) == {"read": 0, "windows pushed": 0, "late": 0, "still open": 1}
    found = shop.queue("totals")
    assert [(who, value["customer"], value["orders"], value["revenue"]) for who, value in found] == [
        ("ann", "ann", 2, 3.0),
        ("bob", "bob", 1, 5.0),
    ]
    assert all(value["window_start"] < value["window_end"] for _, value in found)
    assert [row["messages"] for row in shop.ask("select messages from queen.lag order by group_name")] == [0, 0]


def test_windows_may_slide_and_sessions_end_after_a_gap(shop, tmp_path):
    shop.push(order("ann", 1, 69), order("ann", 2, 68), minutes_ago=60)
    shop.push(order("ann", 4, 0))
    plain = SPEC.replace('late = "late-orders"', 'group = "mine"').replace('partition_by = "customer"', "")
    sliding = plain.replace('size = "1 minute"', 'size = "2 minutes"\nslide = "1 minute"')
    shop.aggregate(spec(tmp_path, sliding), tmp_path / "sliding")
    assert sorted((value["orders"], value["revenue"]) for _, value in shop.queue("totals")) == [
        (1, 1.0),
        (1, 2.0),
        (2, 3.0),
    ]
    assert {who for who, _ in shop.queue("totals")} == {"Default"}
    assert [row["name"] for row in shop.ask("select name from queen.queue_groups")] == ["mine"]
    sessions = (
        plain.replace('size = "1 minute"', 'gap = "5 minutes"').replace("totals", "visits").replace("mine", "its")
    )
    report = shop.aggregate(spec(tmp_path, sessions), tmp_path / "sessions")
    assert counted(report) == {"read": 3, "windows pushed": 1, "late": 0, "still open": 1}
    assert [(value["orders"], value["revenue"]) for _, value in shop.queue("visits")] == [(2, 3.0)]


def test_a_backfill_aggregates_history_and_then_goes_on_as_usual(shop, tmp_path):
    file, checkpoint = spec(tmp_path), tmp_path / "checkpoint"
    hour, day = 60, 24 * 60
    shop.push(*(order("ann", 1, minutes) for minutes in (2 * day, 2 * hour, 3 * day, day)), order("bob", 5, hour))
    shop.push({"customer": "ann", "total": 1})
    assert counted(shop.aggregate(file, checkpoint, backfill=True)) == {
        "read": 6, "windows pushed": 4, "late": 1, "still open": 1,
    }  # fmt: skip
    assert [(value["customer"], value["orders"], value["revenue"]) for _, value in shop.queue("totals")] == [
        ("ann", 1, 1.0)
    ] * 4
    assert [value for _, value in shop.queue("late-orders")] == [{"customer": "ann", "total": 1}]
    late = order("bob", 7, day)
    shop.push(order("ann", 1, 0), late)  # pushed after the backfill began: the usual rule decides
    assert counted(shop.aggregate(file, checkpoint)) == {"read": 2, "windows pushed": 1, "late": 1, "still open": 1}
    assert [value for _, value in shop.queue("late-orders")][1:] == [late]
    assert "warning" not in shop.aggregate(file, tmp_path / "another", backfill=True).facts


def test_a_run_that_pushes_no_window_says_why(shop, tmp_path):
    file = spec(tmp_path)
    shop.push(order("ann", 1, 600), order("ann", 2, 700))
    report = shop.aggregate(file, tmp_path / "usual")
    assert counted(report) == {"read": 2, "windows pushed": 0, "late": 2, "still open": 0}
    assert "all messages were late" in report.facts["warning"]
    assert "in their field at" in report.facts["warning"]
    assert "--backfill and another --checkpoint" in report.facts["warning"]
    assert 'nothing new in "orders"' in shop.aggregate(file, tmp_path / "usual").facts["warning"]
    shop.push(order("ann", 1, 0))
    assert "10 minutes and 2 minutes after its end" in shop.aggregate(file, tmp_path / "usual").facts["warning"]


def test_a_backfill_has_a_checkpoint_of_its_own_and_an_event_time(shop, tmp_path):
    shop.push(order("ann", 1, 600))
    shop.aggregate(spec(tmp_path), tmp_path / "usual")
    with pytest.raises(InvalidArgument, match="usual has begun without --backfill"):
        shop.aggregate(spec(tmp_path), tmp_path / "usual", backfill=True)
    with pytest.raises(InvalidArgument, match="needs event_time"):
        shop.aggregate(spec(tmp_path, SPEC.replace('event_time = "at"', "")), tmp_path / "new", backfill=True)
    shop.aggregate(spec(tmp_path), tmp_path / "dry", backfill=True, dry_run=True)
    assert not (tmp_path / "dry").exists()


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ('from = "orders"', "", "from"),
        ("[window]", "[windows]", "windows"),
        ('size = "1 minute"', "", "size"),
        ('size = "1 minute"', 'gap = "1 minute"\nslide = "1 minute"', "slide"),
        ('partition_by = "customer"', 'partition_by = "total"', "partition_by"),
        ('by = ["customer"]', 'by = ["customer", "orders"]', "twice"),
        ("[window]", 'emit = "sometimes"\n[window]', "emit"),
        ("orders = ", "window_end = ", "twice"),
        ('to = "totals"', "to = ", "no aggregation"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(tmp_path, before, after, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        load_aggregation(spec(tmp_path, SPEC.replace(before, after)))


def test_what_spark_does_not_understand_is_refused(shop, tmp_path):
    with pytest.raises(QueueNotFound):
        shop.aggregate(spec(tmp_path))
    shop.push(1)
    for before, after in (("sum(total)", "sum(totals)"), ("10 minutes", "ten minutes"), ("total double", "total dbl")):
        with pytest.raises(InvalidArgument, match="does not fit Spark"):
            shop.aggregate(spec(tmp_path, SPEC.replace(before, after)))
    assert shop.aggregate(spec(tmp_path), dry_run=True).facts["dry_run"]
    assert shop.ask("select 1 from queen.queues where name = 'totals'") == []
