"""The doctor: what hurts is found, and what does not hurt is not mentioned as if it did."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from queenmq.config import Settings
from queenmq.engine.checkup import CHECKS, FREE_BYTES_MIN, check_up, clock, disk
from queenmq.engine.postgres.database import Database

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
HEALTHY = {
    "version": 18, "version_text": "18.1", "fsync": "on", "full_page_writes": "on", "synchronous_commit": "on",
    "autovacuum": "on", "encoding": "UTF8", "replica": False, "connections_max": 100, "connections": 7,
    "shared_buffers": 2**30, "frozen_age": 1000, "idle_seconds": 0.0,
    "statement_timeout": "30s", "lock_timeout": "10s", "jit": "off", "session_role": "shop",
    "client_min_messages": "notice",
}  # fmt: skip


def complaints(**facts):
    found = [check(HEALTHY | facts) for check in CHECKS]
    assert all((check.hint is None) == (check.severity == "ok") for check in found)
    return [(check.name, check.severity) for check in found if check.severity != "ok"]


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        ({}, []),
        ({"version": 13}, [("PostgreSQL", "problem")]),
        ({"replica": True}, [("role", "problem")]),
        ({"encoding": "SQL_ASCII"}, [("encoding", "problem")]),
        ({"fsync": "off"}, [("fsync", "problem")]),
        ({"full_page_writes": "off"}, [("full_page_writes", "problem")]),
        ({"synchronous_commit": "off"}, [("synchronous_commit", "warning")]),
        ({"autovacuum": "off"}, [("autovacuum", "problem")]),
        ({"connections": 90}, [("connections", "warning")]),
        ({"shared_buffers": 2**24}, [("shared_buffers", "warning")]),
        ({"jit": "on"}, [("limits", "warning")]),
        ({"statement_timeout": "0"}, [("limits", "warning")]),
        ({"client_min_messages": "error"}, [("limits", "warning")]),
        ({"idle_seconds": 61.0}, [("idle transactions", "warning")]),
        ({"frozen_age": 1_500_000_000}, [("transaction ids", "problem")]),
    ],
)
def test_what_hurts_is_found(facts, found):
    assert complaints(**facts) == found


async def test_messages_that_were_set_aside_are_counted(engine, connect):
    async def inbox():
        [check] = [check for check in (await check_up(engine.database)).checks if check.name == "inbox"]
        return check.severity, check.detail

    assert await inbox() == ("ok", "no message set aside")
    await (await connect()).execute(
        "insert into queen.inbox_set_aside (id, queue_name, partition_name, payload, created_at, reason, set_aside_at) "
        "values (1, 'orders', 'ann', '1],[2', now(), 'two values', now())"
    )
    assert await inbox() == ("warning", "1 messages set aside")
    await engine.database.value("select queen.delete_set_aside('{1}')")


async def test_the_facts_are_those_of_the_database(engine, connect):
    async def named():
        return {check.name: check for check in (await check_up(engine.database)).checks}

    checks = await named()
    assert checks["idle transactions"].detail == "none"
    assert checks["schema"].severity == "ok"
    assert checks["clock"].severity == "ok"
    await (await connect()).execute("begin")
    assert checks["connections"].detail != (now := await named())["connections"].detail
    assert now["idle transactions"].detail == "the oldest is idle for 0 s"


async def test_a_database_without_queen_is_told(blank_database):
    database = Database(blank_database, Settings())
    await database.open()
    try:
        [schema] = [check for check in (await check_up(database)).checks if check.name == "schema"]
    finally:
        await database.close()
    assert (schema.severity, schema.detail) == ("warning", "Queen is not installed in this database")


def test_a_clock_that_is_off_is_told_with_its_direction():
    def told(seconds):
        check = clock("clock", "PostgreSQL", NOON + timedelta(seconds=seconds), NOON, NOON + timedelta(seconds=5))
        return check.severity, check.detail

    assert told(-2.5) == ("warning", "PostgreSQL is 2.5 s behind")
    assert told(7.5) == ("warning", "PostgreSQL is 2.5 s ahead")
    assert told(0) == told(5) == told(-1) == ("ok", "they agree")


@pytest.mark.parametrize(
    ("free", "total", "severity"),
    [(50 * 2**30, 100 * 2**30, "ok"), (5 * 2**30, 100 * 2**30, "warning"), (FREE_BYTES_MIN - 1, 2**31, "problem")],
)
def test_a_disk_that_is_nearly_full_is_told(free, total, severity, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": free, "total": total}))
    assert disk("disk", Path("/")).severity == severity
