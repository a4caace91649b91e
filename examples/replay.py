"""Messages stay after they were read: a group can be moved back and read them again.

$ python examples/replay.py
first time: 1 2 3 4
from the beginning: 1 2 3 4
since the third was pushed: 3 4
from offset 1: 2 3 4
"""

import asyncio

from queenmq import Queen
from queenmq.config import Settings
from queenmq.engine.postgres.embedded import EmbeddedPostgres


def read(queen: Queen) -> str:
    """Everything the group has not read yet."""
    messages = queen.queue("events").group("report").batch(100).auto_ack().pop()
    return " ".join(str(message.payload) for message in messages)


def main(dsn: str) -> None:
    """Read, go back, read again."""
    with Queen(dsn) as queen:
        queen.admin.delete("events")  # of an earlier run
        queen.queue("events").push_many([1, 2])
        queen.queue("events").push_many([3, 4])
        print("first time:", read(queen))
        queen.groups.seek("report", "events", to="beginning")
        print("from the beginning:", read(queen))
        _, _, third, _ = queen.queue("events").read()
        queen.groups.seek("report", "events", timestamp=third.created_at)
        print("since the third was pushed:", read(queen))
        queen.groups.seek("report", "events", partition="Default", offset=1)
        print("from offset 1:", read(queen))


if __name__ == "__main__":
    with EmbeddedPostgres(Settings.load().data_dir) as postgres:
        main(asyncio.run(postgres.create_database("examples")))
