"""A run is recorded, whatever becomes of it; what is wrong with a request is said before Spark starts."""

import json
from dataclasses import replace

import pytest
from pyspark.errors import PySparkException

from queenmq.errors import DatabaseUnavailable, InvalidArgument, QueueNotFound
from queenmq.spark.connection import Connection
from queenmq.spark.pipelines.job import Job, Progress, recorded_runs
from queenmq.spark.pipelines.jobs import JOBS, PipelineFailed, perform
from queenmq.spark.pipelines.schedule import load_schedule, run_schedule
from tests.waits import until_now

NO_SPARK = "spark://127.0.0.1:1"  # whoever starts Spark here fails


def test_a_run_is_recorded_with_its_arguments_and_its_end(database):
    with Job("first", {"queues": ["a"]}, dsn=database) as job:
        [running] = recorded_runs(database)
        assert (running["state"], running["rows"]) == ("running", None)
        job.tell("reading", 7)
    with pytest.raises(QueueNotFound), Job("second", dsn=database) as job:
        job.queue_id("nowhere")
    second, first = recorded_runs(database)
    assert (first["name"], json.loads(first["arguments"])) == ("first", {"queues": ["a"]})
    assert (first["state"], first["rows"], first["error"]) == ("done", 7, None)
    assert (second["state"], second["error"]) == ("failed", 'there is no queue "nowhere"')
    assert len(recorded_runs(database, 1)) == 1


def test_an_error_is_recorded_without_the_password(database):
    dsn = database.replace("postgres@", "postgres:s3cret@")
    with pytest.raises(ZeroDivisionError), Job("leaky", dsn=dsn):
        raise ZeroDivisionError(f"cannot do it with {dsn}")
    [run] = recorded_runs(database)
    assert "cannot do it" in run["error"]
    assert "s3cret" not in run["error"]


def test_a_run_whose_process_is_gone_is_lost(database):
    job = Job("killed", dsn=database)
    job.__enter__()
    backend = job.connection.value("select pg_backend_pid()")
    job.connection.close()
    with Connection(database) as connection:
        query = "select count(*) = 0 from pg_stat_activity where pid = $1"
        until_now("PostgreSQL has noticed that the process is gone", lambda: connection.value(query, backend))
    assert [run["state"] for run in recorded_runs(database)] == ["lost"]


def test_a_dry_run_is_not_recorded(database):
    with Job("careful", dsn=database, dry_run=True) as job:
        job.tell("reading", 1)
    assert recorded_runs(database) == []


def test_progress_knows_its_rate_and_when_it_ends():
    told = Progress("reading", 100, 300, 10.0)
    assert (told.rate, told.seconds_left) == (10.0, 20.0)
    assert replace(told, total=None).seconds_left is None
    assert replace(told, rows=0).seconds_left is None


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("archiv", {}, 'did you mean "archive"'),
        ("archive", {"queue": ["a"], "location": "b"}, 'did you mean "queues"'),
        ("archive", {"queues": ["a"]}, 'needs the argument "location"'),
    ],
)
def test_what_does_not_exist_is_refused_with_the_nearest_name(database, name, arguments, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        perform(name, arguments, dsn=database)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("[A_CONDITION] in Spark's words.\nmore", "[A_CONDITION] in Spark's words."),
        ("Traceback:\n  File\n queenmq.errors.QueueFull: it is full\n[QN429] hint", "it is full"),
        ("[A_CONDITION] Failed to read: queenmq.errors.QueueFull: it is full\n[QN429] hint", "it is full"),
    ],
)
def test_what_fails_in_spark_is_told_in_one_line(database, monkeypatch, said, told):
    def fail(job):
        raise PySparkException(said)

    monkeypatch.setitem(JOBS, "failing", fail)
    with pytest.raises(PipelineFailed) as raised:
        perform("failing", {}, dsn=database)
    assert str(raised.value) == told
    assert recorded_runs(database)[0]["error"] == told


