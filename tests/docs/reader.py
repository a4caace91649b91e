"""Reads a page as a user would: one Python session and one SQL session, on a database of its own.

Python blocks continue one another, with `await` at the top level as in `python -m asyncio`; they find an open
`engine` and its `DSN`. A block that calls asyncio.run is a program of its own, and so is every console command; one
that mentions $URL finds a server there, on the same database.
"""

import ast
import asyncio
import contextlib
import inspect
import io
import os
import sys
import tokenize
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import asyncpg

from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.engine.postgres.embedded.binaries import wheel_bin_dir
from tests.docs.page import ROOT, Block, Statement, commands, keeps, statements
from tests.fixtures.clusters import server_dir
from tests.fixtures.servers import Served

INBOX_ROUNDS_MAX = 1_000
IN_ROOT = ("make ", ".venv/bin/")  # commands that are meant for the root of a checkout


class Reader:
    """Runs the blocks of one page, in order."""

    def __init__(self, dsn: str, engine: Engine, connection: Any, directory: Path) -> None:
        self._dsn = dsn
        self._engine = engine
        self._connection = connection
        self._directory = directory
        self._names: dict[str, Any] = {"DSN": dsn, "engine": engine}
        self._server: Served | None = None

    def close(self) -> None:
        """Stop the server, if a block needed one."""
        if self._server is not None:
            self._server.end()

    async def read(self, block: Block) -> None:
        """Run a block; what it does not keep of its promises is an AssertionError that says where."""
        try:
            if block.language == "sql":
                for statement in statements(block.text):
                    await self._sql(statement)
            elif block.language == "console":
                for command in commands(block.text):
                    await self._command(command)
            elif "asyncio.run(" in block.text:
                await self._program(block.text)
            else:
                await self._session(block.text, block.place)
            await self._sequence()
        except Exception as error:
            error.add_note(f"in the {block.language} block of {block.place}")
            raise

    async def _session(self, text: str, place: str) -> None:
        promises = _promises(text)
        body = ast.parse(text).body
        for node, following in zip(body, [*body[1:], None], strict=True):
            end = following.lineno if following else sys.maxsize
            promised = [promise for line, promise in promises if node.lineno <= line < end]
            output = await self._statement(node, place)
            if promised:
                compare(promised, output)

    async def _statement(self, node: ast.stmt, place: str) -> list[str]:
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            if isinstance(node, ast.Expr):
                code = compile(ast.Expression(node.value), place, "eval", flags=flags)
            else:
                code = compile(ast.Module([node], []), place, "exec", flags=flags)
            value = eval(code, self._names)
            if code.co_flags & inspect.CO_COROUTINE:
                value = await value
            if value is not None:
                printed.write(f"{value!r}\n")
        return printed.getvalue().splitlines()

    async def _program(self, text: str) -> None:
        output = await self._run(sys.executable, "-W", "error", "-c", text)
        compare([promise for _, promise in _promises(text)], output)

    async def _command(self, command: Statement) -> None:
        if "$URL" in command.text and self._server is None:
            self._server = await asyncio.to_thread(Served, self._directory / "server", self._dsn, {})
        output = await self._run("/bin/sh", "-ec", command.text, cwd=ROOT if command.text.startswith(IN_ROOT) else None)
        if command.promised:
            compare(command.promised, output)

    async def _run(self, *command: str, cwd: Path | None = None) -> list[str]:
        tools = [str(Path(sys.executable).parent), str(wheel_bin_dir()), os.environ["PATH"]]
        environment = {
            **os.environ,
            **_libpq(self._dsn),
            "PATH": os.pathsep.join(tools),
            "QUEEN_DSN": self._dsn,
            "QUEEN_DATA_DIR": str(self._directory / "data"),
            "URL": "" if self._server is None else self._server.url,
        }
        process = await asyncio.create_subprocess_exec(
            *command,
            env=environment,
            cwd=cwd or self._directory,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        assert process.returncode == 0, output.decode()
        return output.decode().splitlines()

    async def _sql(self, statement: Statement) -> None:
        try:
            rows = await self._connection.fetch(statement.text)
        except asyncpg.PostgresError as error:
            if error.sqlstate == statement.error:
                return
            error.add_note(statement.text)
            raise
        assert statement.error is None, f"no error {statement.error} from: {statement.text}"
        if statement.promised:
            compare(statement.promised, [" | ".join(map(_shown, row)) for row in rows])
        if not self._connection.is_in_transaction():
            await self._sequence()

    async def _sequence(self) -> None:
        """Wait until what was committed to the inbox is in its partitions, so that the next statement finds it."""
        for _ in range(INBOX_ROUNDS_MAX):
            await self._engine.database.rows("select * from queen.sequence_inbox()")
            if not await self._engine.database.value("select exists (select from queen.inbox)"):
                return


@contextlib.asynccontextmanager
async def reader(dsn: str) -> AsyncIterator[Reader]:
    """A reader with an open engine, a session and a directory of its own."""
    connection = await asyncpg.connect(dsn)
    try:
        with server_dir() as directory:
            async with Engine(dsn, Settings.load({})) as engine:
                page = Reader(dsn, engine, connection, directory)
                try:
                    yield page
                finally:
                    await asyncio.to_thread(page.close)
    finally:
        await connection.close()


def _libpq(dsn: str) -> dict[str, str]:
    """What psql and its like read from the environment, so that they find the page's server without being told."""
    parts = urlsplit(dsn)
    query = dict(parse_qsl(parts.query))
    found = {
        "PGHOST": query.get("host") or parts.hostname,
        "PGPORT": query.get("port") or parts.port,
        "PGUSER": parts.username,
        "PGPASSWORD": parts.password,
    }
    return {name: str(value) for name, value in found.items() if value is not None}


def _promises(text: str) -> list[tuple[int, str]]:
    """The `# -> …` comments of Python code, with their lines."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
    return [(line, comment.removeprefix("# -> ")) for line, comment in comments if comment.startswith("# -> ")]


def compare(promised: Sequence[str], output: Sequence[str]) -> None:
    kept = len(promised) == len(output) and all(map(keeps, promised, output))
    assert kept, "promised:\n  {}\nbut it was:\n  {}".format("\n  ".join(promised), "\n  ".join(output))


def _shown(value: Any) -> str:
    """A value as psql would print it."""
    if isinstance(value, bool):
        return "t" if value else "f"
    return "" if value is None else str(value)
