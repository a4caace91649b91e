"""No test waits without an end: a regression fails, it does not hang."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FILES = {str(path.relative_to(TESTS)): path.read_text() for path in sorted(TESTS.rglob("*.py"))}


def loops(node: ast.AST, *, timed: bool = False) -> Iterator[ast.While]:
    """The `while` loops of a file that nothing around them ends in time."""
    for child in ast.iter_child_nodes(node):
        ends = timed
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            ends = False
        if isinstance(child, ast.AsyncWith):
            ends = ends or any("timeout(" in ast.unparse(item) for item in child.items)
        if isinstance(child, ast.While) and not ends:
            yield child
        yield from loops(child, timed=ends)


def waits_without_end(loop: ast.While) -> bool:
    """Whether a loop only waits for its condition, and has no deadline."""
    kinds = tuple(map(type, loop.body))
    idle = set(kinds) <= {ast.Pass, ast.Assert}
    asks = set(kinds) <= {ast.Pass, ast.Assert, ast.Expr} and any(
        isinstance(node, ast.Await) for node in ast.walk(loop)
    )
    works = any(isinstance(node, ast.Yield) for node in ast.walk(loop)) or isinstance(loop.test, ast.Constant)
    works = works or isinstance(loop.test, ast.NamedExpr) or "stop" in ast.unparse(loop.test)
    works = works or (isinstance(loop.test, ast.Attribute) and isinstance(loop.test.value, ast.NamedExpr))
    ends = any(word in ast.unparse(loop) for word in ("deadline", "monotonic"))
    return (idle or asks) and not works and not ends


def test_every_wait_has_a_deadline():
    found = [
        f"tests/{name}:{loop.lineno}"
        for name, text in FILES.items()
        for loop in loops(ast.parse(text))
        if waits_without_end(loop)
    ]
    assert found == [], "wait with tests.waits.until, or inside asyncio.timeout"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("while not done(): pass", True),
        ("while not done(): assert alive()", True),
        ("async def f():\n while await pending(): pass", True),
        ("async def f():\n while not done():\n  await turn()", True),
        ("async def f():\n async with asyncio.timeout(5):\n  while await pending(): pass", False),
        ("async def f():\n async with asyncio.timeout(5):\n  async def g():\n   while await pending(): pass", True),
        ("while not done(): deadline.check()", False),
        ("while not done(): assert monotonic() < end", False),
        ("async def f():\n while rows := await page(rows): seen.append(rows)", False),
        ("async def f():\n while not self.stopping:\n  await work()", False),
    ],
)
def test_the_rule_finds_waits_without_an_end(text, wrong):
    assert [waits_without_end(loop) for loop in loops(ast.parse(text))] == (
        [wrong] if wrong or "timeout" not in text else []
    )
