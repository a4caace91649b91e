"""A message that fails is delivered again in its place; past the retry limit it is set aside, and can come back.

$ python examples/retries_and_dead_letters.py
made tea
failed cake (delivery 1): the oven is cold
made salad
failed cake (delivery 2): the oven is cold
failed cake (delivery 3): the oven is cold
dead letter: "cake", because the oven is cold
made cake
"""

import asyncio
import json

from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.engine.embedded import EmbeddedPostgres
from queenmq.model import Ack, Message, Outgoing, PopRequest


def make(message: Message, *, oven: bool) -> Ack:
    """Make what was ordered; what goes wrong is said in the acknowledgement."""
    item = json.loads(bytes(message.payload))
    if item == "cake" and not oven:
        print(f"failed {item} (delivery {message.retry_count + 1}): the oven is cold")
        return Ack.of(message, "failed", "the oven is cold")
    print(f"made {item}")
    return Ack.of(message)


async def drain(engine: Engine, *, oven: bool) -> None:
    """Make everything that is ordered."""
    while (popped := await engine.pop(PopRequest(queue="kitchen", batch=10))).messages:
        await engine.ack([make(message, oven=oven) for message in popped.messages])


async def main(dsn: str) -> None:
    """Fail until the queue gives up, look at the dead letter, light the oven, and have it delivered again."""
    async with Engine(dsn) as engine:
        await engine.admin.delete_queue("kitchen")  # of an earlier run
        await engine.admin.configure_queue("kitchen", retry_limit=2, retry_delay_ms=0)
        await engine.push([Outgoing("kitchen", json.dumps(item).encode()) for item in ("tea", "cake", "salad")])
        await drain(engine, oven=False)
        for letter in await engine.admin.list_dead_letters("kitchen"):
            print(f"dead letter: {letter.payload.decode()}, because {letter.error}")
        await engine.admin.redrive_dead_letters(queue="kitchen")
        await drain(engine, oven=True)


if __name__ == "__main__":
    with EmbeddedPostgres(Settings.load().data_dir) as postgres:
        asyncio.run(main(asyncio.run(postgres.create_database("examples"))))
