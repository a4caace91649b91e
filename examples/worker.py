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
import signal

from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.engine.embedded import EmbeddedPostgres
from queenmq.model import Ack, Outgoing, PopRequest


async def work(engine: Engine, stop: asyncio.Event) -> None:
    """Handle jobs one after the other until told to stop."""
    stopping = asyncio.create_task(stop.wait())
    while not stop.is_set():
        poll = asyncio.create_task(engine.pop(PopRequest(queue="jobs"), wait_seconds=60))
        await asyncio.wait({poll, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not poll.done():
            poll.cancel()  # a job it was about to be given goes back to the queue
            await asyncio.wait({poll})
            return
        for message in poll.result().messages:
            print("done:", bytes(message.payload).decode().strip('"'), flush=True)
            await engine.ack([Ack.of(message)])


async def main(dsn: str) -> None:
    """Push a few jobs while the worker waits; it goes on waiting until it is told to stop."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Engine(dsn) as engine:
        await engine.admin.delete_queue("jobs")  # of an earlier run
        worker = asyncio.create_task(work(engine, stop))
        print("waiting; stop with Ctrl-C", flush=True)
        for job in (b'"sweep"', b'"polish"', b'"varnish"'):
            await engine.push([Outgoing("jobs", job)])
        await worker
    print("stopped")


if __name__ == "__main__":
    with EmbeddedPostgres(Settings.load().data_dir) as postgres:
        asyncio.run(main(asyncio.run(postgres.create_database("examples"))))
