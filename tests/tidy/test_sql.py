"""The SQL: every file is in the contents, every function in its file, with a header and a comment."""

import re

import pytest

from queenmq.sql import DIRECTORY, Contents

CONTENTS = Contents.read()
FUNCTIONS = {file.name: file.text for file in CONTENTS.code if file.is_function}
OVERLOADED = {"functions/has_pending_messages.sql": 2}  # for many requests, and with scalar arguments for people

pytestmark = pytest.mark.every_postgres


def test_the_contents_name_every_file():
    named = {f"schema/{step.version:04}_{step.name}.sql" for step in CONTENTS.steps}
    named |= {file.name for file in CONTENTS.code}
    found = {str(path.relative_to(DIRECTORY)) for path in DIRECTORY.rglob("*.sql")} - {"contents.sql"}
    assert found == named


async def test_the_functions_in_the_catalog_are_the_files(connection):
    rows = await connection.fetch(
        "select proname::text as name, count(*) as versions from pg_proc "
        "where pronamespace = 'queen'::regnamespace group by proname"
    )
    expected = dict.fromkeys(FUNCTIONS, 1) | OVERLOADED
    assert {f"functions/{row['name']}.sql": row["versions"] for row in rows} == expected


async def test_every_function_table_and_view_has_a_comment(connection):
    rows = await connection.fetch(
        """
        select oid::regprocedure::text as name from pg_proc
         where pronamespace = 'queen'::regnamespace and obj_description(oid, 'pg_proc') is null
        union all
        select oid::regclass::text from pg_class
         where relnamespace = 'queen'::regnamespace and relkind in ('r', 'v', 'm', 'p')
           and obj_description(oid, 'pg_class') is null
        """
    )
    assert [row["name"] for row in rows] == []


async def test_no_plpgsql_variable_shadows_another(connection):
    notices = []
    connection.add_log_listener(lambda _, message: notices.append(message.message))
    await connection.execute("set plpgsql.extra_warnings = 'shadowed_variables'")
    definitions = await connection.fetch(
        "select pg_get_functiondef(p.oid) from pg_proc p join pg_language l on l.oid = p.prolang "
        "where pronamespace = 'queen'::regnamespace and lanname = 'plpgsql'"
    )
    for (definition,) in definitions:
        await connection.execute(definition)
    assert notices == []


def test_every_function_file_opens_with_what_it_is_for():
    wrong = []
    for name, text in FUNCTIONS.items():
        function = name.removeprefix("functions/").removesuffix(".sql")
        if not re.match(rf"-- queen\.{function}: \S", text):
            wrong.append(name)
    assert wrong == []
