"""The latency of one pop, at both ends of every scale."""

import asyncpg

from bench.harness import Bench, Line, latencies, payloads, percentile
from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.model import Ack, Outgoing, PopRequest

POPS = 400
STORED_POPS = 800  # of ten messages: the smaller queue has a thousand for them
STORED_PARTITIONS = 10  # on both sides: so both read as many segments for the first time
ASKED_PARTITIONS = 1.5
ASKED_MESSAGES = 1.2
GROUP = "latency"

# One message in every partition, and the group at its beginning (ready) or at its end (not ready).
FILL = """
with q as (insert into queen.queues (name) values ($1) returning id),
g as (insert into queen.queue_groups (queue_id, name, queue_wide, complete) select id, $2, true, true from q
      returning id, queue_id),
p as (insert into queen.partitions (queue_id, name) select q.id, 'p' || n from q, generate_series(1, $3::int) as n
      returning id, queue_id),
l as (insert into queen.partition_lookup (partition_id, queue_id, next_offset, last_message_at)
      select id, queue_id, 1, clock_timestamp() from p),
s as (insert into queen.segments (partition_id, first_offset, message_count, queue_id, epoch, created_at, payloads)
      select id, 0, 1, queue_id, 1, clock_timestamp(), $4 from p)
insert into queen.partition_consumers (partition_id, group_id, committed, origin, ready_at)
select p.id, g.id, case when $5 then 0 else 1 end, 0, case when $5 then clock_timestamp() end from p, g
"""


async def run(bench: Bench) -> None:
    scale = 100 if bench.quick else 1
    async with bench.engine(statement_timeout_ms=600_000) as engine:
        await _all_ready(bench, engine, 1_000_000 // scale)
    async with bench.engine(statement_timeout_ms=600_000) as engine:
        await _one_ready(bench, engine, 1_000_000 // scale)
    async with bench.engine() as engine:
        await _stored(bench, engine, 10_000_000 // scale)


async def fill(engine: Engine, queue: str, partitions: int, *, ready: bool) -> None:
    connection = await asyncpg.connect(engine.database.dsn)
    try:
        await connection.execute(FILL, queue, GROUP, partitions, b"[" + payloads()[0] + b"]", ready)
        if not ready:
            await connection.execute("update queen.partition_consumers set completed = 1 where ready_at is null")
        await connection.execute("vacuum analyze")
    finally:
        await connection.close()


async def _all_ready(bench: Bench, engine: Engine, partitions: int) -> None:
    await fill(engine, "small", 1_000, ready=True)
    await fill(engine, "large", partitions, ready=True)
    small: list[float] = []
    large: list[float] = []
    for _ in range(20):  # taking turns, so that what disturbs one disturbs the other
        small += await latencies(POPS // 20, lambda: engine.pop(PopRequest(queue="small", group=GROUP)))
        large += await latencies(POPS // 20, lambda: engine.pop(PopRequest(queue="large", group=GROUP)))
    _report(bench, f"pop, {partitions:,} partitions all ready against 1,000", small, large, ASKED_PARTITIONS)


async def _one_ready(bench: Bench, engine: Engine, partitions: int) -> None:
    await fill(engine, "small", 1_000, ready=False)
    await fill(engine, "large", partitions, ready=False)
    small: list[float] = []
    large: list[float] = []
    for number in range(POPS):
        for queue, taken, count in (("small", small, 1_000), ("large", large, partitions)):
            await engine.push([Outgoing(queue, b"1", f"p{1 + number * 7919 % count}")])
            request = PopRequest(queue=queue, group=GROUP)
            popped: list[Ack] = []

            async def pop() -> None:
                popped.extend(Ack.of(message) for message in (await engine.pop(request)).messages)  # noqa: B023

            taken.extend(await latencies(1, pop))
            assert len(popped) == 1
            await engine.ack(popped)
    _report(bench, f"pop, 1 ready of {partitions:,} partitions against 1 of 1,000", small, large, ASKED_PARTITIONS)


async def _stored(bench: Bench, engine: Engine, messages: int) -> None:
    """By an engine that has none of it in memory: else one side would be read from there, and the other would not."""
    texts = payloads()
    for queue in ("small", "large"):
        for _ in range(1 if queue == "small" else messages // STORED_PARTITIONS // len(texts)):
            for number in range(STORED_PARTITIONS):
                await engine.push([Outgoing(queue, text, f"p{number}") for text in texts])
    async with Engine(engine.database.dsn, Settings(upkeep=False)) as fresh:
        small, large = await _taking_turns(fresh)
    _report(bench, f"pop of 10, {messages:,} messages stored against 10,000", small, large, ASKED_MESSAGES)


async def _taking_turns(engine: Engine) -> tuple[list[float], list[float]]:
    taken: dict[str, list[float]] = {"small": [], "large": []}
    for _ in range(STORED_POPS):
        for queue, times in taken.items():
            popped: list[Ack] = []

            async def pop(queue: str = queue, popped: list[Ack] = popped) -> None:
                request = PopRequest(queue=queue, group=GROUP, batch=10)
                popped.extend(Ack.of(message) for message in (await engine.pop(request)).messages)

            times.extend(await latencies(1, pop))
            await engine.ack(popped)
    return taken["small"], taken["large"]


def _report(bench: Bench, case: str, small: list[float], large: list[float], asked: float) -> None:
    ratios = {percent: percentile(large, percent) / percentile(small, percent) for percent in (50, 99)}
    bench.report(
        Line(
            case,
            f"p50 and p99 within {asked}x",
            f"p50 {ratios[50]:.2f}x, p99 {ratios[99]:.2f}x",
            max(ratios.values()) <= asked,
            ", ".join(
                f"{name} p50 {percentile(values, 50):.2f} ms p99 {percentile(values, 99):.2f} ms"
                for name, values in (("small", small), ("large", large))
            ),
        )
    )
