"""Two groups read one stream, each at its own pace.

$ python examples/two_groups.py
billing has read: tea, cake, jam
shipping has read: tea
billing: 0 to go
shipping: 2 to go
audit starts now and has read: milk
"""

import asyncio
import json
from datetime import UTC, datetime

from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.engine.embedded import EmbeddedPostgres
from queenmq.model import Ack, Outgoing, PopRequest


async def push(engine: Engine, *items: str) -> None:
    """Append items to the stream."""
    await engine.push([Outgoing("stream", json.dumps(item).encode()) for item in items])


async def read(engine: Engine, request: PopRequest) -> str:
    """Read what is there, and say so."""
    popped = await engine.pop(request)
    await engine.ack([Ack.of(message) for message in popped.messages])
    return ", ".join(json.loads(bytes(message.payload)) for message in popped.messages)


async def main(dsn: str) -> None:
    """Show that groups do not know of each other."""
    async with Engine(dsn) as engine:
        await engine.admin.delete_queue("stream")  # of an earlier run
        await push(engine, "tea", "cake", "jam")
        print("billing has read:", await read(engine, PopRequest(queue="stream", group="billing", batch=10)))
        print("shipping has read:", await read(engine, PopRequest(queue="stream", group="shipping", batch=1)))
        for line in await engine.admin.ledger("stream"):
            print(f"{line.group_name}: {line.pending} to go")

        audit = PopRequest(queue="stream", group="audit", batch=10, subscription_from=datetime.now(UTC))
        await read(engine, audit)  # the first pop records where a group starts
        await push(engine, "milk")
        print("audit starts now and has read:", await read(engine, audit))


if __name__ == "__main__":
    with EmbeddedPostgres(Settings.load().data_dir) as postgres:
        asyncio.run(main(asyncio.run(postgres.create_database("examples"))))
