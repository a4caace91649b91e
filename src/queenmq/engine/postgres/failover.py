"""What a failover would lose: whether a standby has every commit before it is answered, and whether it keeps up now."""

import re
from collections.abc import Sequence
from typing import Any

from queenmq.api.diagnosis import Check, Severity
from queenmq.engine.postgres.database import Database
from queenmq.engine.postgres.replication import NotReplicated

NAME = "failover"
SILENT_SECONDS_MAX = 30.0  # a standby reports every ten seconds, unless wal_receiver_status_interval says otherwise
AT_LEAST = re.compile(r"\s*(?:(?P<method>first|any)\s+)?(?P<count>\d+)\s*\(", re.IGNORECASE)

COMMITS = """
select current_setting('synchronous_standby_names') as names, current_setting('synchronous_commit') as mode,
       pg_is_in_recovery() as in_recovery, pg_has_role('pg_read_all_stats', 'usage') as sees_standbys,
       (select count(*) from pg_stat_activity
         where wait_event = 'SyncRep' and query_start < clock_timestamp() - interval '5 seconds') as waiting
"""
STANDBYS = """
select coalesce(nullif(r.application_name, ''), host(r.client_addr), 'a standby') as name, r.sync_state,
       coalesce(extract(epoch from clock_timestamp() - r.reply_time), 0)::float8 as silent_seconds,
       coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), r.flush_lsn), 0)::bigint as missing_bytes
  from pg_stat_replication r
 where r.state in ('streaming', 'catchup')
   and not exists (select from pg_replication_slots s where s.active_pid = r.pid and s.slot_type = 'logical')
 order by r.sync_state = 'async', name
"""

NO_STANDBY = (
    "If losing that is not acceptable, add a synchronous standby. Services that copy the storage itself, such as "
    "Aurora, Neon, RDS Multi-AZ and Cloud SQL HA, lose nothing."
)
ASYNCHRONOUS = (
    "Set synchronous_standby_names, for example to 'ANY 1 (*)': then an answer means that a standby has the message."
)
NOT_WAITING = "Set synchronous_commit to on for the server, for the database and for the role of Queen."
NOT_SEEN = "Grant pg_read_all_stats or pg_monitor to the role of Queen, or run queen doctor as a superuser."

Commits = Any  # a row of COMMITS
Standby = Any  # a row of STANDBYS


async def check_failover(database: Database) -> list[Check]:
    """Say what a failover would lose; nothing about a server that is a standby itself."""
    commits = await database.row(COMMITS)
    if commits["in_recovery"]:
        return []
    return [judge(commits, await database.rows(STANDBYS))]


def judge(commits: Commits, standbys: Sequence[Standby]) -> Check:
    """Say what a failover would lose, and what to do about it."""
    waits = commits["names"] != "" and commits["mode"] not in ("off", "local")
    if commits["names"] != "" and not waits:
        detail = f"synchronous_commit is {commits['mode']}: commits do not wait for {commits['names']}, and may be lost"
        return _check("warning", detail, NOT_WAITING)
    if not commits["sees_standbys"]:
        return _check("warning", "this role may not see whether standbys are connected", NOT_SEEN)
    if waits:
        return _judge_synchronous(commits, standbys)
    if standbys:
        behind = ", ".join(f"{each['name']} is {each['missing_bytes']:,} bytes behind" for each in standbys)
        return _check(
            "warning", f"commits do not wait for a standby: the last ones may be lost ({behind})", ASYNCHRONOUS
        )
    detail = "no standby is connected: if this server is lost, everything since the last backup is lost"
    return _check("warning", detail, NO_STANDBY)


def _judge_synchronous(commits: Commits, standbys: Sequence[Standby]) -> Check:
    asked = AT_LEAST.match(commits["names"])
    count = int(asked["count"]) if asked else 1
    confirming = [each for each in standbys if each["sync_state"] in ("sync", "quorum")]
    names = ", ".join(each["name"] for each in confirming)
    if len(confirming) < count:
        there = f"only {names}" if names else "no such standby"
        detail = f"synchronous_standby_names is '{commits['names']}', and {there} is connected: every commit waits"
        return _check("problem", detail, NotReplicated.hint)
    silent = [each for each in confirming if each["silent_seconds"] > SILENT_SECONDS_MAX]
    if commits["waiting"] or len(confirming) - len(silent) < count:
        detail = f"commits that have waited for a standby for more than 5 s: {commits['waiting']}"
        if silent:
            detail += f"; {silent[0]['name']} has not reported for {silent[0]['silent_seconds']:.0f} s"
        return _check("problem", detail, NotReplicated.hint)
    if len(confirming) > count:
        detail = f"every commit is confirmed by {count} of {names}: a failover to the one furthest ahead loses nothing"
    else:
        detail = f"every commit is confirmed by {names}: a failover loses nothing"
    return _check("ok", detail, None)


def _check(severity: Severity, detail: str, hint: str | None) -> Check:
    return Check(name=NAME, severity=severity, detail=detail, hint=hint)
