"""queen queues, queue, groups, group and lag."""

import asyncpg
import pytest

from tests.fixtures.clusters import run_apart


def listed(outcome, **wanted):
    """The only element of a JSON list that has these values."""
    [found] = [each for each in outcome.json if wanted.items() <= each.items()]
    return found


def test_queues_are_listed_with_what_they_hold(either, queue):
    either("push", queue, "1", "2", "3")
    either("pop", queue, "--keep")
    found = listed(either("queues", "--json"), name=queue)
    assert (found["partitions"], found["messages"]["stored"], found["messages"]["processing"]) == (1, 3, 1)
    [head, line] = either("queues", queue).lines
    assert head.split()[:2] == ["queue", "namespace"]
    assert line.split() == [queue, "1", "3", "2", "1", "0", "0"]
    assert either("queues", "no-queue-is-called-so").out == "There is no such queue.\n"


def test_queues_can_be_narrowed_down(queen, queue):
    queen("queue", "create", queue, "--namespace", f"{queue}-n", "--task", f"{queue}-t")
    queen("queue", "create", f"{queue}-other")
    for option in (["--namespace", f"{queue}-n"], ["--task", f"{queue}-t"], [queue, "--limit", "1"]):
        assert [each["name"] for each in queen("queues", *option, "--json").json] == [queue]


def test_a_queue_is_created_once_with_its_settings(either, queue):
    told = either("queue", "create", queue, "lease_seconds=60", "retention_enabled=false", "--json").json
    assert (told["lease_seconds"], told["retention_enabled"], told["retry_limit"]) == (60, False, 3)
    assert f'there is a queue "{queue}"' in either("queue", "create", queue, status=1).err


def test_a_queue_is_configured_only_if_it_is_there(either, queue):
    assert "there is no queue" in either("queue", "configure", queue, "retry_limit=5", status=1).err
    either("queue", "create", queue, "lease_seconds=60")
    told = either("queue", "configure", queue, "retry_limit=5", "--namespace", "shop", "--json").json
    assert (told["lease_seconds"], told["retry_limit"]) == (60, 5)
    shown = either("queue", "show", queue, "--json").json
    assert (shown["queue"]["namespace"], shown["queue"]["settings"]["retry_limit"]) == ("shop", 5)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "name what to change"),
        (["retry_limit"], "is not name=value"),
        (["retry_limits=1"], "did you mean retry_limit?"),
        (["retry_limit=many"], "Expected `int`"),
    ],
)
def test_settings_that_make_no_sense_are_not_understood(queen, queue, options, sentence):
    assert sentence in " ".join(queen("queue", "configure", queue, *options, status=2).err.replace("│", " ").split())


def test_a_queue_is_shown_with_its_partitions(queen, queue):
    queen("push", queue, '{"p": "ann"}', '{"p": "bob"}', "--key", "p")
    shown = queen("queue", "show", queue).out
    assert "lease_seconds" in shown
    assert "2 stored: 2 pending, 0 leased, 0 completed; 0 dead letters" in shown
    assert [each["name"] for each in queen("queue", "show", queue, "--json").json["partitions"]] == ["ann", "bob"]
    assert len(queen("queue", "show", queue, "--limit", "1", "--json").json["partitions"]) == 1
    assert "there is no queue" in queen("queue", "show", "nowhere", status=1).err


def test_a_queue_is_deleted_when_somebody_says_so(either, queue):
    either("push", queue, "1")
    refused = either("queue", "delete", queue, status=2).err
    assert refused == f"Delete the queue {queue} with all its messages? There is no terminal to ask: say --yes.\n"
    assert either("queue", "delete", queue, "--yes").out == f"Deleted {queue}.\n"
    assert "there is no queue" in either("queue", "delete", queue, "--yes", status=1).err


