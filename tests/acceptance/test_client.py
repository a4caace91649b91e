"""The client `queen-mq` from PyPI, which is made elsewhere, works with our server unchanged.

Every step is a function in steps/, run by the client's own interpreter; a chapter is one process.
"""

import ast
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.broker.issuer import token

STEPS = Path(__file__).with_name("steps")
CHAPTER_SECONDS_MAX = 300
TOKENS = {"roles": {"roles": None, "role": "read-write"}}  # chapters that need one, and its claims


def steps() -> list[tuple[str, str]]:
    """Chapters and the names of their steps, read without importing them."""
    found = []
    for path in sorted(STEPS.glob("*.py")):
        functions = [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.AsyncFunctionDef)]
        found += [(path.stem, name) for name in functions if path.stem != "runner" and not name.startswith("_")]
    return found


@pytest.fixture(scope="module")
def told(client_python, server, guarded, tmp_path_factory):
    """What a chapter's steps have to tell: nothing, or what went wrong. Each chapter runs once."""
    chapters: dict[str, dict[str, str | None]] = {}
    directory = tmp_path_factory.mktemp("acceptance")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("QUEEN_", "PYTHON"))}

    def tell(chapter: str) -> dict[str, str | None]:
        if chapter not in chapters:
            report = directory / chapter
            url, tokens = (guarded.url, [token(**TOKENS[chapter])]) if chapter in TOKENS else (server.url, [])
            subprocess.run(
                [client_python, STEPS / "runner.py", url, chapter, report, *tokens],
                env=environment,
                check=True,
                timeout=CHAPTER_SECONDS_MAX,
            )
            chapters[chapter] = json.loads(report.read_text())
        return chapters[chapter]

    return tell


@pytest.mark.parametrize(("chapter", "step"), steps())
def test_the_published_client_finds_that(told, chapter, step):
    complaint = told(chapter)[step]
    assert complaint is None, complaint
