"""The command line: it helps, says its version, reports errors in a sentence, and starts quickly."""

import asyncio
import json
import subprocess
import sys

import asyncpg
import pytest

from queenmq import __version__
from queenmq.cli import COMMANDS, Exit, load, main

SUMMARIES = {name: summary for commands in COMMANDS.values() for name, summary in commands.items()}


def test_help_names_every_command(capsys):
    assert main(["--help"]) == Exit.OK
    said = capsys.readouterr().out
    assert all(command in said for command in SUMMARIES)


def test_without_a_command_there_is_help(capsys):
    assert main([]) == Exit.NOT_UNDERSTOOD
    assert "serve" in "".join(capsys.readouterr())


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_command_says_of_itself_what_the_list_says_of_it(name):
    told = load(name).help
    assert told.splitlines()[0] == SUMMARIES[name]
    assert len(SUMMARIES[name]) <= 66, "it has a line of its own in 80 columns"


def parts(name):
    """A command, or the commands below it."""
    command = load(name)
    return list(getattr(command, "commands", {name: command}).values())


@pytest.mark.parametrize("name", SUMMARIES)
def test_help_fits_into_80_columns_and_shows_how(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for part in parts(name):
        main([name, *([] if part.name == name else [part.name]), "--help"])
        said = capsys.readouterr().out
        assert max(map(len, said.splitlines())) <= 80
        assert "<bool>" not in said, "a switch takes no value"
        if [parameter for parameter in part.params if parameter.required]:
            assert f"\n  queen {name} " in said, "what must be given something has an example"


@pytest.mark.parametrize("name", ["queue", "group", "dlq", "pipeline"])
def test_a_command_of_commands_lists_them(name, capsys):
    assert main([name]) == Exit.NOT_UNDERSTOOD
    said = "".join(capsys.readouterr())
    assert all(part.name in said for part in parts(name))


@pytest.mark.parametrize("name", sorted(SUMMARIES.keys() - {"serve", "tour", "migrate", "dsn", "settings", "pipeline"}))
def test_a_command_about_queues_takes_an_address_and_speaks_json(name):
    for command in parts(name):
        options = {option for parameter in command.params for option in parameter.opts}
        assert {"--url", "--dsn", "--json"} <= options, command.name


@pytest.mark.parametrize(
    ("name", "part"), [("queue", "delete"), ("group", "delete"), ("group", "seek"), ("dlq", "purge")]
)
def test_what_loses_something_can_be_told_not_to_ask(name, part):
    [command] = [command for command in parts(name) if command.name == part]
    assert "--yes" in {option for parameter in command.params for option in parameter.opts}


def test_help_imports_no_command():
    program = "import sys; from queenmq.cli import main; main(['--help']); print([*sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert "'queenmq.cli'" in loaded
    assert not [name for name in ("asyncpg", "aiohttp", "httptools", "queenmq.engine") if f"'{name}'" in loaded]


def test_version(capsys):
    assert main(["--version"]) == Exit.OK
    assert capsys.readouterr().out == f"queen {__version__}\n"


def test_a_command_that_does_not_exist_is_answered_with_the_nearest(capsys):
    assert main(["serv"]) == Exit.NOT_UNDERSTOOD
    assert "Did you mean 'serve'" in capsys.readouterr().err


def test_migrate_brings_a_database_up_to_date(blank_database, capsys):
    assert main(["migrate", "--dsn", blank_database]) == Exit.OK
    assert "  applied   0001\n" in capsys.readouterr().out
    assert main(["migrate", "--dsn", blank_database]) == Exit.OK
    assert "applied" not in capsys.readouterr().out
    assert main(["migrate", "--dsn", blank_database, "--json"]) == Exit.OK
    told = json.loads(capsys.readouterr().out)
    assert (told["applied"], told["reloaded"]) == ([], [])
    assert told["version"] >= 1


def test_migrate_names_what_depends_on_a_function_that_is_gone_and_drops_it_if_asked(blank_database, capsys):
    assert main(["migrate", "--dsn", blank_database]) == Exit.OK

    async def run(statement):
        connection = await asyncpg.connect(blank_database)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    asyncio.run(
        run(
            "insert into queen.schema_functions (name, hash, creates) "
            "values ('functions/old.sql', '', '{routine queen.safe_time()}')"
        )
    )
    asyncio.run(run("create view public.mine as select queen.safe_time()"))
    assert main(["migrate", "--dsn", blank_database]) == Exit.FAILED
    said = " ".join(capsys.readouterr().err.split())
    assert "other objects depend: view public.mine (on function queen.safe_time). Nothing was changed." in said
    assert "`queen migrate --drop-dependents`" in said
    assert main(["migrate", "--dsn", blank_database, "--drop-dependents"]) == Exit.OK
    assert asyncio.run(run("select to_regclass('public.mine')")) is None
    assert asyncio.run(run("select to_regprocedure('queen.safe_time()')")) is not None


def test_a_database_out_of_reach_is_an_answer_not_a_traceback(tmp_path, capsys):
    assert main(["migrate", "--dsn", f"postgresql://u:geheim@/queen?host={tmp_path}"]) == Exit.OUT_OF_REACH
    said = capsys.readouterr().err
    assert said.startswith("queen migrate: postgresql://u:***@/queen")
    assert "QUEEN_DSN" in said
    assert "geheim" not in said


@pytest.mark.parametrize("command", ["migrate", "tour"])
def test_an_address_or_a_directory_that_is_none_is_an_answer_too(command, tmp_path, capsys):
    assert main([command, "--dsn", "host=here"]) == Exit.OUT_OF_REACH
    assert f"queen {command}: host=here cannot be reached" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert main([command, "--data-dir", str(tmp_path / "file" / "data")]) == Exit.FAILED
    assert "cannot be a data directory" in capsys.readouterr().err


def test_completion_knows_the_commands_and_their_options():
    program = "import sys; from queenmq.cli import main; sys.exit(main())"

    def complete(*words: str) -> str:
        environment = {
            "_QUEEN_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": str(len(words) - 1),
        }
        return subprocess.run(
            [sys.executable, "-c", program], env=environment, check=False, capture_output=True, text=True
        ).stdout

    assert "serve" in complete("queen", "se").split()
    assert "--workers" in complete("queen", "serve", "--w").split()