def test_groups_are_listed_with_how_far_they_are_behind(either, queue):
    either("push", queue, "1", "2", "3")
    either("pop", queue, "--group", "billing")
    found = listed(either("groups", "--json"), queue=queue)
    assert (found["name"], found["lag_messages"], found["subscription_mode"]) == ("billing", 2, "all")
    assert either("groups", queue).lines[1].split()[:4] == ["billing", queue, "0", "2"]


@pytest.mark.parametrize(
    "command",
    ["groups nowhere", "lag --queue nowhere", "verify nowhere", "pop nowhere", "why nowhere", "tail nowhere",
     "queue show nowhere", "dlq list --queue nowhere", "dlq redrive --queue nowhere", "dlq purge --queue nowhere --yes",
     "group seek g nowhere --to end --yes", "group delete g nowhere --yes"],
)  # fmt: skip
def test_a_command_about_a_queue_that_does_not_exist_ends_with_1(either, command):
    assert 'there is no queue "nowhere"' in either(*command.split(), status=1).err


def test_lag_is_told_by_group_and_by_partition(either, queue):
    either("push", queue, '{"p": "ann"}', '{"p": "bob"}', '{"p": "bob"}', "--key", "p")
    group = f"{queue}-g"
    either("pop", queue, "--group", group, "--partition", "ann")
    either("pop", queue, "--group", group, "--partition", "bob")
    [lag] = either("lag", "--queue", queue, "--json").json
    assert (lag["group"], lag["partition"], lag["messages"]) == (group, None, 1)
    assert lag["seconds"] > 0
    places = either("lag", group, "--json").json
    assert {each["partition"]: each["messages"] for each in places} == {"ann": 0, "bob": 1}
    assert len(either("lag", group, "--limit", "1", "--json").json) == 1
    assert either("lag", group, "--min-seconds", "3600").out == "Nobody is behind.\n"
    assert "there is no group" in either("lag", "nobody", status=1).err


def test_a_queue_that_no_group_reads_shows_with_its_backlog(either, queue):
    either("push", queue, '{"p": "ann"}', '{"p": "bob"}', '{"p": "bob"}', "--key", "p")
    [lag] = either("lag", "--queue", queue, "--json").json
    assert (lag["group"], lag["partition"], lag["messages"]) == (None, None, 3)
    assert lag["seconds"] > 0
    assert either("lag", "--queue", queue).lines[1].split()[:4] == [queue, "(nobody)", "-", "3"]
    assert either("lag", "--queue", queue, "--min-seconds", "3600").out == "Nobody is behind.\n"
    group = listed(either("groups", "--json"), queue=queue)
    assert (group["name"], group["lag_messages"], group["partitions_with_lag"], group["state"]) == (
        None,
        3,
        2,
        "Unread",
    )
    assert either("groups", queue).lines[1].split() == ["(nobody)", queue, "0", "3", "-", "-", "Unread"]
    either("pop", queue, "--group", "g", "--partition", "ann")
    assert [(each["name"], each["lag_messages"]) for each in either("groups", queue, "--json").json] == [
        ("g", 0),
        (None, 2),
    ]
    either("pop", queue, "--group", "g")
    assert [each["group"] for each in either("lag", "--queue", queue, "--json").json] == ["g"]
    assert [each["name"] for each in either("groups", queue, "--json").json] == ["g"]


