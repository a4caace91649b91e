"""docs/sql.md names every function and view, and the arguments of those that are for people."""

import re

from queenmq.sql import Contents
from tests.docs.page import ROOT

PAGE = (ROOT / "docs" / "sql.md").read_text()
CODE = {file.name.removesuffix(".sql"): file.text for file in Contents.read().code}
FUNCTIONS = {name.removeprefix("functions/"): text for name, text in CODE.items() if name.startswith("functions/")}
VIEWS = {name.removeprefix("views/") for name in CODE if name.startswith("views/")}

INTERNAL = set(re.findall(r"`(\w+)`", PAGE[PAGE.index("## Internal") :]))
SIGNATURES = dict(re.findall(r"`queen\.(\w+)\(([^)…]*)\)`", PAGE))


def arguments(text: str) -> list[str]:
    """What a function takes, without the clock."""
    code = re.sub(r"--.*", "", text[text.index("create function") :])
    signature = re.split(r"^\)? ?returns |^language ", code, flags=re.MULTILINE)[0]
    return [name for name in re.findall(r"\b(p_\w+)\s+[a-z]", signature) if name != "p_now"]


def test_every_function_is_documented_once():
    mentioned = set(re.findall(r"queen\.(\w+)", PAGE))
    public = mentioned & FUNCTIONS.keys()
    assert public | INTERNAL == FUNCTIONS.keys()
    assert not public & INTERNAL


def test_every_view_is_documented():
    assert set(re.findall(r"`queen\.(\w+)`", PAGE)) >= VIEWS


def test_the_arguments_are_those_of_the_functions():
    written = {name: re.findall(r"\w+", names) for name, names in SIGNATURES.items()}
    assert written == {name: arguments(FUNCTIONS[name]) for name in written}
    assert len(written) > 40
