"""Replace functions and views that differ, and keep what users built on them.

`create or replace` keeps an object's grants and all that depends on it. PostgreSQL refuses it if a function's result or
the names of its arguments change, or if a view loses a column; with other arguments it makes a second function. Only
then is an object dropped and created again, and its grants are given again. If objects of users depend on it, nothing
is dropped: the caller gets their names, and may ask to drop them as well.
"""

import re
from typing import Any

import asyncpg

from queenmq.engine.postgres.dependents import Grant, dependents_of, grants_on, read_grants
from queenmq.errors import ConfigurationError
from queenmq.sql import ROLES, File

Connection = Any  # asyncpg.Connection, which has no annotations

# An object's version is the place of its row in the catalog: any replacement writes another one.
CREATED = """
select 'routine ' || p.oid::regprocedure as identity, p.ctid::text as version
  from pg_proc p where p.pronamespace = 'queen'::regnamespace
union all
select 'view ' || c.oid::regclass, r.ctid::text
  from pg_class c join pg_rewrite r on r.ev_class = c.oid and r.rulename = '_RETURN'
 where c.relnamespace = 'queen'::regnamespace and c.relkind = 'v'
union all
select 'trigger ' || quote_ident(t.tgname) || ' on ' || c.oid::regclass, t.ctid::text
  from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_proc p on p.oid = t.tgfoid
 where c.relnamespace = 'queen'::regnamespace and c.relkind = 'r' and p.pronamespace = 'queen'::regnamespace
"""
LOADED = f"""
select name, hash, creates, loaded_at, creates <@ array(select identity from ({CREATED}) as c) as intact
  from queen.schema_functions
"""  # noqa: S608
CREATE = re.compile(r"^create (?=(?:function|view|trigger) )", re.MULTILINE)

# A function's result or the names of its arguments, a view's columns; a comment on one of two functions of a name.
REFUSED = (
    asyncpg.InvalidFunctionDefinitionError,
    asyncpg.InvalidTableDefinitionError,
    asyncpg.AmbiguousFunctionError,
)
# Functions that PUBLIC may call, as after a restore without privileges; roles that are newer than the last migration.
UNGRANTED = """
select exists (select from pg_proc p
                where p.pronamespace = 'queen'::regnamespace
                  and 'routine ' || p.oid::regprocedure in (select unnest(creates) from queen.schema_functions)
                  and exists (select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as a
                               where a.grantee = 0))
    or exists (select from pg_roles r
                where r.rolname = any ($1)
                  and not exists (select from pg_namespace n cross join lateral aclexplode(n.nspacl) as a
                                   where n.nspname = 'queen' and a.grantee = r.oid))
"""
ADVICE = (
    "Drop them and create them again after the migration, or run `queen migrate --drop-dependents`, which drops them."
)


class _InTheWay(Exception):
    """Objects of ours that have to be dropped before the others can be loaded."""

    def __init__(self, identities: set[str]) -> None:
        super().__init__(identities)
        self.identities = identities


async def reload(connection: Connection, code: tuple[File, ...], *, drop_dependents: bool) -> list[str]:
    """Load what is missing or differs, in order; drop what has no file any more."""
    loaded = await loaded_files(connection)
    changed = {file.name for file in code} - unchanged(loaded, code)
    gone = loaded.keys() - {file.name for file in code}
    if not changed and not gone and not await is_ungranted(connection, code):
        return []
    dropped = {identity for name in gone for identity in loaded[name]["creates"]}
    while True:
        try:
            async with connection.transaction():
                return await _replace(connection, code, loaded, changed, dropped, drop_dependents=drop_dependents)
        except _InTheWay as found:
            dropped |= found.identities


async def loaded_files(connection: Connection) -> dict[str, Any]:
    """What the database knows of each file: its hash, what it created, and whether all of that is there."""
    rows = await connection.fetch(LOADED)
    return {row["name"]: row for row in rows}


def unchanged(loaded: dict[str, Any], code: tuple[File, ...]) -> set[str]:
    """The files whose content is in the database already, all of it (a step may have dropped a view)."""
    rows = ((file, loaded[file.name]) for file in code if file.name in loaded)
    return {file.name for file, row in rows if row["hash"] == file.hash and row["intact"]}


