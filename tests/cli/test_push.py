"""queen push and queen pop."""

import json
import os
import shlex
import subprocess
import sys

import pytest

from tests.waits import until_now

COMMAND = [sys.executable, "-c", "import sys; from queenmq.cli import main; sys.exit(main())"]


def payloads(outcome):
    return [message["payload"] for message in outcome.json_lines]


def test_arguments_are_pushed_and_popped_again(either, queue):
    either("push", queue, '{"id": 1}', "2", '"drei"')
    assert payloads(either("pop", queue, "--batch", "10", "--json")) == [{"id": 1}, 2, "drei"]
    empty = either("pop", queue)
    assert empty.out == ""
    assert empty.err.startswith(f"Nothing to take. To find out why:\n  queen why {queue}")


def test_a_pop_that_finds_nothing_suggests_a_command_that_tells_why(queen, queue, url):
    queen("push", queue, "1", "--partition", "ann lee")
    queen("pop", queue, "--group", "g")
    said = queen("pop", queue, "--group", "g", "--partition", "ann lee").err
    assert (
        said
        == f"Nothing to take. To find out why:\n  queen why {queue} --partition 'ann lee' --group g {' '.join(url)}\n"
    )
    command = shlex.split(said.splitlines()[1])
    assert [each["cause"] for each in queen(*command[1:], "--json", at=[]).json] == ["read"]


def test_messages_of_a_namespace_and_of_a_task_are_popped(either, queue):
    for name, label in (("a", "mail"), ("b", "print")):
        either("queue", "create", f"{queue}-{name}", "--namespace", f"{queue}-n", "--task", f"{queue}-{label}")
        either("push", f"{queue}-{name}", f'"{name}"')
    namespace, task = ("--namespace", f"{queue}-n"), ("--task", f"{queue}-print")
    assert payloads(either("pop", *task, "--group", "t", "--json")) == ["b"]
    assert payloads(either("pop", *namespace, *task, "--group", "nt", "--json")) == ["b"]
    assert [*payloads(either("pop", *namespace, "--json")), *payloads(either("pop", *namespace, "--json"))] == [
        "a",
        "b",
    ]
    suggested = [line.split()[:3] for line in either("pop", *namespace).err.splitlines()[1:]]
    assert suggested == [["queen", "why", f"{queue}-a"], ["queen", "why", f"{queue}-b"]]
    unknown = either("pop", "--namespace", "nowhere", "--task", "nothing", status=1).err
    assert 'no queue has the namespace "nowhere" and the task "nothing"' in unknown


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "name a queue, or else --namespace, --task, or both"),
        (["orders", "--task", "t"], "name a queue, or else"),
        (["--task", "t", "--partition", "p"], "--partition belongs to a queue"),
    ],
)
def test_a_pop_says_what_it_can_pop_from(queen, arguments, sentence):
    assert sentence in " ".join(queen("pop", *arguments, status=2).err.replace("│", " ").split())


def test_lines_of_a_file_are_pushed_in_their_order(queen, queue, tmp_path):
    file = tmp_path / "orders.jsonl"
    file.write_text("".join(f'{{"n": {n}}}\n' for n in range(2_500)) + '\n{"n": 2500}')
    told = queen("push", queue, "--file", str(file), "--batch", "1000", "--json").json
    assert (told["pushed"], told["buffered"]) == (2_501, 0)
    taken = queen("pop", queue, "--batch", "10000", "--json")
    assert [each["n"] for each in payloads(taken)] == list(range(2_501))
    assert [each["offset"] for each in taken.json_lines] == list(range(2_501))


def test_lines_of_a_pipe_are_pushed(queen, queue):
    told = queen("push", queue, stdin=b"1\n\n[2]\n")
    assert told.out.startswith(f"2 pushed to {queue} in ")
    assert payloads(queen("pop", queue, "-n", "5", "--json")) == [1, [2]]


def test_what_nobody_reads_is_given_back(queen, queue, url):
    queen("push", queue, "1", "2")
    reads, writes = os.pipe()
    os.close(reads)
    popping = subprocess.run([*COMMAND, "pop", queue, "-n", "2", *url], stdout=writes, check=False)
    os.close(writes)
    assert popping.returncode == 1
    again = queen("pop", queue, "-n", "2", "--json").json_lines
    assert [(each["payload"], each["retry_count"]) for each in again] == [(1, 0), (2, 0)]


def test_a_field_names_the_partition(queen, queue):
    queen("push", queue, '{"who": "ann"}', '{"who": 7}', "--key", "who")
    for partition in ("ann", "7"):
        [message] = queen("pop", queue, "--partition", partition, "--json").json_lines
        assert str(message["payload"]["who"]) == message["partition"] == partition
    for bad in ('{"who": null}', "[]", '{"who": true}', "{}"):
        assert "line 1 has no text or whole number" in queen("push", queue, bad, "--key", "who", status=1).err


def test_a_partition_can_be_named(queen, queue):
    queen("push", queue, "1", "--partition", "ann")
    assert "ann 0  1" in queen("pop", queue).out


