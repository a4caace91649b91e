"""PostgreSQL goes, politely or not, and comes back."""

import asyncio
import os
import select
import signal
from typing import Literal

from queenmq.engine.postgres.embedded import EmbeddedPostgres
from queenmq.engine.postgres.embedded.postmaster import Postmaster


async def stop(postgres: EmbeddedPostgres, how: Literal["kill", "fast", "immediate"]) -> None:
    """End it; when this returns it has ended."""
    if how == "kill":
        postmaster = Postmaster.of(postgres.pgdata, wait_seconds=0)
        assert postmaster is not None
        process = os.pidfd_open(postmaster.pid)
        os.kill(postmaster.pid, signal.SIGKILL)
        await asyncio.to_thread(select.select, [process], [], [], 10)
        os.close(process)
    else:
        await asyncio.to_thread(postgres._run, "pg_ctl", "stop", "-D", str(postgres.pgdata), "-m", how, "-w")


async def start(postgres: EmbeddedPostgres) -> None:
    """Have it back."""
    await asyncio.to_thread(postgres.start)
