"""How a chaos test begins and how it ends; what happens in between is its own."""

import asyncio
import os
import random
from pathlib import Path
from typing import Any

import asyncpg

from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.engine.postgres.embedded import EmbeddedPostgres
from queenmq.model import Ack, PopRequest
from tests.books import assert_the_books_balance
from tests.faults.chaos.diary import Diary, read
from tests.faults.chaos.history import History
from tests.faults.chaos.worker import GROUPS, ORDERS, PARTITIONS, RECEIPTS
from tests.faults.log import stored

SECONDS = float(os.environ.get("QUEEN_TEST_CHAOS_SECONDS", "30"))
DRAIN = "drain"
DRAIN_SECONDS_MAX = 60
DRAIN_LEASE_SECONDS = 60.0

OTHERS = "select count(*) from pg_stat_activity where datname = current_database() and pid <> all ($1)"
DEADLOCKS = "select deadlocks from pg_stat_database where datname = current_database()"
LEFT = "select coalesce(sum(pending + leased), 0) from queen.ledger where queue = $1 and group_name = $2"


# What the database itself knows of leases: a client is not told when its lease begins and ends.
NOTE_LEASES = """
create table public.leases (id uuid, partition text, expires timestamptz, primary key (id, partition));
create function public.note_lease() returns trigger language plpgsql as $$
begin
    if new.lease_id is not null and (tg_op = 'INSERT' or old.lease_id is distinct from new.lease_id) then
        insert into public.leases
        select new.lease_id, name, new.ready_at from queen.partitions where id = new.partition_id
            on conflict (id, partition) do update set expires = excluded.expires;    -- a pop whose answer was lost
    end if;
    return null;
end $$;
create trigger note_lease after insert or update on queen.partition_consumers
    for each row execute function public.note_lease();
"""


def seed() -> int:
    """The given one, or any."""
    chosen = int(os.environ.get("QUEEN_TEST_CHAOS_SEED", random.randrange(2**32)))
    print(f"QUEEN_TEST_CHAOS_SEED={chosen}")  # noqa: T201 (shown when a test fails, and with -s)
    return chosen


async def beginning_of_the_story(postgres: EmbeddedPostgres) -> str:
    """A database with a queue in which nothing is given up, so that everything has to arrive."""
    dsn = await postgres.create_database("queen")
    async with Engine(dsn, Settings(upkeep=False)) as engine:
        await engine.admin.configure_queue(ORDERS, retry_limit=1_000, retry_delay_ms=20)
        connection = await engine.database.connect()
        await connection.execute(NOTE_LEASES)
        await connection.close()
    return dsn


async def drain(engine: Engine, connection: Any, diary: Diary, group: str) -> None:
    """Read and complete what is left, and write it down like everybody else."""
    request = PopRequest(
        queue=ORDERS, group=group, batch=1_000, max_partitions=len(PARTITIONS), lease_seconds=DRAIN_LEASE_SECONDS
    )
    while await connection.fetchval(LEFT, ORDERS, group):
        call = diary.intend("pop", group=group)
        popped = await engine.pop(request, wait_seconds=0.5)
        diary.popped(call, group, popped, DRAIN_LEASE_SECONDS)
        if popped.messages:
            acks = [[m.lease.partition, m.offset, "completed"] for m in popped.messages]
            call = diary.intend("ack", group=group, lease=str(popped.leases[0].id), acks=acks)
            answers = await engine.ack([Ack.of(message) for message in popped.messages])
            diary.answer(call, "ack", accepted=[answer.accepted for answer in answers])


async def end_of_the_story(dsn: str, directory: Path) -> History:
    """When the last of the dead has fallen silent: empty the inbox, read what is left, check the books."""
    connection = await asyncpg.connect(dsn)
    try:
        async with asyncio.timeout(DRAIN_SECONDS_MAX):
            while await connection.fetchval(OTHERS, [connection.get_server_pid()]):
                pass  # a killed process's last statement may still be running
            async with Engine(dsn, Settings()) as one, Engine(dsn, Settings()) as other:
                while await connection.fetchval("select exists (select from queen.inbox)"):
                    pass  # whoever leads now moves them
                for engine, group in zip((one, other), GROUPS, strict=True):
                    await drain(engine, connection, Diary(directory / f"{DRAIN}-{group}", f"{DRAIN}/{group}"), group)
        await assert_the_books_balance(connection, await connection.fetchval("select clock_timestamp()"))
        assert await connection.fetchval("select queen.resync_partition_lookup()") == 0
        assert await connection.fetchval(DEADLOCKS) == 0
        log = await stored(connection)
        lines = read(await asyncio.to_thread(lambda: list(directory.iterdir())))
        fill_in_leases(lines, await connection.fetch("select * from public.leases"))
        orders, receipts = ({p: values for (q, p), values in log.items() if q == queue} for queue in (ORDERS, RECEIPTS))
        return History(lines, orders, receipts)
    finally:
        await connection.close()


def fill_in_leases(lines: list[dict[str, Any]], rows: list[Any]) -> None:
    """Give every lease in the diaries the times that the database has for it."""
    expiries = {(str(row["id"]), row["partition"]): round(row["expires"].timestamp() * 1_000_000) for row in rows}
    for line in lines:
        for lease in line.get("leases", ()):
            id, partition, starts, expires, _ = lease
            lease[3] = expiries[id, partition]
            lease[2] = lease[3] - (expires - starts)


def summary(history: History) -> str:
    """What it was all about, in numbers."""
    deliveries = [
        (hand, offset) for hand, leases in history.leases.items() for lease in leases for offset in lease.messages
    ]
    drained = sum(len(lease.messages) for *_, lease, _ in history.handed() if lease.call.startswith(DRAIN))
    unanswered = sum(call.answer is None for call in history.calls)
    return (
        f"{sum(map(len, history.orders.values()))} pushed, {len(deliveries)} delivered, "
        f"{len(deliveries) - len(set(deliveries))} of them again, {drained} of them in the end, "
        f"{sum(map(len, history.receipts.values()))} receipts, {len(history.calls)} calls, "
        f"{unanswered} unanswered"
    )
