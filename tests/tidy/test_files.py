"""The tree: small files, no traces of a machine, no waiting by the clock."""

import re
from pathlib import Path

import pytest

import queenmq

ROOT = Path(__file__).parents[2]
MADE = {".git", ".queen", ".venv", ".uv", "build", "dist", "__pycache__", "vendor"}
GENERATED = {"tests/migrations/schema.sql", "requirements.lock"}
LINES_MAX = 400


def files() -> dict[str, str]:
    """Every text file of the project by its path."""
    found = {}
    for path in sorted(ROOT.rglob("*")):
        name = path.relative_to(ROOT)
        hidden = {part for part in name.parts[:-1] if part.endswith("_cache") or part == ".hypothesis"}
        if not path.is_file() or MADE & set(name.parts) or hidden:
            continue
        try:
            found[str(name)] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
    return found


FILES = files()


def test_no_file_is_long():
    code = {name: text for name, text in FILES.items() if name.endswith((".py", ".sql", ".js"))}
    long = {name: lines for name, text in code.items() if (lines := text.count("\n")) > LINES_MAX}
    assert long.keys() <= GENERATED


def test_no_file_knows_a_machine():
    machine = re.compile(r"(?<![\w.~}-])/(home|root|work|Users|farm)/\w")
    assert [name for name, text in FILES.items() if machine.search(text)] == []


@pytest.mark.parametrize(
    "lock", ["requirements.lock", "requirements-server.lock", "tests/acceptance/requirements.lock"]
)
def test_the_locks_name_no_registry(lock):
    assert "://" not in FILES[lock]


def test_tests_never_sleep():
    """The one place that pauses is the one that waits for a condition."""
    sleep = re.compile(r"\b(time|asyncio)\.sleep\(")
    found = [name for name, text in FILES.items() if name.startswith("tests/") and sleep.search(text)]
    assert found == ["tests/waits.py"]


def test_the_version_is_the_same_everywhere():
    assert f'\nversion = "{queenmq.__version__}"\n' in FILES["pyproject.toml"]


TARGETS = [
    "run",
    "test",
    "test-all",
    "check",
    "bench",
    "demo",
    "lock",
    "clean",
    "screenshots",
    "schema-dump",
    "sync-client",
    "api-docs",
]


def test_make_explains_every_target():
    makefile = FILES["Makefile"]
    assert [target for target in TARGETS if not re.search(rf"^{target}:.*## \w", makefile, re.MULTILINE)] == []
