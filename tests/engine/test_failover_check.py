"""The doctor says what a failover would lose: a table of cases, and the same with real standbys."""

import asyncio

import asyncpg
import pytest

from queenmq.config import Settings
from queenmq.engine.postgres.database import Database
from queenmq.engine.postgres.failover import check_failover, judge

COMMITS = {"names": "", "mode": "on", "in_recovery": False, "sees_standbys": True, "waiting": 0}


def standby(name, sync_state, silent_seconds=0.0, missing_bytes=0):
    return {
        "name": name,
        "sync_state": sync_state,
        "silent_seconds": silent_seconds,
        "missing_bytes": missing_bytes,
    }


@pytest.mark.parametrize(
    ("commits", "standbys", "severity", "detail"),
    [
        ({}, [], "warning", "no standby is connected: if this server is lost"),
        ({"mode": "off"}, [], "warning", "no standby is connected"),
        ({}, [standby("b", "async", 0, 4096)], "warning", "the last ones may be lost (b is 4,096 bytes behind)"),
        ({"names": "b"}, [standby("b", "sync")], "ok", "every commit is confirmed by b: a failover loses nothing"),
        ({"names": "b", "mode": "remote_apply"}, [standby("b", "sync")], "ok", "every commit is confirmed by b:"),
        ({"names": "b"}, [], "problem", "names is 'b', and no such standby is connected: every commit waits"),
        ({"names": "b"}, [standby("c", "async")], "problem", "no such standby is connected"),
        ({"names": "2 (b, c)"}, [standby("b", "sync")], "problem", "names is '2 (b, c)', and only b is connected"),
        (
            {"names": "FIRST 2 (b, c)"},
            [standby("b", "sync"), standby("c", "sync")],
            "ok",
            "confirmed by b, c: a failover",
        ),
        (
            {"names": "any 1 (b, c)"},
            [standby("b", "quorum"), standby("c", "quorum")],
            "ok",
            "confirmed by 1 of b, c: a",
        ),
        (
            {"names": "b", "waiting": 3},
            [standby("b", "sync")],
            "problem",
            "for a standby for more than 5 s: 3",
        ),
        ({"names": "b"}, [standby("b", "sync", 99)], "problem", "b has not reported for 99 s"),
        (
            {"names": "b", "mode": "local"},
            [standby("b", "sync")],
            "warning",
            "synchronous_commit is local: commits do not",
        ),
        ({"names": "b", "mode": "off"}, [standby("b", "sync")], "warning", "synchronous_commit is off: commits do not"),
        ({"sees_standbys": False}, [], "warning", "this role may not see whether standbys are connected"),
    ],
)
def test_what_a_failover_would_lose_is_told(commits, standbys, severity, detail):
    check = judge(COMMITS | commits, standbys)
    assert check.severity == severity
    assert detail in check.detail
    assert (check.hint is None) == (severity == "ok")


async def test_a_real_standby_is_judged(replication):
    primary = replication.primary
    await primary.execute("create database queen")
    database = Database(primary.dsn("queen"), Settings())
    await database.open()

    async def until(severity, part):
        async with asyncio.timeout(60):
            while True:
                [check] = await check_failover(database)
                if check.severity == severity and part in check.detail:
                    return

    try:
        await until("warning", "no standby is connected")
        node = await replication.standby()
        await until("warning", f"the last ones may be lost ({node.name} is ")
        await primary.set("synchronous_standby_names", node.name)
        await until("ok", f"every commit is confirmed by {node.name}: a failover loses nothing")
        await primary.set("synchronous_commit", "local")
        await until("warning", "synchronous_commit is local")
        await primary.set("synchronous_commit", "on")
        with node.stopped():
            writer = await asyncpg.connect(primary.dsn("queen"))
            write = asyncio.create_task(writer.execute("create table waits ()"))
            await until("problem", "for a standby for more than 5 s: 1")
        await write
        await writer.close()
        await replication.detach(node)
        await until("problem", "no such standby is connected: every commit waits")
    finally:
        await database.close()
    standby_database = Database(node.dsn("queen"), Settings())
    await standby_database.open()
    assert await check_failover(standby_database) == []
    await standby_database.close()
