"""A message commits together with the application's own rows, or not at all.

$ python examples/transactional_outbox.py
refused by accounts_balance_check
ann has 60, bob has 40
transfer: 40 from ann to bob
"""

import asyncio

import asyncpg

from queenmq import AsyncQueen
from queenmq.config import Settings
from queenmq.engine.postgres.embedded import EmbeddedPostgres

TABLE = """
drop table if exists accounts;
create table accounts (owner text primary key, balance int not null check (balance >= 0));
insert into accounts values ('ann', 100), ('bob', 0);
"""


async def transfer(queen: AsyncQueen, connection: asyncpg.Connection, amount: int) -> None:
    """Move money and announce it: one transaction, on the application's own connection."""
    async with connection.transaction():
        await queen.push_in(connection, "transfers", {"from": "ann", "to": "bob", "amount": amount}, partition="ann")
        await connection.execute("update accounts set balance = balance + $1 where owner = 'bob'", amount)
        await connection.execute("update accounts set balance = balance - $1 where owner = 'ann'", amount)


async def main(dsn: str) -> None:
    """Try to move too much, then less: only what was committed is announced."""
    async with AsyncQueen(dsn) as queen:
        await queen.admin.delete("transfers")  # of an earlier run
        connection = await asyncpg.connect(dsn)
        await connection.execute(TABLE)
        try:
            await transfer(queen, connection, 400)
        except asyncpg.CheckViolationError as error:
            print(f"refused by {error.constraint_name}")
        await transfer(queen, connection, 40)
        rows = await connection.fetch("select owner, balance from accounts order by owner")
        print(", ".join(f"{row['owner']} has {row['balance']}" for row in rows))
        await connection.close()

        for message in await queen.queue("transfers").batch(10).wait().pop():
            print("transfer: {amount} from {from} to {to}".format_map(message.payload))
            await message.ack()


if __name__ == "__main__":
    with EmbeddedPostgres(Settings.load().data_dir) as postgres:
        asyncio.run(main(asyncio.run(postgres.create_database("examples"))))