def test_a_group_is_moved(either, queue):
    either("push", queue, "0", "1", "2")
    group = ["--group", "g"]
    either("pop", queue, *group, "--batch", "3")
    either("group", "seek", "g", queue, "--to", "beginning", status=2)
    told = either("group", "seek", "g", queue, "--to", "beginning", "--yes").out
    assert told == f"Moved g in 1 partition of {queue} to the beginning.\n"
    assert either("pop", queue, *group, "--json").json["payload"] == 0
    either("group", "seek", "g", queue, "--offset", "2", "--partition", "Default", "--yes")
    assert either("pop", queue, *group, "--json").json["payload"] == 2
    either("group", "seek", "g", queue, "--to", "2001-01-01T00:00:00Z", "--yes")
    assert either("pop", queue, *group, "--json").json["payload"] == 0
    moved = either("group", "seek", "g", queue, "--to", "end", "--yes", "--json").json
    assert moved == {"group": "g", "queue": queue, "partitions": 1}
    assert either("pop", queue, *group).out == ""


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ([], "say where to"),
        (["--to", "end", "--offset", "1"], "say where to"),
        (["--offset", "1"], "name it with --partition"),
        (["--to", "noon"], "is not a moment"),
        (["--to", "2030-01-31T12:00:00"], "no time zone"),
        (["--to", "middle"], "takes beginning and end"),
    ],
)
def test_a_target_that_makes_no_sense_is_not_understood(queen, target, sentence):
    said = queen("group", "seek", "g", "q", *target, "--yes", status=2).err
    assert sentence in " ".join(said.replace("│", " ").split())


def test_a_group_that_seeks_a_moment_in_the_future_skips_what_is_pushed_before(either, queue):
    either("push", queue, "0", "1")
    either("pop", queue, "--group", "g", "--keep")
    future = ("--to", "2130-01-31T12:00:00Z")
    asked = either("group", "seek", "g", queue, *future, status=2).err
    assert "to 2130-01-31 12:00:00Z, which is in the future: messages that are pushed before are skipped?" in asked
    told = either("group", "seek", "g", queue, *future, "--yes").out
    assert told.startswith(f"Moved g in 1 partition of {queue} to 2130-01-31 12:00:00Z, which is in the future")
    either("push", queue, "2")
    assert either("pop", queue, "-g", "g", "-n", "9", "--json").json_lines == []


def test_a_group_is_forgotten(either, queue):
    group = f"{queue}-g"
    either("push", queue, "1", "2")
    either("pop", queue, "--group", group)
    either("group", "delete", group, status=2)
    assert either("group", "delete", group, queue, "--yes").out == f"Forgot {group} on 1 queue.\n"
    assert "there is no group" in either("group", "delete", group, "--yes", status=1).err
    assert either("pop", queue, "--group", group, "--json").json["payload"] == 1


def test_a_forgotten_group_can_keep_its_subscription(queen, queue, shop):
    queen("push", queue, "1")
    queen("pop", queue, "--group", "g")
    count = "select count(*) from queen.consumer_groups_metadata where queue_name = $1"
    queen("group", "delete", "g", queue, "--keep-subscription", "--yes")
    assert rows(shop[1], count, queue) == 1
    queen("pop", queue, "--group", "g")
    queen("group", "delete", "g", queue, "--yes", "--json")
    assert rows(shop[1], count, queue) == 0


def rows(dsn, query, *arguments):
    async def ask():
        connection = await asyncpg.connect(dsn)
        found = await connection.fetchval(query, *arguments)
        await connection.close()
        return found

    return run_apart(ask())


def test_a_paused_queue_is_shown_as_such_and_resumed(either, queue):
    either("push", queue, "1")
    either("pop", queue, "--group", "billing", "--keep")
    assert either("pause", queue).out == f"Deliveries of {queue} are paused.\n"
    assert either("pause", queue).out == f"Deliveries of {queue} were paused already.\n"
    assert either("queues", queue).lines[1].split()[-1] == "paused"
    assert either("groups", queue).lines[1].split()[-1] == "Paused"
    assert either("lag", "billing", "--queue", queue).lines[1].split()[-1] == "paused"
    assert "queue paused" in either("why", queue, "--group", "billing").out
    told = either("resume", queue, "--json").json
    assert told == {"queue": queue, "group": None, "paused": False, "changed": True}
    assert either("pause", queue, "--group", "billing").out == f"Deliveries of {queue} to billing are paused.\n"
    assert either("resume", queue, "-g", "billing").out == f"Deliveries of {queue} to billing are resumed.\n"
    assert "there is no queue" in either("pause", "nowhere", status=1).err
