"""Every customer's orders are handled in order, however many workers there are.

A customer is a partition. Three workers take whatever customer is free; nobody gets one that another worker holds.

    $ python examples/ordered_per_customer.py
    ann: tea, cake, jam
    bob: milk, bread
    eve: soup, salad
"""

import asyncio
import json

from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.engine.embedded import EmbeddedPostgres
from queenmq.model import Ack, Outgoing, PopRequest

ORDERS = [
    ("ann", "tea"),
    ("bob", "milk"),
    ("ann", "cake"),
    ("eve", "soup"),
    ("bob", "bread"),
    ("ann", "jam"),
    ("eve", "salad"),
]


async def work(engine: Engine, handled: dict[str, list[str]]) -> None:
    """Take one order at a time, of any customer, while there are some."""
    while (popped := await engine.pop(PopRequest(queue="orders"))).messages:
        for message in popped.messages:
            handled.setdefault(message.lease.partition, []).append(json.loads(bytes(message.payload)))
        await engine.ack([Ack.of(message) for message in popped.messages])


async def main(dsn: str) -> None:
    """Push the orders, let three workers handle them, and show who got what in which order."""
    async with Engine(dsn) as engine:
        await engine.admin.delete_queue("orders")  # of an earlier run
        await engine.push([Outgoing("orders", json.dumps(item).encode(), customer) for customer, item in ORDERS])
        handled: dict[str, list[str]] = {}
        await asyncio.gather(*(work(engine, handled) for _ in range(3)))
        for customer, items in sorted(handled.items()):
            print(f"{customer}: {', '.join(items)}")


if __name__ == "__main__":
    with EmbeddedPostgres(Settings.load().data_dir) as postgres:
        asyncio.run(main(asyncio.run(postgres.create_database("examples"))))
