"""docs/contributing/tour.md agrees with the code: its files exist, define its functions, and lead to one another."""

import ast
import re
from functools import cache
from pathlib import Path

import msgspec
import pytest

import queenmq
from tests.docs.page import ROOT

PAGE = (ROOT / "docs" / "contributing" / "tour.md").read_text()
SOURCE = ROOT / "src" / queenmq.__name__
ROW = re.compile(
    r"^\| (?P<number>\d+) \| (?P<caller>\d*)(?:, (?P<way>[^|]+?))? ?\| `(?P<file>[^`]+)` \| `(?P<function>[^`]+)` \|",
    re.MULTILINE,
)
THROUGH = re.compile(r"through `(?P<file>[^`]+)`")


class Step(msgspec.Struct, frozen=True):
    """A row of a table."""

    path: str
    number: int
    caller: "Step | None"
    way: str
    file: Path
    function: str


def read(section: str) -> list[Step]:
    """The steps of a path, in order."""
    steps: list[Step] = []
    path = section.splitlines()[0]
    for row in ROW.finditer(section):
        assert int(row["number"]) == len(steps) + 1, f"{path}: step {row['number']} is out of order"
        caller = steps[int(row["caller"]) - 1] if row["caller"] else None
        steps.append(Step(path, len(steps) + 1, caller, row["way"] or "", SOURCE / row["file"], row["function"]))
    assert len(steps) == len(re.findall(r"^\| \d", section, re.MULTILINE)), f"a row of {path} is not understood"
    return steps


STEPS = [step for section in PAGE.split("\n## ")[1:] for step in read(section)]
CALLS = [step for step in STEPS if step.caller is not None]


def name(step: Step) -> str:
    return f"{step.path} {step.number}: {step.function}"


@cache
def defined(path: Path) -> set[str]:
    """The functions of a Python file, methods with their class; the function of a SQL file."""
    if path.suffix == ".sql":
        return set(re.findall(r"^create function (queen\.\w+)\(", path.read_text(), re.MULTILINE))
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
            found |= {f"{node.name}.{each.name}" for each in methods}
    return found


def module(dotted: str) -> Path | None:
    """The file of a module of ours."""
    path = SOURCE.parent.joinpath(*dotted.split("."))
    files = [path.with_suffix(".py"), path / "__init__.py"]
    return next((file for file in files if dotted.startswith(queenmq.__name__) and file.exists()), None)


@cache
def imports(path: Path) -> set[Path]:
    """The files that a file imports; of a package, also those that its `__init__` imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {module(node.module), *(module(f"{node.module}.{alias.name}") for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {module(alias.name) for alias in node.names}
    files = {file for file in found if file is not None and file != path}
    packages = {file for file in files if file.name == "__init__.py" and file.parent != SOURCE}
    return files.union(*(imports(package) for package in packages))


@cache
def reaches(path: Path) -> set[Path]:
    """The files that a file imports, directly or through others."""
    found: set[Path] = set()
    ahead = [path]
    while ahead:
        new = imports(ahead.pop()) - found
        found |= new
        ahead += new
    return found


@pytest.mark.parametrize("step", STEPS, ids=name)
def test_every_file_that_is_named_exists_and_defines_its_function(step):
    assert step.file.exists(), f"there is no {step.file.relative_to(ROOT)}"
    assert step.function in defined(step.file)


@pytest.mark.parametrize("step", CALLS, ids=name)
def test_a_step_is_linked_to_its_caller(step):
    caller, file = step.caller.file, step.file
    if step.way == "as SQL":
        assert file.suffix == ".sql"
        function = step.function.removeprefix("queen.")
        assert re.search(rf"queen\.{function}\b|\"{function}\"", caller.read_text()), "the caller does not name it"
    elif step.way == "over HTTP":
        assert (caller.relative_to(SOURCE).parts[0], file.relative_to(SOURCE).parts[0]) == ("client", "broker")
    elif way := THROUGH.fullmatch(step.way):
        through = SOURCE / way["file"]
        assert file == through or file in imports(through)
        assert through in imports(caller) or caller in reaches(through)
    else:
        assert step.way == ""
        assert file == caller or file in imports(caller)


def test_a_push_a_pop_and_an_ack_begin_in_the_sdk_and_end_in_postgresql():
    for title in ("A push", "A pop", "An ack"):
        files = [step.file.relative_to(SOURCE) for step in STEPS if step.path == title]
        assert files[0].parts[0] == "client"
        assert any(file.suffix == ".sql" for file in files)


def test_a_file_that_is_gone_is_found_out():
    [gone] = read("A push\n\n| 1 | | `engine/nowhere.py` | `nothing` | nothing |\n")
    with pytest.raises(AssertionError, match=r"there is no src/queenmq/engine/nowhere\.py"):
        test_every_file_that_is_named_exists_and_defines_its_function(gone)


def test_a_link_that_is_gone_is_found_out():
    first, second = read(
        "A push\n\n| 1 | | `errors.py` | `nothing` | nothing |\n"
        "| 2 | 1 | `engine/push/pusher.py` | `nothing` | nothing |\n"
    )
    assert second.caller == first
    with pytest.raises(AssertionError):
        test_a_step_is_linked_to_its_caller(second)
