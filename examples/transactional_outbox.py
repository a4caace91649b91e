"""A message commits together with the application's own rows, or not at all.

$ python examples/transactional_outbox.py
refused by accounts_balance_check
ann has 60, bob has 40
transfer: {"to": "bob", "from": "ann", "amount": 40}
"""

import asyncio
import json

import asyncpg

from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.engine.embedded import EmbeddedPostgres
from queenmq.model import Ack, PopRequest

TABLE = """
drop table if exists accounts;
create table accounts (owner text primary key, balance int not null check (balance >= 0));
insert into accounts values ('ann', 100), ('bob', 0);
"""


async def transfer(connection: asyncpg.Connection, amount: int) -> None:
    """Move money and announce it: one transaction, on the application's own connection."""
    async with connection.transaction():
        announcement = json.dumps({"from": "ann", "to": "bob", "amount": amount})
        await connection.execute("select queen.push('transfers', $1, 'ann')", announcement)
        await connection.execute("update accounts set balance = balance + $1 where owner = 'bob'", amount)
        await connection.execute("update accounts set balance = balance - $1 where owner = 'ann'", amount)


async def main(dsn: str) -> None:
    """Try to move too much, then less: only what was committed is announced."""
    async with Engine(dsn) as engine:
        await engine.admin.delete_queue("transfers")  # of an earlier run
        connection = await asyncpg.connect(dsn)
        await connection.execute(TABLE)
        try:
            await transfer(connection, 400)
        except asyncpg.CheckViolationError as error:
            print(f"refused by {error.constraint_name}")
        await transfer(connection, 40)
        rows = await connection.fetch("select owner, balance from accounts order by owner")
        print(", ".join(f"{row['owner']} has {row['balance']}" for row in rows))
        await connection.close()

        popped = await engine.pop(PopRequest(queue="transfers", batch=10), wait_seconds=30)
        for message in popped.messages:
            print("transfer:", bytes(message.payload).decode())
        await engine.ack([Ack.of(message) for message in popped.messages])


if __name__ == "__main__":
    with EmbeddedPostgres(Settings.load().data_dir) as postgres:
        asyncio.run(main(asyncio.run(postgres.create_database("examples"))))
