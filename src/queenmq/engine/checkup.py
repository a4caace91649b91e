"""What a doctor would look at: PostgreSQL's version, settings that hurt, standbys, old transactions, clock, disk."""

import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from queenmq import __version__
from queenmq.api.diagnosis import Check, Checkup, Severity
from queenmq.engine.postgres.database import Database
from queenmq.engine.postgres.failover import check_failover
from queenmq.engine.retention import kept
from queenmq.sql import ROLES, Contents

VERSION_MIN = 14
SHARED_BUFFERS_MIN = 128 * 2**20
CONNECTIONS_FREE_MIN = 20
IDLE_SECONDS_MAX = 60  # of a transaction in which nothing happens
SKEW_SECONDS_MAX = 1.0
FROZEN_AGE_MAX = 1_000_000_000  # half of what PostgreSQL can bear
UNSUITABLE = {  # and better
    "statement_timeout": ("0", "'30s'"),
    "lock_timeout": ("0", "'5s'"),
    "jit": ("on", "off"),
    "client_min_messages": ("error", "warning"),
}
FREE_SHARE_MIN, FREE_BYTES_MIN = 0.1, 2**30

FACTS = """
select current_setting('server_version_num')::int / 10000 as version, current_setting('server_version') as version_text,
       current_setting('fsync') as fsync, current_setting('full_page_writes') as full_page_writes,
       current_setting('synchronous_commit') as synchronous_commit, current_setting('autovacuum') as autovacuum,
       current_setting('server_encoding') as encoding, pg_is_in_recovery() as replica,
       current_setting('max_connections')::int as connections_max,
       (select count(*) from pg_stat_activity where backend_type = 'client backend') as connections,
       pg_size_bytes(current_setting('shared_buffers')) as shared_buffers,
       (select max(age(datfrozenxid)) from pg_database) as frozen_age,
       (select coalesce(extract(epoch from max(clock_timestamp() - state_change)), 0)::float8 from pg_stat_activity
         where state like 'idle in transaction%' and datname = current_database()) as idle_seconds,
       clock_timestamp() as now,
       case when inet_server_addr() is null and pg_has_role('pg_read_all_settings', 'member')
            then current_setting('data_directory') end as data_directory,
       current_setting('statement_timeout') as statement_timeout, current_setting('lock_timeout') as lock_timeout,
       current_setting('jit') as jit, current_setting('client_min_messages') as client_min_messages,
       quote_ident(session_user) as session_role,
       to_regclass('queen.schema_version') is not null as installed
"""
SCHEMA = "select coalesce(max(version), 0) from queen.schema_version"
SET_ASIDE = "select count(*) from queen.inbox_set_aside"
ROLES_THERE = "select array(select rolname::text from pg_roles where rolname = any ($1))"

Facts = Any  # a row of FACTS


async def check_up(database: Database) -> Checkup:
    """Look at PostgreSQL."""
    asked_at = datetime.now(UTC)
    facts = await database.row(FACTS)
    answered_at = datetime.now(UTC)
    schema = await database.value(SCHEMA) if facts["installed"] else 0
    checks = [check(facts) for check in CHECKS]
    checks += [_schema(schema), clock("clock", "PostgreSQL", facts["now"], asked_at, answered_at)]
    if schema == _newest_schema():
        checks.append(_inbox(await database.value(SET_ASIDE)))
        checks.append((await kept(database)).check(answered_at))
        checks.append(_roles(await database.value(ROLES_THERE, ROLES)))
    checks += await check_failover(database)
    checks += _disk_of_postgres(facts)
    return Checkup(version=__version__, now=datetime.now(UTC), checks=checks)


def clock(name: str, whose: str, theirs: datetime, asked_at: datetime, answered_at: datetime) -> Check:
    """By how much another clock is off at least, told by the moment that it gave between two moments of ours."""
    ahead, behind = (theirs - answered_at).total_seconds(), (asked_at - theirs).total_seconds()
    off = max(ahead, behind) > SKEW_SECONDS_MAX
    detail = f"{whose} is {max(ahead, behind):.1f} s {'ahead' if ahead > behind else 'behind'}" if off else "they agree"
    hint = "Have both machines set their clocks by NTP: times in answers and of tokens are compared across them."
    return _check(name, "warning" if off else "ok", detail, hint)


def disk(name: str, directory: Path) -> Check:
    """How much room a directory's file system has."""
    usage = shutil.disk_usage(directory)
    low = usage.free < FREE_BYTES_MIN or usage.free < FREE_SHARE_MIN * usage.total
    detail = f"{_size(usage.free)} of {_size(usage.total)} free"
    severity: Severity = "problem" if usage.free < FREE_BYTES_MIN else "warning" if low else "ok"
    return _check(name, severity, detail, "Make room, or shorten the retention of the largest queues.")


