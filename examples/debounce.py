"""Two ways to wait before handling: until a partition has been quiet for a while, or until a message is old enough.

Someone types; the document is saved once, a second after the last key. A reminder comes a second after it was set.

    $ python examples/debounce.py
    nothing yet
    save "Hello" after 5 keys, quiet for 1 s: True
    reminder after at least 1 s: True
"""

import asyncio
import json
from datetime import UTC, datetime, timedelta

from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.engine.embedded import EmbeddedPostgres
from queenmq.model import Ack, Message, Outgoing, PopRequest


async def take(engine: Engine, queue: str, wait_seconds: float) -> list[Message]:
    """Pop what is due, waiting for it if need be, and acknowledge it."""
    popped = await engine.pop(PopRequest(queue=queue, batch=100), wait_seconds=wait_seconds)
    await engine.ack([Ack.of(message) for message in popped.messages])
    return list(popped.messages)


def is_old(message: Message) -> bool:
    """Whether a second has passed since the message was pushed."""
    return datetime.now(UTC) - message.created_at >= timedelta(seconds=1)


async def main(dsn: str) -> None:
    """Type, and set a reminder."""
    async with Engine(dsn) as engine:
        for queue in ("keys", "reminders"):
            await engine.admin.delete_queue(queue)  # of an earlier run
        await engine.admin.configure_queue("keys", window_buffer_seconds=1)
        await engine.admin.configure_queue("reminders", delayed_processing_seconds=1)
        for key in "Hello":
            await engine.push([Outgoing("keys", json.dumps(key).encode(), partition="letter.txt")])
        if not await take(engine, "keys", wait_seconds=0):
            print("nothing yet")
        keys = await take(engine, "keys", wait_seconds=30)
        text = "".join(json.loads(bytes(key.payload)) for key in keys)
        print(f'save "{text}" after {len(keys)} keys, quiet for 1 s: {is_old(keys[-1])}')

        await engine.push([Outgoing("reminders", b'"stretch"')])
        [reminder] = await take(engine, "reminders", wait_seconds=30)
        print("reminder after at least 1 s:", is_old(reminder))


if __name__ == "__main__":
    with EmbeddedPostgres(Settings.load().data_dir) as postgres:
        asyncio.run(main(asyncio.run(postgres.create_database("examples"))))
