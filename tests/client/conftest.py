"""One suite, every way to a queue: a test that asks for `queen` runs over both transports, in both skins."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest

from queenmq import AsyncQueen, Queen
from tests.client.skins import awaited

if TYPE_CHECKING:
    from tests.fixtures.servers import Served

TRANSPORTS = ("http", "postgres")
SKINS = ("asyncio", "blocking")
PAIRS = {("http", "asyncio"), ("postgres", "blocking")}  # each transport and each skin once


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep every combination of transport and skin only with `--everything`: one skin is generated from the other."""
    if config.getoption("--everything"):
        return
    kept, left_out = [], []
    for item in items:
        values = getattr(item, "callspec", None)
        pair = (values.params.get("address"), values.params.get("queen")) if values else (None, None)
        (kept if None in pair or pair in PAIRS else left_out).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)


@pytest.fixture(params=TRANSPORTS)
def address(request: pytest.FixtureRequest, module_database: str) -> str:
    """Where the module's database is to be found: at a server, or by itself."""
    if request.param == "postgres":
        return module_database
    server: Served = request.getfixturevalue("server")
    return server.url


@pytest.fixture(params=SKINS)
async def queen(request: pytest.FixtureRequest, address: str) -> AsyncIterator[Any]:
    """A client, to be spoken to as AsyncQueen."""
    async with AsyncQueen(address) if request.param == "asyncio" else awaited(Queen(address)) as opened:
        yield opened
