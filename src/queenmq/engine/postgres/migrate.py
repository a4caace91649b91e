"""Bring a database to the schema and the functions of this version, while others may be using it.

Each step of the schema runs in its own transaction, its row in queen.schema_version first; all changed code is replaced
in one transaction (`reload`), so that nobody ever sees half of it. An advisory lock makes servers that start together
take turns; whoever finds nothing to do does not even ask for it.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import msgspec

from queenmq.engine.postgres.dependents import is_built_on
from queenmq.engine.postgres.reload import execute, is_ungranted, loaded_files, reload, unchanged
from queenmq.errors import ConfigurationError, SchemaTooNew
from queenmq.sql import DIRECTORY, ROLES, Contents, Step

log = logging.getLogger(__name__)

T = TypeVar("T")
Connection = Any  # asyncpg.Connection, which has no annotations

POSTGRES_MAJOR_MIN = 14
TURN_LOCK = 0x517EE4  # the advisory lock of this database's migrations
LOCK_TIMEOUT_MS = 2_000  # waiting longer for a lock would make everyone queue up behind us
ATTEMPTS_MAX = 60

BOOTSTRAP = """
create schema if not exists queen;
create table if not exists queen.schema_version (
    version     int primary key,
    name        text not null,
    breaking    boolean not null,
    applied_at  timestamptz not null default clock_timestamp()
);
comment on table queen.schema_version is 'The steps of the schema that this database has taken.';
create table if not exists queen.schema_functions (
    name       text primary key,
    hash       text not null,
    creates    text[] not null,
    loaded_at  timestamptz not null default clock_timestamp()
);
comment on table queen.schema_functions is
    'The files of functions and views in this database, with what each one created.';
"""

# A view as wide as before that depends on no table, and fails if it is read: its dependents stay.
STANDINS = """
select format('create or replace view %s as select %s where (%L::text)::int = 0', c.oid::regclass,
              string_agg(format('null::%s%s as %I', format_type(a.atttypid, a.atttypmod),
                                ' collate ' || nullif(a.attcollation, t.typcollation)::regcollation, a.attname),
                         ', ' order by a.attnum),
              'a migration replaces ' || c.oid::regclass || ' at this moment: try again')
  from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 join pg_type t on t.oid = a.atttypid
 where c.relnamespace = 'queen'::regnamespace and c.relkind = 'v'
   and 'view ' || c.oid::regclass = any (select unnest(creates) from queen.schema_functions)
 group by c.oid