def test_a_line_that_is_not_json_is_named_and_what_went_before_is_told(queen, queue):
    said = queen("push", queue, "--batch", "2", stdin=b"1\n2\n3\n{oops\n", status=1).err
    assert "line 4 is not JSON" in said
    assert said.startswith("Stored before the error: 2 messages, no others.\n")
    assert payloads(queen("pop", queue, "-n", "9", "--json")) == [1, 2]
    queen("push", "", "1", status=1)


@pytest.mark.parametrize("options", [(), ("--key", "who")])
def test_blanks_around_and_between_lines_mean_nothing(queen, queue, options):
    text = b'\r\n{"who": 1}\r\n  {"who": 1, "n": [2 , 3]}\t\n \n\n{"who": 1}'
    assert "3 pushed" in queen("push", queue, *options, stdin=text).out
    assert payloads(queen("pop", queue, "-n", "9", "--json")) == [{"who": 1}, {"who": 1, "n": [2, 3]}, {"who": 1}]


def test_a_line_with_two_values_is_named(queen, queue):
    assert "line 2 is not JSON" in queen("push", queue, stdin=b"1\n2,3\n4\n", status=1).err
    assert "line 1 is not JSON" in queen("push", queue, stdin=b"[1\n2]\n", status=1).err


@pytest.mark.parametrize("options", [(), ("--key", "who")])
def test_a_line_that_is_not_text_is_named(queen, queue, options):
    said = queen("push", queue, *options, stdin=b'{"who": "\xc3\xa9"}\n\n{"who": "\xff"}\n', status=1).err
    assert "line 3 is not JSON: 'utf-8' codec" in said


def test_what_is_kept_comes_back_when_its_lease_ends(queen, queue):
    queen("push", queue, "1")
    [message] = queen("pop", queue, "--keep", "--json").json_lines
    [reason] = queen("why", queue, "--json").json
    assert (reason["cause"], reason["lease_id"]) == ("leased", message["lease_id"])
    assert queen("pop", queue).out == ""


def test_a_pop_whose_lease_was_lost_while_it_printed_says_so(queen, queue, shop):
    def is_leased():
        return [each["cause"] for each in queen("why", queue, "--json").json] == ["leased"]

    queen("push", queue, json.dumps("x" * 200_000))  # more than a pipe holds: nobody reads, so it waits
    with subprocess.Popen(
        [*COMMAND, "pop", queue, "--url", shop[0].url], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        until_now("the message is leased", lambda: is_leased() or process.poll() is not None)
        assert process.poll() is None
        queen("group", "seek", "__QUEUE_MODE__", queue, "--to", "beginning", "--yes")
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "1 of 1 messages were printed too late to be acknowledged" in said.decode()


def test_groups_pop_independently(queen, queue):
    queen("push", queue, "1")
    for group in ("a", "b"):
        assert len(queen("pop", queue, "--group", group).lines) == 1


def test_a_pop_waits_as_long_as_it_is_told_and_not_longer(queen, queue):
    queen("queue", "create", queue)
    assert queen("pop", queue, "--wait", "0.1").out == ""


def test_what_a_terminal_would_obey_is_not_printed(queen, queue):
    queen("push", queue, json.dumps("\x1b[2J\u009b")[:-1].replace("\\u009b", "\u009b") + '"')
    said = queen("pop", queue).out
    assert "\u009b" not in said
    assert "\\x9b" in said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["push", "q", "1", "--file", __file__], "not both"),
        (["push", "q", "1", "--dsn", "postgresql://x"], "two places"),
        (["push", "q", "--file", "/nowhere"], "does not exist"),
        (["push"], "Missing argument"),
        (["push", "q", "1", "--url", "db.example"], "such as http://host:6632, not 'db.example'"),
        (["queue", "create", "q", "lease_seconds=long"], "lease_seconds cannot be 'long'"),
        (["queue", "create", "q", "colour=red"], "'colour' is not a setting; there are lease_seconds,"),
        (["pop", "q", "--batch", "0"], "greater than or equal to 1"),
    ],
)
def test_what_makes_no_sense_is_not_understood(queen, url, arguments, sentence):
    at = [] if "--url" in arguments else url
    assert sentence in " ".join(queen(*arguments, at=at, status=2).err.replace("│", " ").split())


def test_a_database_is_not_named_like_a_server(queen):
    assert "postgresql://host/database" in queen("status", at=["--dsn", "http://host"], status=2).err


def test_a_server_out_of_reach_has_a_status_of_its_own(queen, monkeypatch):
    monkeypatch.setenv("QUEEN_RETRY_ATTEMPTS_MAX", "0")
    said = queen("push", "q", "1", at=["--url", "http://127.0.0.1:1"], status=3).err
    assert "queen push: no server answers at http://127.0.0.1:1: Connection refused" in said
    said = queen("push", "q", "1", at=["--dsn", "postgresql://127.0.0.1:1/q"], status=3).err
    assert "queen push: PostgreSQL cannot be reached" in said


def test_the_environment_says_where_the_server_is(queen, queue, shop, monkeypatch):
    monkeypatch.setenv("QUEEN_URL", shop[0].url)
    queen("push", queue, "1", at=[])
    monkeypatch.delenv("QUEEN_URL")
    monkeypatch.setenv("QUEEN_DSN", shop[1])
    assert len(queen("pop", queue, at=[]).lines) == 1
