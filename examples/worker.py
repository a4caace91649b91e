"""A worker that waits for jobs, and stops politely: Ctrl-C, or SIGTERM from whoever runs it.

It waits without asking again and again. A job that was begun is finished and acknowledged; nothing else is taken.

    $ python examples/worker.py
    waiting; stop with Ctrl-C
    done: sweep
    done: polish
    done: varnish
    stopped
"""

import asyncio

from queenmq import AsyncQueen
from queenmq.config import Settings
from queenmq.engine.postgres.embedded import EmbeddedPostgres


async def work(job: str) -> None:
    """Do one job; when this returns, the job is acknowledged."""
    print("done:", job, flush=True)


async def main(dsn: str) -> None:
    """Push a few jobs while the worker waits; it goes on waiting until it is told to stop."""
    async with AsyncQueen(dsn) as queen:
        await queen.admin.delete("jobs")  # of an earlier run
        worker = asyncio.create_task(queen.queue("jobs").consume(work))
        print("waiting; stop with Ctrl-C", flush=True)
        for job in ("sweep", "polish", "varnish"):
            await queen.queue("jobs").push(job)
        await worker
    print("stopped")


if __name__ == "__main__":
    with EmbeddedPostgres(Settings.load().data_dir) as postgres:
        asyncio.run(main(asyncio.run(postgres.create_database("examples"))))
