"""Ten thousand readings, pushed one by one and sent together; a report comes for each of them.

$ python examples/buffered_producer.py
10000 readings stored, 0 refused
sensor-7 begins with [7, 17, 27]
"""

import asyncio
from collections import Counter

from queenmq import Queen
from queenmq.config import Settings
from queenmq.engine.postgres.embedded import EmbeddedPostgres


def main(dsn: str) -> None:
    """Push, look at the reports, and at the order in a partition."""
    stored: Counter[bool] = Counter()
    with Queen(dsn) as queen:
        queen.admin.delete("readings")  # of an earlier run
        with queen.producer(on_delivery=lambda report: stored.update([hasattr(report.outcome, "id")])) as producer:
            for number in range(10_000):
                producer.push("readings", number, partition=f"sensor-{number % 10}")
        print(f"{stored[True]} readings stored, {stored[False]} refused")
        messages = queen.queue("readings").partition("sensor-7").batch(3).pop()
        print("sensor-7 begins with", [message.payload for message in messages])


if __name__ == "__main__":
    with EmbeddedPostgres(Settings.load().data_dir) as postgres:
        main(asyncio.run(postgres.create_database("examples")))
