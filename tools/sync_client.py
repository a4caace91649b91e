"""Writes the blocking skin of the SDK from the one for asyncio: `make sync-client`.

    await queen.call(…)             queen.call(…)
    async def, async with, for      def, with, for
    AsyncQueen, AsyncIterator       Queen, Iterator
    __aenter__, asyncio.sleep       __enter__, time.sleep
    queenmq.client.queue            queenmq.client.sync.queue

Tokens are rewritten, so comments, docstrings and blank lines stay as they are; ruff settles the rest. A statement whose
first line ends with `# asyncio only`, such as the overload for a pool of asyncio, is left out. What must
differ is not here but below the skin: transports.blocking runs the same transports on an event loop in a thread.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from itertools import accumulate
from pathlib import Path

CLIENT = Path(__file__).parents[1] / "src/queenmq/client"
SYNC = CLIENT / "sync"
SKIN = (
    "admin", "dead_letters", "groups", "message", "messages", "producer", "queen", "queue", "reading", "source", "tail",
    "traces", "transaction",
)  # fmt: skip

NAMES = {
    "AsyncTransport": "BlockingTransport",
    "open_transport": "open_blocking_transport",
    "execute_in": "execute_in_blocking",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "asyncio": "time",
}
MODULES = {"transports": "transports.blocking"} | {name: f"sync.{name}" for name in SKIN}
ASYNCIO_ONLY = "# asyncio only"
KEYWORDS = {"async", "await"}

_MODULE = re.compile(rf"(?<=queenmq\.client\.)({'|'.join(MODULES)})(?= import)")
_ASYNC_NAME = re.compile(r"\bAsync(?=[A-Z])")
_KEYWORD = re.compile(r"\b(async|await) ")


def generate(name: str) -> str:
    """The blocking twin of a module."""
    text = rewritten(without_asyncio_only((CLIENT / f"{name}.py").read_text()))
    text = _MODULE.sub(lambda found: MODULES[found[0]], text)
    return _tidy(f"# Generated from client/{name}.py by `make sync-client`: edit that file, not this one.\n{text}")


def without_asyncio_only(source: str) -> str:
    """The text without the statements that are marked as having no twin."""
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt):
            begin = min(part.lineno for part in (node, *getattr(node, "decorator_list", ()))) - 1
            if lines[begin].endswith(f"{ASYNCIO_ONLY}\n"):
                lines[begin : node.end_lineno] = [""] * ((node.end_lineno or begin) - begin)
    return "".join(lines)


def rewritten(source: str) -> str:
    """The text with other tokens; from the end on, so that the places of those before stay right."""
    starts = [0, *accumulate(map(len, source.splitlines(keepends=True)))]
    text = source
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(source).readline))):
        begin, end = (starts[row - 1] + column for row, column in (token.start, token.end))
        if token.type == tokenize.NAME and token.string in KEYWORDS:
            text = text[:begin] + text[end:].lstrip(" ")
        elif token.type == tokenize.NAME:
            text = text[:begin] + (NAMES.get(token.string) or _ASYNC_NAME.sub("", token.string)) + text[end:]
        elif token.type in (tokenize.STRING, tokenize.COMMENT):  # docstrings, and annotations in quotes
            text = text[:begin] + _ASYNC_NAME.sub("", _KEYWORD.sub("", token.string)) + text[end:]
    return text


def _tidy(text: str) -> str:
    """Imports sorted and lines broken as in every other file."""
    for command in (["check", "--quiet", "--select", "I", "--fix-only"], ["format", "--quiet"]):
        text = subprocess.run(  # noqa: S603 (our own text, our own ruff)
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(SYNC / "skin.py"), "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    return text


def main() -> None:
    """Write all of them."""
    SYNC.mkdir(exist_ok=True)
    for name in SKIN:
        (SYNC / f"{name}.py").write_text(generate(name))


if __name__ == "__main__":
    main()
