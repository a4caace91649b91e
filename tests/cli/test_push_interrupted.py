"""Ctrl-C in queen push: the command says exactly what is stored."""

import json
import signal
import subprocess
import sys
import time

import psycopg
import pytest

COMMAND = [sys.executable, "-c", "import sys; from queenmq.cli import main; sys.exit(main())"]
SECONDS_MAX = 60
PARTITIONS = (
    "select from queen.partition_lookup l join queen.queues q on q.id = l.queue_id where q.name = %s for update of l"
)
BLOCKED = "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')"


class Pushing:
    """`queen push` in a process of its own, with a pipe that stays open."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [*COMMAND, "push", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def write(self, lines):
        self.process.stdin.write(lines)
        self.process.stdin.flush()

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def ends(self):
        """See it end although its pipe is still open; gives what it printed."""
        assert self.process.wait(SECONDS_MAX) == 130
        return self.process.stdout.read(), self.process.stderr.read()


@pytest.fixture
def pushing():
    started = []

    def start(*arguments):
        started.append(Pushing(*arguments))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.communicate()


@pytest.fixture
def database(shop):
    """A session on the server's database, in a transaction that is rolled back at the end."""
    with psycopg.connect(shop[1]) as connection:
        yield connection
        connection.rollback()


def until(true):
    deadline = time.monotonic() + SECONDS_MAX
    while not true():
        assert time.monotonic() < deadline


def stored(queen, queue):
    return sum(each["messages"]["stored"] for each in queen("queues", queue, "--json").json if each["name"] == queue)


@pytest.mark.parametrize("place", ["url", "dsn"])
def test_a_push_whose_pipe_is_silent_can_be_interrupted(queen, queue, pushing, request, place):
    push = pushing(queue, "--json", *request.getfixturevalue(place))
    push.write("1\n2\n3\n")
    until(lambda: stored(queen, queue) == 3)
    push.interrupt()
    out, err = push.ends()
    assert err == "Interrupted. Stored: 3 messages, no others.\n"
    assert (json.loads(out)["pushed"], json.loads(out)["interrupted"]) == (3, True)


def test_a_push_that_is_interrupted_while_a_request_is_in_flight_counts_that_request(
    queen, queue, pushing, database, url
):
    queen("push", queue, "0")
    database.execute(PARTITIONS, [queue])
    push = pushing(queue, "--batch", "2", *url)
    push.write("1\n2\n3\n4\n")
    until(lambda: database.execute(BLOCKED).fetchone()[0])
    push.interrupt()
    assert push.process.stderr.readline().startswith("Waiting for the answer to the last request.")
    database.rollback()
    assert push.ends() == ("", "Interrupted. Stored: 2 messages, no others.\n")
    assert stored(queen, queue) == 1 + 2


def test_a_push_that_is_interrupted_twice_does_not_wait_and_says_what_is_not_known(
    queen, queue, pushing, database, url
):
    queen("push", queue, "0")
    database.execute(PARTITIONS, [queue])
    push = pushing(queue, *url)
    push.write("1\n2\n")
    until(lambda: database.execute(BLOCKED).fetchone()[0])
    push.interrupt()
    assert push.process.stderr.readline().startswith("Waiting for the answer")
    push.interrupt()
    assert push.ends()[1] == "Interrupted. Stored: nothing; it is not known whether the next 2 were stored.\n"


def test_a_push_that_is_interrupted_in_the_middle_of_a_large_input_counts_to_the_message(queen, queue, pushing, url):
    push = pushing(queue, "--batch", "10", *url)
    push.write("".join(f"{number}\n" for number in range(5_000)))
    until(lambda: stored(queen, queue) > 0)
    push.interrupt()
    _, err = push.ends()
    told = [line for line in err.splitlines() if line.startswith("Interrupted. Stored: ")]
    assert told == [f"Interrupted. Stored: {stored(queen, queue):,} messages, no others."]


def test_a_push_without_a_server_has_stored_nothing_for_sure(queen, queue, monkeypatch):
    monkeypatch.setenv("QUEEN_RETRY_ATTEMPTS_MAX", "0")
    err = queen("push", queue, "1", at=["--url", "http://127.0.0.1:1"], status=3).err
    assert err.startswith("Stored before the error: nothing.\nqueen push: no server answers at")
