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

from queenmq import Message, Queen
from queenmq.config import Settings
from queenmq.engine.postgres.embedded import EmbeddedPostgres


def make(message: Message, *, oven: bool) -> None:
    """Make what was ordered; what goes wrong is said in the acknowledgement."""
    if message.payload == "cake" and not oven:
        print(f"failed cake (delivery {message.retry_count + 1}): the oven is cold")
        message.ack("failed", "the oven is cold")
    else:
        print(f"made {message.payload}")
        message.ack()


def drain(queen: Queen, *, oven: bool) -> None:
    """Make everything that is ordered."""
    while messages := queen.queue("kitchen").batch(10).pop():
        for message in messages:
            make(message, oven=oven)


def main(dsn: str) -> None:
    """Fail until the queue gives up, look at the dead letter, light the oven, and have it delivered again."""
    with Queen(dsn) as queen:
        queen.admin.delete("kitchen")  # of an earlier run
        queen.admin.configure("kitchen", retry_limit=2, retry_delay_ms=0)
        queen.queue("kitchen").push_many(["tea", "cake", "salad"])
        drain(queen, oven=False)
        for letter in queen.dead_letters.list(queue="kitchen").dead_letters:
            print(f"dead letter: {letter.json.decode()}, because {letter.error}")
        queen.dead_letters.redrive(queue="kitchen")
        drain(queen, oven=True)


if __name__ == "__main__":
    with EmbeddedPostgres(Settings.load().data_dir) as postgres:
        main(asyncio.run(postgres.create_database("examples")))
