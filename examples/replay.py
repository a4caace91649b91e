"""Messages stay after they were read: a group can be moved back and read them again.

$ python examples/replay.py
first time: 1 2 3 4
from the beginning: 1 2 3 4
since the third was pushed: 3 4
from offset 1: 2 3 4
"""

import asyncio

from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.engine.embedded import EmbeddedPostgres
from queenmq.model import Outgoing, PopRequest

READ = PopRequest(queue="events", group="report", batch=100, auto_ack=True)


async def read(engine: Engine) -> str:
    """Everything the group has not read yet."""
    popped = await engine.pop(READ)
    return " ".join(bytes(message.payload).decode() for message in popped.messages)


async def main(dsn: str) -> None:
    """Read, go back, read again."""
    async with Engine(dsn) as engine:
        await engine.admin.delete_queue("events")  # of an earlier run
        await engine.push([Outgoing("events", b"1"), Outgoing("events", b"2")])
        third, _ = await engine.push([Outgoing("events", b"3"), Outgoing("events", b"4")])
        print("first time:", await read(engine))
        await engine.admin.seek_group("report", "events", to="beginning")
        print("from the beginning:", await read(engine))
        await engine.admin.seek_group("report", "events", timestamp=third.created_at)
        print("since the third was pushed:", await read(engine))
        await engine.admin.seek_group("report", "events", offset=1)
        print("from offset 1:", await read(engine))


if __name__ == "__main__":
    with EmbeddedPostgres(Settings.load().data_dir) as postgres:
        asyncio.run(main(asyncio.run(postgres.create_database("examples"))))