MINIMAL = {
    "archive": {"queues": ["nowhere"], "location": "unused"},
    "stop-archive": {"queues": ["nowhere"]},
    "history": {"queue": "nowhere"},
    "replay": {"queue": "nowhere", "to": "elsewhere"},
    "stats": {"queues": ["nowhere"]},
    "traces": {"queues": ["nowhere"]},
    "dlq-triage": {"queues": ["nowhere"]},
    "schema": {"queue": "nowhere"},
}


@pytest.mark.parametrize("name", MINIMAL)
def test_a_queue_that_does_not_exist_is_named(database, name):
    with pytest.raises(QueueNotFound, match="nowhere"):
        perform(name, MINIMAL[name], dsn=database, master=NO_SPARK)


def test_every_pipeline_was_asked_for_a_missing_queue():
    assert JOBS.keys() - MINIMAL.keys() == {"aggregate"}  # whose queue is in its file


def test_a_database_that_is_not_there_is_an_error_of_ours(monkeypatch, tmp_path):
    with pytest.raises(DatabaseUnavailable):
        perform("stats", {}, dsn="postgresql://nobody@127.0.0.1:1/nothing", master=NO_SPARK)
    monkeypatch.delenv("QUEEN_DSN", raising=False)
    monkeypatch.setenv("QUEEN_DATA_DIR", str(tmp_path))
    with pytest.raises(DatabaseUnavailable, match="no private PostgreSQL runs") as unavailable:
        perform("stats", {}, master=NO_SPARK)
    assert "QUEEN_DSN" in unavailable.value.hint


def schedule(path, text):
    path.write_text(text)
    return load_schedule(str(path))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[[job]", "no schedule"),
        ("[[job]]\nnam = 'stats'", "no schedule"),
        ("[[job]]\nname = 'stats'\n[[job]]\nname = 'starts'", 'did you mean "stats"'),
        ("[[job]]\nname = 'stats'\narguments = {queue = 'a'}", 'no argument "queue"'),
        ("[[job]]\nname = 'stats'\nretries = 1000", "up to 100 retries"),
    ],
)
def test_a_schedule_is_checked_before_anything_runs(tmp_path, text, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        schedule(tmp_path / "pipelines.toml", text)


def test_a_schedule_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InvalidArgument, match="cannot be read"):
        load_schedule(str(tmp_path / "nothing.toml"))


def test_a_schedule_runs_in_order_and_ends_with_the_first_failure(tmp_path, database, spark):
    text = """
    [[job]]
    name = "stats"
    [[job]]
    name = "schema"
    retries = 3
    arguments = {queue = "nowhere"}
    [[job]]
    name = "traces"
    """
    runs = run_schedule(schedule(tmp_path / "pipelines.toml", text), dsn=database)
    assert next(runs).title == "stats"
    with pytest.raises(QueueNotFound):  # which another attempt would not find either
        next(runs)
    assert [(run["name"], run["state"]) for run in recorded_runs(database)] == [("schema", "failed"), ("stats", "done")]


def test_what_is_out_of_reach_is_tried_again(tmp_path, database, spark, connect_blocked):
    text = "[[job]]\nname = 'archive'\nretries = 2\nretry_seconds = 0\narguments = {queues = ['q'], location = 'x'}"
    runs = run_schedule(schedule(tmp_path / "pipelines.toml", text), dsn=database)
    with pytest.raises(Exception, match="being archived"):
        next(runs)
    assert [run["state"] for run in recorded_runs(database)] == ["failed"] * 3


@pytest.fixture
def connect_blocked(database, monkeypatch):
    """A queue that somebody else is archiving, and nobody has the patience to wait for."""
    monkeypatch.setattr("queenmq.spark.connection.LOCK_SECONDS_MAX", 0.0)
    with Job("other", dsn=database, dry_run=True) as other:
        other.connection.rows("select queen.configure_queue('q')")
        queue_id = other.queue_id("q")
        other.connection.value("select pg_advisory_lock(x'517ee8'::int, $1)", queue_id)
        yield
