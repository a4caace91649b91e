"""The way from a command to the queue: a server, or PostgreSQL itself."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import typer

from queenmq.client.queen import AsyncQueen
from queenmq.config import Settings, masked

T = TypeVar("T")

CACHE_BYTES_MAX = 8 << 20


def connected(url: str | None, dsn: str | None, work: Callable[[AsyncQueen], Awaitable[T]]) -> T:
    """Do something with a connection; without an address, where QUEEN_URL or QUEEN_DSN say, or on this machine."""

    async def run() -> T:
        # A command comes and goes: what must go on (retention, ticks) is left to servers, and what it pushed it will
        # hardly pop itself.
        settings = Settings.load(upkeep=False, segment_cache_bytes_max=CACHE_BYTES_MAX)
        async with AsyncQueen(address(url, dsn), settings=settings) as queen:
            return await work(queen)

    return asyncio.run(run())


async def check_queue(queen: AsyncQueen, queue: str | None) -> None:
    """Raise QueueNotFound if a queue was named and does not exist: most answers about it would just be empty."""
    if queue is not None:
        await queen.admin.describe(queue)


def address(url: str | None, dsn: str | None) -> str | None:
    """What was given of the two."""
    if url is not None and dsn is not None:
        raise typer.BadParameter("--url and --dsn name two places: give one of them")
    if url is not None and not url.lstrip().startswith(("http://", "https://")):
        raise typer.BadParameter(f"--url takes addresses such as http://host:6632, not {masked(url)[:60]!r}")
    if dsn is not None and not dsn.lstrip().startswith(("postgresql://", "postgres://")):
        raise typer.BadParameter(f"--dsn takes an address such as postgresql://host/database, not {masked(dsn)[:60]!r}")
    return url if url is not None else dsn
