"""The first page works as pasted: its commands in one shell, its program with the interpreter that it names."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.page import ROOT, blocks, commands, keeps
from tests.fixtures.servers import Served

PAGE = (ROOT / "README.md").read_text()
PORT = "6632"
SECONDS_MAX = 60


@pytest.fixture
def served(blank_database: str, tmp_path: Path) -> Iterator[Served]:
    """A fresh server, as `make run` starts it, except for its port."""
    server = Served(tmp_path / "server", blank_database, {"workers": 1})
    yield server
    server.end()


def run(script: str, served: Served) -> list[str]:
    """What a shell in the root of the checkout prints; it knows the server by nothing but what was pasted.

    The commands of `queen` and the SDK look at the usual port by themselves, so they are told the one of this server.
    """
    environment = {name: value for name, value in os.environ.items() if name != "URL" and not name.startswith("QUEEN_")}
    done = subprocess.run(
        ["/bin/sh", "-ec", script.replace(PORT, served.url.rpartition(":")[2])],
        cwd=ROOT,
        env=environment | {"QUEEN_URL": served.url},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if line]


def test_the_commands_and_the_program_of_the_readme_work_as_pasted(served, tmp_path):
    [console] = [list(commands(block.text)) for block in blocks(PAGE, "README.md") if block.language == "console"]
    promised = [line for command in console for line in command.promised]
    printed = run("".join(f"{command.text}\necho\n" for command in console), served)
    assert len(printed) == len(promised), printed
    assert all(map(keeps, promised, printed)), printed

    [program] = [block.text for block in blocks(PAGE, "README.md") if block.language == "python"]
    [interpreter] = re.findall(r"run `(\S+) first\.py`", PAGE)
    (tmp_path / "first.py").write_text(program)
    assert run(f"{interpreter} {tmp_path}/first.py", served) == re.findall(r"^# -> (.*)$", program, re.MULTILINE)


@pytest.mark.parametrize("promise", ["At least once", "Exactly once", "At most once"])
def test_the_readme_says_how_often_a_message_is_delivered(promise):
    assert f"\n| **{promise}** |" in PAGE