async def is_ungranted(connection: Connection, code: tuple[File, ...]) -> bool:
    """Whether rights are missing although nothing else has changed."""
    if not any(file.is_grants for file in code):
        return False
    missing: bool = await connection.fetchval(UNGRANTED, list(ROLES))
    return missing


async def _replace(
    connection: Connection,
    code: tuple[File, ...],
    loaded: dict[str, Any],
    changed: set[str],
    dropped: set[str],
    *,
    drop_dependents: bool,
) -> list[str]:
    """Drop some objects and load the files; raises _InTheWay if more have to be dropped."""
    ours = {identity for row in loaded.values() for identity in row["creates"]}
    dependents = await dependents_of(connection, dropped)
    if more := ours.intersection(each.identity for each in dependents if each.identity) - dropped:
        raise _InTheWay(more)
    theirs = [each for each in dependents if each.identity not in ours]
    if theirs and not drop_dependents:
        pairs = ", ".join(sorted({f"{each.description} (on {_short(each.root)})" for each in theirs}))
        raise ConfigurationError(
            f"this version of Queen has to drop functions or views on which other objects depend: {pairs}. "
            f"Nothing was changed. {ADVICE}"
        )
    grants = await read_grants(connection, dropped)
    await _drop(connection, loaded, dropped, "cascade" if theirs else "restrict")
    files = [
        file for file in code if file.name in changed or file.is_grants or dropped & _creates(loaded.get(file.name))
    ]
    in_the_way: set[str] = set()
    for file in (file for file in files if not file.is_grants):
        try:
            await _load(connection, file, _creates(loaded.get(file.name)) - dropped)
        except _InTheWay as found:  # go on: most of them show in one pass
            in_the_way |= found.identities
        except asyncpg.PostgresError as error:
            if in_the_way:  # perhaps because of them
                raise _InTheWay(in_the_way) from error
            raise
    if in_the_way:
        raise _InTheWay(in_the_way)
    await _give_again(connection, grants)
    for file in (file for file in files if file.is_grants):
        await _load(connection, file, set())
    return [file.name for file in files]


async def _drop(connection: Connection, loaded: dict[str, Any], dropped: set[str], how: str) -> None:
    """What was loaded last goes first."""
    for name, row in sorted(loaded.items(), key=lambda item: item[1]["loaded_at"], reverse=True):
        for identity in reversed(row["creates"]):
            if identity in dropped:
                kind, _, object_name = identity.partition(" ")
                await connection.execute(f"drop {kind} if exists {object_name} {how}")
        if dropped & _creates(row):
            await connection.execute("delete from queen.schema_functions where name = $1", name)


async def _load(connection: Connection, file: File, existing: set[str]) -> None:
    """Run a file, with `create or replace`; `existing` is what it created before and is still there."""
    before = dict(await connection.fetch(CREATED))
    existing = existing & before.keys()
    try:
        async with connection.transaction():
            await execute(connection, file.name, CREATE.sub("create or replace ", file.text))
    except REFUSED as error:
        if existing:
            raise _InTheWay(existing) from error
        raise
    after = await connection.fetch(CREATED)
    creates = [identity for identity, version in after if before.get(identity) != version]
    if superseded := existing.difference(creates):
        raise _InTheWay(superseded)
    await connection.execute(
        "insert into queen.schema_functions (name, hash, creates, loaded_at) values ($1, $2, $3, clock_timestamp()) "
        "on conflict (name) do update set hash = $2, creates = $3, loaded_at = clock_timestamp()",
        *(file.name, file.hash, creates),
    )


async def _give_again(connection: Connection, grants: list[Grant]) -> None:
    for statement in await grants_on(connection, grants):
        await connection.execute(statement)


async def execute(connection: Connection, name: str, text: str) -> None:
    """Run a file; an error names it."""
    try:
        await connection.execute(text)
    except asyncpg.PostgresError as error:
        error.add_note(f"in {name}")
        raise


def _creates(row: Any) -> set[str]:
    return set(row["creates"]) if row is not None else set()


def _short(identity: str) -> str:
    """A function without its arguments."""
    return identity.replace("routine ", "function ").partition("(")[0]
