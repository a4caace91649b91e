"""A page of documentation as its code blocks, and what the blocks promise.

    # -> text     what the Python statement above (or on this line) prints, or its value
    -- -> a | b   a row that the SQL statement above gives
    -- x QN404    the error that it raises
    $ command     in a console block; the lines below are what it prints

`…` stands for anything. A block below <!-- not run: reason --> is for reading only.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN = ("python", "sql", "console")

_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: (?P<reason>.+) -->\s*\Z")
_SQL = re.compile(r"(?P<quoted>\$\$.*?\$\$|'[^']*'|--[^\n]*)|(?P<end>;)", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One block, and where it stands."""

    place: str
    language: str
    text: str
    not_run: str | None


@dataclass(frozen=True)
class Statement:
    """One SQL statement or shell command, with what is promised of it."""

    text: str
    promised: tuple[str, ...]
    error: str | None = None


def blocks(page: str, name: str) -> list[Block]:
    """The blocks of a page, in order."""
    found = []
    for fence in _FENCE.finditer(page):
        line = page[: fence.start()].count("\n") + 1
        mark = _NOT_RUN.search(page[: fence.start()])
        found.append(Block(f"{name}:{line}", fence["language"], fence["text"], mark["reason"] if mark else None))
    return found


def statements(block: str) -> Iterator[Statement]:
    """The statements of a SQL block; comments that promise something belong to the statement before them."""
    start = 0
    ends = [found.end() for found in _SQL.finditer(block) if found["end"]]
    for number, end in enumerate(ends):
        following = block[end : ends[number + 1] if number + 1 < len(ends) else len(block)]
        promises = re.match(r"(\s*--[^\n]*(\n|\Z))*", following)
        assert promises is not None
        error = re.search(r"^\s*-- x (\w{5})", promises[0], re.MULTILINE)
        yield Statement(
            block[start:end].strip(),
            tuple(re.findall(r"^\s*-- -> ?(.*?)\s*$", promises[0], re.MULTILINE)),
            error[1] if error else None,
        )
        start = end
    assert re.fullmatch(r"(\s|--[^\n]*)*", block[start:]), f"no semicolon after: {block[start:]}"


def commands(block: str) -> Iterator[Statement]:
    """The commands of a console block with what they print."""
    for command in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        text, *promised = command.rstrip().splitlines()
        yield Statement(text, tuple(promised))


def keeps(promised: str, output: str) -> bool:
    """Whether a line of output is what was promised."""
    return re.fullmatch(".*".join(map(re.escape, promised.split("…"))), output) is not None
