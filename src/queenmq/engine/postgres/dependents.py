"""What users built on functions and views of ours: objects that depend on them, and grants."""

from typing import Any, NamedTuple

Connection = Any  # asyncpg.Connection, which has no annotations

NAMED = """
select 'pg_proc'::regclass::oid as classid, p.oid as objid, 'routine ' || p.oid::regprocedure as identity
  from pg_proc p where p.pronamespace = 'queen'::regnamespace
union all
select 'pg_class'::regclass, c.oid, 'view ' || c.oid::regclass
  from pg_class c where c.relnamespace = 'queen'::regnamespace and c.relkind = 'v'
"""
# A view depends on an object through its rule. Row types and indexes go with what they belong to, and so does a trigger
# of ours; a trigger of a user on a view of ours counts. What depends on another object of the list is that one's.
DEPENDENTS = f"""
with recursive named as ({NAMED}), base as (select * from named where identity = any ($1)), found as (
    select classid, objid, identity as root, false as counts from base
    union
    select v.classid, v.objid, f.root, d.deptype = 'n' or (f.classid, f.objid) in (select classid, objid from base)
      from found f
      join pg_depend d on d.refclassid = f.classid and d.refobjid = f.objid and d.deptype in ('n', 'a', 'i')
      left join pg_rewrite r on d.classid = 'pg_rewrite'::regclass and r.oid = d.objid
     cross join lateral (select case when r.oid is null then d.classid else 'pg_class'::regclass end as classid,
                                coalesce(r.ev_class, d.objid) as objid) as v
     where (v.classid, v.objid) not in (select classid, objid from base)
)
select f.root, n.identity, pg_describe_object(f.classid, f.objid, 0) as description
  from (select distinct classid, objid, root from found where counts) as f
  left join named n on n.classid = f.classid and n.objid = f.objid
 where not (f.classid = 'pg_type'::regclass
            and exists (select from pg_type t where t.oid = f.objid and (t.typrelid <> 0 or t.typcategory = 'A')))
   and not (f.classid = 'pg_trigger'::regclass
            and exists (select from pg_trigger t join pg_proc p on p.oid = t.tgfoid
                         where t.oid = f.objid and p.pronamespace = 'queen'::regnamespace))
 order by f.root, description
"""  # noqa: S608
# Whether anything that is not ours depends on anything in the schema, tables too.
BUILT_ON = """
with ours as (select unnest(creates) as identity from queen.schema_functions),
things as (
    select 'pg_class'::regclass as classid, oid from pg_class where relnamespace = 'queen'::regnamespace
    union all
    select 'pg_proc'::regclass, oid from pg_proc where pronamespace = 'queen'::regnamespace
    union all
    select 'pg_type'::regclass, oid from pg_type where typnamespace = 'queen'::regnamespace
)
select exists (
    select from things t
      join pg_depend d on d.refclassid = t.classid and d.refobjid = t.oid and d.deptype = 'n'
      left join pg_rewrite r on d.classid = 'pg_rewrite'::regclass and r.oid = d.objid
      left join pg_attrdef a on d.classid = 'pg_attrdef'::regclass and a.oid = d.objid
      left join pg_trigger g on d.classid = 'pg_trigger'::regclass and g.oid = d.objid
      left join pg_constraint k on d.classid = 'pg_constraint'::regclass and k.oid = d.objid
      left join pg_class c on c.oid = coalesce(r.ev_class, a.adrelid, g.tgrelid, k.conrelid)
     where c.relkind in ('v', 'm') and 'view ' || c.oid::regclass not in (select identity from ours)
        or c.relkind not in ('v', 'm') and c.relnamespace <> 'queen'::regnamespace
        or d.classid = 'pg_proc'::regclass and 'routine ' || d.objid::regprocedure not in (select identity from ours)
)
"""
GRANTS = f"""
with named as ({NAMED})
select 'routine' as kind, p.proname::text as name, null as column_name, a.privilege_type as privilege,
       a.grantee::regrole::text as role, a.is_grantable as grantable
  from named n
  join pg_proc p on n.classid = 'pg_proc'::regclass and p.oid = n.objid
 cross join aclexplode(p.proacl) as a
 where n.identity = any ($1) and a.grantee not in (0, p.proowner)
union all
select 'view', c.relname, t.attname, a.privilege_type,
       case when a.grantee = 0 then 'public' else a.grantee::regrole::text end, a.is_grantable
  from named n join pg_class c on n.classid = 'pg_class'::regclass and c.oid = n.objid
 cross join lateral (select null::name as attname, c.relacl as acl
                     union all
                     select t.attname, t.attacl from pg_attribute t
                      where t.attrelid = c.oid and t.attacl is not null) as t
 cross join aclexplode(t.acl) as a
 where n.identity = any ($1) and a.grantee <> c.relowner
"""  # noqa: S608
TARGETS = f"""
with named as ({NAMED})
select n.identity, coalesce(p.proname, c.relname)::text as name,
       array(select t.attname::text from pg_attribute t where t.attrelid = c.oid and t.attnum > 0) as columns
  from named n
  left join pg_proc p on n.classid = 'pg_proc'::regclass and p.oid = n.objid
  left join pg_class c on n.classid = 'pg_class'::regclass and c.oid = n.objid
"""  # noqa: S608


class Dependent(NamedTuple):
    """An object that depends on one of ours, the root. Its identity is null outside of our schema."""

    root: str
    identity: str | None
    description: str


class Grant(NamedTuple):
    """A right that a role was given on a function, a view, or a column of a view."""

    kind: str
    name: str
    column_name: str | None
    privilege: str
    role: str
    grantable: bool


async def dependents_of(connection: Connection, identities: set[str]) -> list[Dependent]:
    """What PostgreSQL would drop together with these objects."""
    return [Dependent(*row) for row in await connection.fetch(DEPENDENTS, list(identities))]


async def is_built_on(connection: Connection) -> bool:
    """Whether users have built anything on functions, views or tables of ours."""
    found: bool = await connection.fetchval(BUILT_ON)
    return found


async def read_grants(connection: Connection, identities: set[str]) -> list[Grant]:
    """Who was given what on these objects; the owner has everything anyway, and functions are not for PUBLIC."""
    return [Grant(*row) for row in await connection.fetch(GRANTS, list(identities))]


async def grants_on(connection: Connection, grants: list[Grant]) -> list[str]:
    """Statements that give the same rights on the objects that now have these names."""
    statements = []
    for identity, name, columns in await connection.fetch(TARGETS) if grants else ():
        kind, _, target = identity.partition(" ")
        for grant in grants:
            if (grant.kind, grant.name) == (kind, name) and (grant.column_name is None or grant.column_name in columns):
                column = '("{}")'.format(grant.column_name.replace('"', '""')) if grant.column_name else ""
                option = " with grant option" if grant.grantable else ""
                on = target if kind == "view" else f"routine {target}"
                statements.append(f"grant {grant.privilege} {column} on {on} to {grant.role}{option}")
    return statements
