"""Keeps a private PostgreSQL running as long as a server needs it: one that has ended is started again.

PostgreSQL itself recovers when one of its processes is killed. It cannot when its first process, the postmaster, is
killed, or when it gives up, as on a full disk. A server that ends again soon after a start waits longer each time.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from time import monotonic

from queenmq.engine.postgres.embedded import EmbeddedPostgres
from queenmq.errors import QueenError

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.25  # between two looks whether it runs
PAUSE_SECONDS_MIN = 0.5  # before the second attempt in a row to start it
PAUSE_SECONDS_MAX = 30.0
STEADY_SECONDS = 60.0  # after running for so long, the next start is a first attempt again

Report = Callable[[str | None], None]  # takes a sentence when PostgreSQL does not run, and None when it runs again


@contextlib.asynccontextmanager
async def supervised(postgres: EmbeddedPostgres, report: Report) -> AsyncIterator[None]:
    """Start PostgreSQL, start it again whenever it has ended, and stop it at the end."""
    await asyncio.to_thread(postgres.start)
    stopping = asyncio.Event()
    watch = asyncio.create_task(_keep_running(postgres, report, stopping))
    try:
        yield
    finally:
        stopping.set()
        await watch  # not cancelled: a start that is under way must end before the stop
        await asyncio.to_thread(postgres.stop)


async def _keep_running(postgres: EmbeddedPostgres, report: Report, stopping: asyncio.Event) -> None:
    pause, started_at = 0.0, monotonic()
    while not await _is_set_within(stopping, LOOK_SECONDS):
        if await asyncio.to_thread(postgres.is_running):
            continue
        if monotonic() - started_at > STEADY_SECONDS:
            pause = 0.0
        log.error("the private PostgreSQL has ended and is started again", extra={"pause_seconds": pause})
        report(f"The private PostgreSQL in {postgres.data_dir} has ended. The server starts it again.")
        while not await _is_set_within(stopping, pause):
            pause = min(max(PAUSE_SECONDS_MIN, 2 * pause), PAUSE_SECONDS_MAX)
            if await _start(postgres, report, pause):
                started_at = monotonic()
                break


async def _start(postgres: EmbeddedPostgres, report: Report, pause: float) -> bool:
    """Try to start it, and say how that went."""
    try:
        await asyncio.to_thread(postgres.start, create=False)  # an empty one is worse than none
    except (QueenError, OSError) as error:
        log.error(  # noqa: TRY400 (a traceback says nothing more)
            "the private PostgreSQL could not be started", extra={"cause": _cause(error), "next_attempt_seconds": pause}
        )
        report(
            f"The private PostgreSQL in {postgres.data_dir} has ended and could not be started; the server's log and "
            f"{postgres.log_path} say why. The next attempt is in {pause:g} s."
        )
        return False
    log.warning("the private PostgreSQL runs again")
    report(None)
    return True


def _cause(error: Exception) -> str:
    """The line that matters of an error that quotes the log of PostgreSQL."""
    lines = str(error).splitlines() or [repr(error)]
    return next((line for line in reversed(lines) if "FATAL" in line or "PANIC" in line), lines[-1])


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event, at most so long; answers whether it is set."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()
