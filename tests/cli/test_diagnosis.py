"""queen why, verify, doctor and settings."""

import asyncpg
import pytest

from tests.fixtures.clusters import run_apart


@pytest.fixture
def execute(shop):
    """Do something to the server's database behind its back."""

    def run(statement, *arguments):
        async def once():
            connection = await asyncpg.connect(shop[1])
            await connection.execute(statement, *arguments)
            await connection.close()

        run_apart(once())

    return run


def test_why_explains_in_a_table_and_in_json(either, queue):
    assert f'there is no queue "{queue}"' in either("why", queue, status=1).err
    either("push", queue, "1", "2", "--partition", "ann")
    either("pop", queue, "--group", "g", "--keep")
    [head, line] = either("why", queue, "--group", "g").lines
    assert head.split() == ["partition", "cause", "until", "messages", "why"]
    assert line.startswith("ann")
    assert "leased" in line
    assert "a consumer holds it since" in line
    [reason] = either("why", queue, "--partition", "ann", "--group", "g", "--json").json
    assert (reason["partition"], reason["cause"], reason["messages"]) == ("ann", "leased", 1)
    assert either("why", queue, "-p", "bob", "--group", "g", "--json").json[0]["cause"] == "no_partition"


def test_why_looks_at_as_many_partitions_as_it_is_told(queen, queue):
    queen("push", queue, '{"p": "a"}', '{"p": "b"}', "--key", "p")
    queen("pop", queue)
    assert len(queen("why", queue, "--json").json) == 2
    assert len(queen("why", queue, "--limit", "1", "--json").json) == 1


def test_verify_ends_with_1_on_any_difference(either, queue, execute):
    either("push", queue, "1", "2")
    either("pop", queue)
    told = either("verify", queue)
    assert told.lines[0].split()[2:] == ["partitions", "pushed", "completed", "leased", "pending", "balanced"]
    assert told.lines[-1] == "Everything adds up."
    [line] = either("verify", queue, "--json").json["ledger"]
    assert (line["pushed"], line["completed"], line["pending"], line["balanced"]) == (2, 1, 1, True)
    change = """update queen.partition_consumers c set completed = completed + $1
                  from queen.partition_lookup l join queen.queues q on q.id = l.queue_id
                 where l.partition_id = c.partition_id and q.name = $2"""
    execute(change, 1, queue)
    told = either("verify", status=1)
    assert "Differences: 1." in told.out
    assert "2 completed + 0 dead-lettered" in told.out
    assert not either("verify", queue, "--json", status=1).json["consistent"]
    execute(change, -1, queue)
    assert either("verify").lines[-1] == "Everything adds up."


def test_the_doctor_looks_and_finds(either, execute):
    # Test clusters run without fsync: a real problem, found.
    checks = {check["name"]: check for check in either("doctor", "--json", status=1).json["checks"]}
    assert checks["fsync"]["severity"] == "problem"
    assert checks["connection"]["severity"] == checks["schema"]["severity"] == "ok"
    table = either("doctor", status=1).out
    assert "Turn it on" in table


def test_the_doctor_does_not_migrate(queen, blank_database):
    told = queen("doctor", "--json", at=["--dsn", blank_database], status=1).json
    assert "Queen is not installed in this database" in [check["detail"] for check in told["checks"]]


def test_the_doctor_compares_versions_and_clocks(queen):
    checks = {check["name"]: check for check in queen("doctor", "--json", status=1).json["checks"]}
    assert checks["version"]["severity"] == checks["clock of the server"]["severity"] == "ok"


def test_settings_are_shown_with_their_source_and_without_secrets(queen, monkeypatch):
    monkeypatch.setenv("QUEEN_PORT", "7000")
    monkeypatch.setenv("QUEEN_DSN", "postgresql://u:geheim@host/queen")
    monkeypatch.setenv("QUEEN_TOKEN", "streng-geheim")
    shown = queen("settings", "--json", at=[])
    assert "geheim" not in shown.out
    settings = {each["setting"]: (each["value"], each["source"]) for each in shown.json}
    assert settings["QUEEN_PORT"] == ("7000", "environment")
    assert settings["QUEEN_DSN"] == ("postgresql://u:***@host/queen", "environment")
    assert settings["QUEEN_WORKERS"] == ("0", "default")
    changed = queen("settings", "--changed", at=[]).lines[1:]
    assert [line.split()[0] for line in changed] == ["QUEEN_DSN", "QUEEN_PORT", "QUEEN_TOKEN"]


def test_a_setting_that_does_not_exist_is_answered_with_the_nearest(queen, monkeypatch):
    monkeypatch.setenv("QUEEN_PROT", "7000")
    assert "did you mean QUEEN_PORT" in queen("settings", at=[], status=1).err
