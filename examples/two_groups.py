"""Two groups read one stream, each at its own pace.

$ python examples/two_groups.py
billing has read: tea, cake, jam
shipping has read: tea
billing: 0 to go
shipping: 2 to go
audit starts now and has read: milk
"""

import asyncio
from datetime import UTC, datetime

from queenmq import Queen, Queue
from queenmq.config import Settings
from queenmq.engine.postgres.embedded import EmbeddedPostgres


def read(source: Queue) -> str:
    """Read what is there, and say so."""
    messages = source.pop()
    for message in messages:
        message.ack()
    return ", ".join(message.payload for message in messages)


def main(dsn: str) -> None:
    """Show that groups do not know of each other."""
    with Queen(dsn) as queen:
        queen.admin.delete("stream")  # of an earlier run
        stream = queen.queue("stream")
        stream.push_many(["tea", "cake", "jam"])
        print("billing has read:", read(stream.group("billing").batch(10)))
        print("shipping has read:", read(stream.group("shipping").batch(1)))
        for group in queen.groups.list():
            if group.queue == "stream":
                print(f"{group.name}: {group.lag_messages} to go")

        audit = stream.group("audit").subscription_from(datetime.now(UTC)).batch(10)
        read(audit)  # the first pop records where a group starts
        stream.push("milk")
        print("audit starts now and has read:", read(audit))


if __name__ == "__main__":
    with EmbeddedPostgres(Settings.load().data_dir) as postgres:
        main(asyncio.run(postgres.create_database("examples")))
