"""A handler's own rows, what it pushes and the ack are one transaction: however often it fails, it happens once.

$ python examples/exactly_once.py
the first try fails after the insert
ann has 40
receipt for ann: 40
"""

import asyncio
import logging

import asyncpg
import msgspec

from queenmq import AsyncQueen, Stop
from queenmq.config import Settings
from queenmq.engine.postgres.embedded import EmbeddedPostgres

TABLE = "drop table if exists deposits; create table deposits (account text, amount int)"


class Deposit(msgspec.Struct):
    """What a payload must look like."""

    account: str
    amount: int


async def main(dsn: str) -> None:
    """Deposit once, although the first try fails when everything but the commit is done."""
    stop, tries = Stop(), 0
    async with AsyncQueen(dsn) as queen, asyncpg.create_pool(dsn, min_size=1) as pool:
        for queue in ("deposits", "receipts"):
            await queen.admin.delete(queue)  # of an earlier run
        await queen.admin.configure("deposits", retry_delay_ms=10)
        await pool.execute(TABLE)
        await queen.queue("deposits").push(Deposit("ann", 40))

        async def deposit(order: Deposit, connection: asyncpg.Connection) -> None:
            nonlocal tries
            tries += 1
            await connection.execute("insert into deposits values ($1, $2)", order.account, order.amount)
            await queen.push_in(connection, "receipts", order)
            if tries == 1:
                print("the first try fails after the insert")
                raise ConnectionError("a machine went away")
            stop.set()

        await queen.queue("deposits").consume(deposit, connection=pool, stop=stop)
        print("ann has", await pool.fetchval("select sum(amount) from deposits where account = 'ann'"))
        for message in await queen.queue("receipts").batch(10).wait().pop():
            receipt = message.payload_as(Deposit)
            print(f"receipt for {receipt.account}: {receipt.amount}")


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)  # a handler that fails is a warning, and expected here
    with EmbeddedPostgres(Settings.load().data_dir) as postgres:
        asyncio.run(main(asyncio.run(postgres.create_database("examples"))))
