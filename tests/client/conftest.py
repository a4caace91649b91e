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
