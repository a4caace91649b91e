"""Every customer's orders are handled in order, however many workers there are.

A customer is a partition. Three workers take whatever customer is free; nobody gets one that another worker holds.

    $ python examples/ordered_per_customer.py
    ann: tea, cake, jam
    bob: milk, bread
    eve: soup, salad
"""

import asyncio

from queenmq import AsyncQueen, Outgoing
from queenmq.config import Settings
from queenmq.engine.postgres.embedded import EmbeddedPostgres

ORDERS = [
    ("ann", "tea"),
    ("bob", "milk"),
    ("ann", "cake"),
    ("eve", "soup"),
    ("bob", "bread"),
    ("ann", "jam"),
    ("eve", "salad"),
]


async def work(queen: AsyncQueen, handled: dict[str, list[str]]) -> None:
    """Take one order at a time, of any customer, while there are some."""
    while messages := await queen.queue("orders").pop():
        for message in messages:
            handled.setdefault(message.partition, []).append(message.payload)
            await queen.ack(message)


async def main(dsn: str) -> None:
    """Push the orders, let three workers handle them, and show who got what in which order."""
    async with AsyncQueen(dsn) as queen:
        await queen.admin.delete("orders")  # of an earlier run
        await queen.queue("orders").push_many([Outgoing(item, partition=customer) for customer, item in ORDERS])
        handled: dict[str, list[str]] = {}
        await asyncio.gather(*(work(queen, handled) for _ in range(3)))
        for customer, items in sorted(handled.items()):
            print(f"{customer}: {', '.join(items)}")


if __name__ == "__main__":
    with EmbeddedPostgres(Settings.load().data_dir) as postgres:
        asyncio.run(main(asyncio.run(postgres.create_database("examples"))))
