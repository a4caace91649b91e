"""queen dlq, trace and status."""

import json
from uuid import uuid4

import httpx
import pytest


@pytest.fixture
def http(shop):
    with httpx.Client(base_url=f"{shop[0].url}/api/v1") as client:
        yield client


@pytest.fixture
def letters(queen, queue, http):
    """Two dead letters in the queue, the newest first: their ids."""
    for value in (1, 2):
        queen("push", queue, json.dumps(value))
        message = queen("pop", queue, "--keep", "--json").json
        partition = queen("queue", "show", queue, "--json").json["partitions"][0]["id"]
        answer = http.post(
            "/ack",
            json={
                "transactionId": message["transaction_id"],
                "partitionId": partition,
                "leaseId": message["lease_id"],
                "status": "dlq",
                "error": f"sour \x1b[31m{value}",
            },
        )
        assert answer.json()[0]["dlq"]
    return [each["id"] for each in queen("dlq", "list", "--queue", queue, "--json").json["dead_letters"]]


def test_dead_letters_are_listed(either, queue, letters):
    page = either("dlq", "list", "--queue", queue, "--json").json
    assert page["total"] == 2
    assert [each["payload"] for each in page["dead_letters"]] == [2, 1]
    lines = either("dlq", "list", "--queue", queue, "--limit", "1").lines
    assert "sour \\x1b[31m2" in lines[1]
    assert lines[-1] == "1 of 2"
    assert either("dlq", "list", "--queue", queue, "--group", "nobody").out == "There are no dead letters.\n"


def test_a_dead_letter_is_shown_with_its_payload_and_error(either, letters):
    shown = either("dlq", "show", letters[1]).out
    assert "sour \\x1b[31m1" in shown
    assert shown.splitlines()[-1].split() == ["payload", "1"]
    assert either("dlq", "show", letters[1], "--json").json["payload"] == 1
    assert "there is no dead letter" in either("dlq", "show", str(uuid4()), status=1).err


def test_dead_letters_are_redriven_by_id_or_all_of_a_queue(queen, queue, letters):
    assert queen("dlq", "redrive", letters[0]).out == "Redrove 1 dead letter.\n"
    assert queen("pop", queue, "--json").json["payload"] == 2
    assert queen("dlq", "redrive", "--queue", queue, "--limit", "5", "--json").json == {"redriven": 1}
    assert queen("pop", queue, "--json").json["payload"] == 1


def test_dead_letters_are_redriven_oldest_first_and_only_those_of_a_group(queen, queue, letters):
    assert queen("dlq", "redrive", "--group", "nobody", "--json").json == {"redriven": 0}
    assert queen("dlq", "redrive", "--queue", queue, "--limit", "1", "--json").json == {"redriven": 1}
    assert [each["id"] for each in queen("dlq", "list", "--queue", queue, "--json").json["dead_letters"]] == letters[:1]
    assert queen("dlq", "purge", "--queue", queue, "--group", "nobody", "--yes", "--json").json == {"purged": 0}


def test_dead_letters_are_purged_when_somebody_says_so(either, queue, letters):
    assert "for good?" in either("dlq", "purge", letters[0], status=2).err
    assert either("dlq", "purge", letters[0], "--yes").out == "Deleted 1 dead letter.\n"
    assert (
        either("dlq", "purge", "-q", queue, "--older-than", "2001-01-01T00:00:00Z", "-y", "--json").json["purged"] == 0
    )
    assert either("dlq", "purge", "--queue", queue, "--yes", "--json").json == {"purged": 1}


@pytest.mark.parametrize("command", [["redrive"], ["purge", "--yes"]])
def test_dead_letters_that_do_not_exist_are_not_found(either, command):
    assert "there is no dead letter" in either("dlq", *command, "00000000-0000-0000-0000-0000ffffffff", status=1).err


@pytest.mark.parametrize("command", ["redrive", "purge"])
def test_nothing_is_done_to_all_dead_letters_at_once(queen, command):
    assert "name dead letters" in queen("dlq", command, status=2).err


def test_a_trace_is_told_as_a_timeline(either, queue, http):
    trace = str(uuid4())
    for number, step in enumerate(("bills", "letters")):
        items = [{"queue": f"{queue}-{step}", "payload": {"n": number}, "traceId": trace}]
        assert http.post("/push", json={"items": items}).status_code == 201
    steps = either("trace", trace, "--json").json
    assert [(each["step"], each["queue"], each["payload"]) for each in steps] == [
        (1, f"{queue}-bills", {"n": 0}),
        (2, f"{queue}-letters", {"n": 1}),
    ]
    [_, first, second, _, summary] = either("trace", trace).lines
    assert first.startswith("●─")
    assert "─●" in second
    assert "+0." in second
    assert summary.startswith("2 messages in 0.")
    assert "no stored message" in either("trace", str(uuid4()), status=1).err
    refusal = either("trace", "nix", status=1).err
    assert "the trace id is not a UUID: 'nix'" in refusal
    assert "leave it out" not in refusal


def test_status_tells_how_things_stand(either, queue, http):
    either("push", queue, "1")
    told = either("status", "--json").json
    assert told["overview"]["queues"] >= 1
    assert told["pops_paused"] is False
    lines = {line.split("  ")[0]: line for line in either("status").lines}
    assert {"version", "postgresql", "queues", "pending", "pops"} <= lines.keys()
    assert lines["pops"].split() == ["pops", "served"]
