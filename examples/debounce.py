"""Two ways to wait before handling: until a partition has been quiet for a while, or until a message is old enough.

Someone types; the document is saved once, a second after the last key. A reminder comes a second after it was set.

    $ python examples/debounce.py
    nothing yet
    save "Hello" after 5 keys, quiet for 1 s: True
    reminder after at least 1 s: True
"""

import asyncio
from datetime import UTC, datetime, timedelta

from queenmq import Message, Queen
from queenmq.config import Settings
from queenmq.engine.postgres.embedded import EmbeddedPostgres


def take(queen: Queen, queue: str, wait_seconds: float) -> list[Message]:
    """Pop what is due, waiting for it if need be, and acknowledge it."""
    messages = queen.queue(queue).batch(100).wait(wait_seconds).pop()
    queen.ack_many(messages)
    return messages


def is_old(message: Message) -> bool:
    """Whether a second has passed since the message was pushed."""
    return datetime.now(UTC) - message.created_at >= timedelta(seconds=1)


def main(dsn: str) -> None:
    """Type, and set a reminder."""
    with Queen(dsn) as queen:
        for queue in ("keys", "reminders"):
            queen.admin.delete(queue)  # of an earlier run
        queen.admin.configure("keys", window_buffer_seconds=1)
        queen.admin.configure("reminders", delayed_processing_seconds=1)
        for key in "Hello":
            queen.queue("keys").partition("letter.txt").push(key)
        if not take(queen, "keys", wait_seconds=0):
            print("nothing yet")
        keys = take(queen, "keys", wait_seconds=30)
        text = "".join(key.payload for key in keys)
        print(f'save "{text}" after {len(keys)} keys, quiet for 1 s: {is_old(keys[-1])}')

        queen.queue("reminders").push("stretch")
        [reminder] = take(queen, "reminders", wait_seconds=30)
        print("reminder after at least 1 s:", is_old(reminder))


if __name__ == "__main__":
    with EmbeddedPostgres(Settings.load().data_dir) as postgres:
        main(asyncio.run(postgres.create_database("examples")))
