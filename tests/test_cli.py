"""The command line: it helps, says its version, and reports errors in a sentence."""

import pytest

from queenmq import __version__
from queenmq.cli import COMMANDS, main


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    said = capsys.readouterr().out
    assert all(command in said for command in COMMANDS)


def test_version(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"queen {__version__}\n"


def test_migrate_brings_a_database_up_to_date(blank_database, capsys):
    assert main(["migrate", "--dsn", blank_database]) == 0
    assert "  applied   0001\n" in capsys.readouterr().out
    assert main(["migrate", "--dsn", blank_database]) == 0
    assert "applied" not in capsys.readouterr().out


def test_a_database_out_of_reach_is_an_answer_not_a_traceback(tmp_path, capsys):
    assert main(["migrate", "--dsn", f"postgresql://u:geheim@/queen?host={tmp_path}"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("queen migrate: postgresql://u:***@/queen")
    assert "QUEEN_DSN" in said
    assert "geheim" not in said
