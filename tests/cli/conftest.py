"""One server for all tests of the command line, and commands that are run in this process.

def test_it(queen, queue):
    queen("push", queue, "1")           must end with 0
    queen("why", queue).json            with --json added
    queen("pop", queue, status=2).err
"""

import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from queenmq.cli import main
from tests.fixtures.clusters import Cluster
from tests.fixtures.databases import _database
from tests.fixtures.servers import Served

Queen = Callable[..., "Outcome"]


@dataclass(frozen=True)
class Outcome:
    """What a command has printed."""

    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]


@pytest.fixture(scope="session")
def shop(cluster: Cluster, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, str]]:
    """A server, and the DSN of its database."""
    with _database(cluster, template) as dsn:
        served = Served(tmp_path_factory.mktemp("shop") / "server", dsn, {"workers": 1})
        yield served, dsn
        sys.stderr.write(served.log)
        served.end()


@pytest.fixture
def url(shop: tuple[Served, str]) -> list[str]:
    return ["--url", shop[0].url]


@pytest.fixture
def dsn(shop: tuple[Served, str]) -> list[str]:
    return ["--dsn", shop[1]]


@pytest.fixture
def queen(url: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Queen:
    """Run a command against the server, or against `at`."""

    def run(*arguments: str, at: Sequence[str] = url, status: int = 0, stdin: bytes | None = None) -> Outcome:
        capsys.readouterr()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin or b"")))
        ended = main([*arguments, *at])
        said = capsys.readouterr()
        assert ended == status, said
        return Outcome(said.out, said.err)

    return run


@pytest.fixture(params=["url", "dsn"])
def either(request: pytest.FixtureRequest, queen: Queen) -> Queen:
    """The same, over HTTP and straight over PostgreSQL."""
    place = request.getfixturevalue(request.param)
    return lambda *arguments, **named: queen(*arguments, **{"at": place} | named)