def _disk_of_postgres(facts: Facts) -> list[Check]:
    """Only where PostgreSQL's files are on this machine, and it tells where."""
    directory = Path(facts["data_directory"] or "")
    return [disk("disk of PostgreSQL", directory)] if facts["data_directory"] and directory.exists() else []


def _version(facts: Facts) -> Check:
    old = facts["version"] < VERSION_MIN
    return _check("PostgreSQL", "problem" if old else "ok", facts["version_text"], f"Use {VERSION_MIN} or newer.")


def _schema(installed: int) -> Check:
    newest = _newest_schema()
    detail = f"version {installed} of {newest}" if installed else "Queen is not installed in this database"
    return _check("schema", "warning" if installed < newest else "ok", detail, "Run queen migrate, or start a server.")


def _newest_schema() -> int:
    return max(step.version for step in Contents.read().steps)


def _inbox(set_aside: int) -> Check:
    detail = f"{set_aside} messages set aside" if set_aside else "no message set aside"
    hint = "See queen.set_aside for the reasons; then queen.retry_set_aside or queen.delete_set_aside."
    return _check("inbox", "warning" if set_aside else "ok", detail, hint)


def _roles(there: Sequence[str]) -> Check:
    missing = [role for role in ROLES if role not in there]
    detail = f"missing: {', '.join(missing)}" if missing else ", ".join(ROLES)
    hint = (
        "Have an administrator create them (docs/operations.md, Roles) and run queen migrate. Until then use the owner."
    )
    return _check("roles", "warning" if missing else "ok", detail, hint)


def _primary(facts: Facts) -> Check:
    detail = "a replica, which cannot be written" if facts["replica"] else "it can be written"
    return _check("role", "problem" if facts["replica"] else "ok", detail, "Let QUEEN_DSN name the primary.")


def _encoding(facts: Facts) -> Check:
    wrong = facts["encoding"] != "UTF8"
    return _check("encoding", "problem" if wrong else "ok", facts["encoding"], "Create the database with UTF8.")


def _must_be_on(setting: str, severity: Severity, hint: str) -> Callable[[Facts], Check]:
    def check(facts: Facts) -> Check:
        return _check(setting, severity if facts[setting] == "off" else "ok", facts[setting], hint)

    return check


def _connections(facts: Facts) -> Check:
    free = facts["connections_max"] - facts["connections"]
    detail = f"{facts['connections']} of {facts['connections_max']} in use"
    hint = "Raise max_connections, or lower QUEEN_POOL_SIZE_MAX: each server process takes up to that many."
    return _check("connections", "warning" if free < CONNECTIONS_FREE_MIN else "ok", detail, hint)


def _buffers(facts: Facts) -> Check:
    size = facts["shared_buffers"]
    hint = "Set shared_buffers to a quarter of the machine's memory."
    return _check("shared_buffers", "warning" if size < SHARED_BUFFERS_MIN else "ok", _size(size), hint)


def _limits(facts: Facts) -> Check:
    """A session of ours sets these itself; behind a pooler of transactions they are the role's."""
    better = {name: value for name, (bad, value) in UNSUITABLE.items() if facts[name] == bad}
    detail = ", ".join(f"{name} = {facts[name]}" for name in UNSUITABLE)
    run = "; ".join(f"ALTER ROLE {facts['session_role']} SET {name} = {value}" for name, value in better.items())
    hint = f"Behind a pooler of transactions Queen cannot set them. Run {run}; and have the pooler reconnect."
    return _check("limits", "warning" if better else "ok", detail, hint)


def _idle(facts: Facts) -> Check:
    old = facts["idle_seconds"] > IDLE_SECONDS_MAX
    detail = f"the oldest is idle for {facts['idle_seconds']:.0f} s" if facts["idle_seconds"] else "none"
    hint = "Find it in pg_stat_activity and end it: while it is open no dead row can be removed."
    return _check("idle transactions", "warning" if old else "ok", detail, hint)


def _freezing(facts: Facts) -> Check:
    old = facts["frozen_age"] > FROZEN_AGE_MAX
    hint = "Look for what keeps autovacuum from freezing: old transactions, replication slots."
    return _check("transaction ids", "problem" if old else "ok", f"the oldest is {facts['frozen_age']:,} old", hint)


CHECKS: Sequence[Callable[[Facts], Check]] = (
    _version,
    _primary,
    _encoding,
    _must_be_on("fsync", "problem", "Turn it on: after a crash of the machine the database may be lost."),
    _must_be_on("full_page_writes", "problem", "Turn it on: after a crash of the machine pages may be torn."),
    _must_be_on(
        "synchronous_commit", "warning", "Turn it on: after a crash the last moment's accepted messages are missing."
    ),
    _must_be_on("autovacuum", "problem", "Turn it on: without it every pop becomes slower and slower."),
    _connections,
    _limits,
    _buffers,
    _idle,
    _freezing,
)


def _check(name: str, severity: Severity, detail: str, hint: str) -> Check:
    return Check(name=name, severity=severity, detail=detail, hint=None if severity == "ok" else hint)


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} TB"