"""


class Migration(msgspec.Struct, frozen=True):
    """What a migration did; both lists are empty when the database was up to date."""

    version: int
    applied: tuple[int, ...] = ()
    reloaded: tuple[str, ...] = ()


async def migrate(connection: Connection, directory: Path = DIRECTORY, *, drop_dependents: bool = False) -> Migration:
    """Apply the steps that are missing and replace the code that differs.

    With `drop_dependents`, objects of users that depend on a function or view which cannot stay are dropped.
    """
    _check_server(connection)
    contents = Contents.read(directory)
    if await _in_transaction(connection, lambda: _is_current(connection, contents)):
        return Migration(await _version(connection))
    async with _turn(connection):
        if not await _is_bootstrapped(connection):
            await _in_transaction(connection, lambda: connection.execute(BOOTSTRAP))
        if await _is_newer(connection, contents):
            return Migration(await _version(connection))
        applied, reloaded = await _bring_up_to_date(connection, contents, drop_dependents=drop_dependents)
    if reloaded and (missing := await missing_roles(connection)) and any(file.is_grants for file in contents.code):
        log.warning(
            "roles are missing and this role may not create them: see docs/operations.md, Roles",
            extra={"roles": missing},
        )
    log.info("migrated", extra={"applied": applied, "files_loaded": len(reloaded)})
    return Migration(await _version(connection), tuple(applied), tuple(reloaded))


async def _bring_up_to_date(
    connection: Connection, contents: Contents, *, drop_dependents: bool
) -> tuple[list[int], list[str]]:
    """Take the steps, one transaction for each, and then load the code.

    If users have built on the schema, the code may be refused. Then all is one transaction, so that no step is taken.
    """

    async def load() -> list[str]:
        return await reload(connection, contents.code, drop_dependents=drop_dependents)

    async def do_all() -> tuple[list[int], list[str]]:
        return [step.version for step in contents.steps if await _apply(connection, step)], await load()

    if await _in_transaction(connection, lambda: is_built_on(connection)):
        return await _in_transaction(connection, do_all)
    applied = [
        step.version for step in contents.steps if await _in_transaction(connection, partial(_apply, connection, step))
    ]
    return applied, await _in_transaction(connection, load)


async def missing_roles(connection: Connection) -> list[str]:
    """Roles of grants.sql that this cluster does not have."""
    there = {row[0] for row in await connection.fetch("select rolname from pg_roles where rolname = any ($1)", ROLES)}
    return [role for role in ROLES if role not in there]


def _check_server(connection: Connection) -> None:
    major: int = connection.get_server_version().major
    if major < POSTGRES_MAJOR_MIN:
        raise ConfigurationError(f"Queen needs PostgreSQL {POSTGRES_MAJOR_MIN} or newer; this is version {major}")


async def _is_bootstrapped(connection: Connection) -> bool:
    return await connection.fetchval("select to_regclass('queen.schema_functions')") is not None


async def _version(connection: Connection) -> int:
    version: int = await connection.fetchval("select coalesce(max(version), 0) from queen.schema_version")
    return version


async def _is_current(connection: Connection, contents: Contents) -> bool:
    """Whether there is nothing to do, seen without waiting for anyone."""
    if not await _is_bootstrapped(connection):
        return False
    if await _is_newer(connection, contents):
        return True
    if await _version(connection) < len(contents.steps):
        return False
    loaded = await loaded_files(connection)
    if not loaded.keys() == unchanged(loaded, contents.code) == {file.name for file in contents.code}:
        return False
    return not await is_ungranted(connection, contents.code)


async def _is_newer(connection: Connection, contents: Contents) -> bool:
    """Whether a later version of Queen was here; its functions serve us too unless a step says otherwise."""
    newer = await connection.fetch(
        "select version, name, breaking from queen.schema_version where version > $1 order by version",
        len(contents.steps),
    )
    for row in newer:
        if row["breaking"]:
            raise SchemaTooNew(
                f"the database has taken step {row['version']} ({row['name']}), which this version of Queen "
                f"does not know and cannot work with"
            )
    return bool(newer)


async def _apply(connection: Connection, step: Step) -> bool:
    """Take one step, unless it was taken before.

    If our own views are in its way, it is taken with stand-ins for them, until their files are loaded.
    """
    inserted = await connection.fetchval(
        "insert into queen.schema_version (version, name, breaking) values ($1, $2, $3) "
        "on conflict do nothing returning version",
        *(step.version, step.name, step.breaking),
    )
    if inserted is None:
        return False
    name = f"schema/{step.version:04}_{step.name}.sql"
    try:
        async with connection.transaction():
            await execute(connection, name, step.text)
    except (asyncpg.DependentObjectsStillExistError, asyncpg.FeatureNotSupportedError):
        for row in await connection.fetch(STANDINS):
            await connection.execute(row[0])
        await connection.execute("update queen.schema_functions set hash = '' where name like 'views/%'")
        await _apply_over_standins(connection, name, step)
    return True


async def _apply_over_standins(connection: Connection, name: str, step: Step) -> None:
    try:
        async with connection.transaction():
            await execute(connection, name, step.text)
    except asyncpg.DependentObjectsStillExistError as error:
        raise ConfigurationError(
            f"step {step.version:04} ({step.name}) changes objects on which others depend: {error.detail}. "
            f"Nothing was changed. Drop these, and create them again after the migration."
        ) from error


async def _in_transaction(connection: Connection, work: Callable[[], Awaitable[T]]) -> T:
    """Do it all or nothing, and again when a lock was not to be had: others come first."""
    for attempt in range(1, ATTEMPTS_MAX + 1):
        try:
            async with connection.transaction():
                await connection.execute(
                    f"set local lock_timeout = {LOCK_TIMEOUT_MS}; set local statement_timeout = 0; "
                    f"set local search_path = pg_catalog, pg_temp; set local client_min_messages = warning"
                )
                return await work()
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            if attempt == ATTEMPTS_MAX:
                raise
            await asyncio.sleep(random.uniform(0.05, 0.5))
    raise AssertionError("the loop returns or raises")


@asynccontextmanager
async def _turn(connection: Connection) -> AsyncIterator[None]:
    """One migration of this database at a time."""
    async with connection.transaction():
        await connection.execute("set local lock_timeout = 0; set local statement_timeout = 0")
        await connection.execute("select pg_advisory_lock($1)", TURN_LOCK)
    try:
        yield
    finally:
        if not connection.is_closed():
            await connection.execute("select pg_advisory_unlock($1)", TURN_LOCK)
