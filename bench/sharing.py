"""How few database calls many requests need."""

import asyncio
import statistics

import asyncpg

from bench.harness import Bench, Line
from bench.latency import GROUP, fill
from queenmq.model import Outgoing, PopRequest

PENDING = """
do $$
declare
    v_start timestamptz;
begin
    create temp table taken (ms double precision);
    for i in 1 .. 1000 loop
        v_start := clock_timestamp();
        perform * from queen.has_pending_messages(
            array['idle'], array[null], array[null], array[null], array['latency']);
        insert into taken values (extract(epoch from clock_timestamp() - v_start) * 1000);
    end loop;
end $$
"""


async def run(bench: Bench) -> None:
    async with bench.engine() as engine:
        await engine.push([Outgoing("q", b"1", f"p{number}") for number in range(200)])
        await engine.pop(PopRequest(queue="q", group=GROUP))
        before = engine.database.calls
        answers = await asyncio.gather(*(engine.pop(PopRequest(queue="q", group=GROUP)) for _ in range(100)))
        calls = engine.database.calls - before
        leases = {answer.leases[0].id for answer in answers}
        partitions = {answer.leases[0].partition_id for answer in answers}
        bench.report(
            Line(
                "100 concurrent pops of one group",
                "at most 10 database calls, 100 leases",
                f"{calls} calls, {len(leases)} leases on {len(partitions)} partitions",
                calls <= 10 and len(leases) == len(partitions) == 100,
            )
        )
    async with bench.engine(statement_timeout_ms=600_000) as engine:
        await fill(engine, "idle", 1_000 if bench.quick else 100_000, ready=False)
        connection = await asyncpg.connect(engine.database.dsn)
        await connection.execute(PENDING)
        taken = [row[0] for row in await connection.fetch("select ms from taken")]
        await connection.close()
        p50 = statistics.median(taken)
        bench.report(
            Line(
                "has_pending_messages, idle queue of 100,000 partitions", "p50 under 0.5 ms", f"{p50:.3f} ms", p50 < 0.5
            )
        )
