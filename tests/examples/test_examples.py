"""Every example is a complete program that prints what its docstring says, however often it is run."""

import ast
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from queenmq.engine.postgres.embedded import EmbeddedPostgres
from tests.fixtures.clusters import FAST, server_dir

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LINES_MAX = 60
STOP_AFTER = {"worker.py": "done: varnish\n"}  # runs until it is told to stop
SESSION = re.compile(r"^\$ python examples/(?P<name>\w+\.py)\n(?P<output>.+)\Z", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def data_dir() -> Iterator[Path]:
    """A data directory that is served already: an example that finds it so does not start a server of its own."""
    with server_dir() as directory, EmbeddedPostgres(directory / "data", settings=FAST) as postgres:
        yield postgres.data_dir


def promised(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    session = SESSION.search(re.sub(r"^    ", "", docstring or "", flags=re.MULTILINE))
    assert session is not None, "the docstring ends with the command and what it prints"
    assert session["name"] == path.name
    return session["output"] + "\n"


def run(path: Path, data_dir: Path) -> tuple[str, int]:
    command = [sys.executable, "-W", "error", str(path)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("QUEEN_")}
    environment["QUEEN_DATA_DIR"] = str(data_dir)
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as program:
        said = ""
        for line in program.stdout:
            said += line
            if line == STOP_AFTER.get(path.name):
                program.send_signal(signal.SIGTERM)
    return said, program.returncode


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_it_says(path, data_dir):
    for _ in range(2):
        assert run(path, data_dir) == (promised(path), 0)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short(path):
    assert path.read_text().count("\n") < LINES_MAX
