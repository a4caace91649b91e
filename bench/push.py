"""Push against the limit (COPY of the same bytes) and against one row per message."""

import itertools
import uuid
from collections.abc import Awaitable, Callable

import asyncpg

from bench.harness import Bench, Line, median, payloads, rate
from queenmq.engine import Engine
from queenmq.model import Outgoing

ASKED = {1: 0.90, 10: 0.80, 100: 0.55, 1_000: 0.18}
ASKED_OVER_ROWS = {10: 7.0, 1_000: 2.2}
ASKED_WITH_IDS = 0.75
IN_FLIGHT = 2  # commits, on every side
PRODUCERS = 4  # of the engine: while two flushes are in flight, the next are made ready
FLUSH_MESSAGES = 1_000
FLUSHES_MADE = 1_500  # as many as three rounds take, about
ROUNDS = 3

ROWS = """
create table rows (
    id uuid primary key, queue text not null, partition int not null, transaction_id uuid not null,
    created_at timestamptz not null default clock_timestamp(), payload jsonb not null
);
create index on rows (queue, partition, created_at, id);
create index on rows (transaction_id);
create index on rows (created_at);
"""

Work = Callable[[int], Awaitable[int]]


async def run(bench: Bench) -> None:
    for partitions in ASKED:
        async with bench.engine(push_calls_max=IN_FLIGHT, push_messages_max=FLUSH_MESSAGES) as engine:
            connections = [await asyncpg.connect(engine.database.dsn) for _ in range(IN_FLIGHT)]
            await connections[0].execute("create table bare (payload text)")
            await connections[0].execute(ROWS)
            sides = {
                "limit": (IN_FLIGHT, copy_bare(connections)),
                "push": (PRODUCERS, push(engine, partitions)),
                "with ids": (PRODUCERS, push_with_ids(engine, partitions)),
                "rows": (IN_FLIGHT, copy_rows(connections, partitions)),
            }
            await _compare(bench, partitions, sides, connections[0])
            for connection in connections:
                await connection.close()


async def _compare(
    bench: Bench, partitions: int, sides: dict[str, tuple[int, Work]], connection: asyncpg.Connection
) -> None:
    measured: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(ROUNDS):
        for side, (workers, work) in sides.items():
            measured[side].append(await rate(bench.seconds, workers, work))
        await connection.execute("truncate bare, rows")
    figures = {side: median(values) for side, values in measured.items()}
    detail = ", ".join(f"{side} {value:,.0f}/s" for side, value in figures.items())
    where = f"push, 1,000 messages a flush over {partitions:,} partition{'s' * (partitions > 1)}"
    against_limit = figures["push"] / figures["limit"]
    asked = ASKED[partitions]
    bench.report(Line(where, f"{asked:.0%} of the limit", f"{against_limit:.0%}", against_limit >= asked, detail))
    with_ids = figures["with ids"] / figures["push"]
    asked = ASKED_WITH_IDS
    bench.report(
        Line(f"{where}, with transaction ids", f"{asked:.0%} of without", f"{with_ids:.0%}", with_ids >= asked)
    )
    if partitions in ASKED_OVER_ROWS:
        asked = ASKED_OVER_ROWS[partitions]
        over = figures["push"] / figures["rows"]
        bench.report(Line(f"{where}, against one row per message", f"{asked}x", f"{over:.1f}x", over >= asked))


def push(engine: Engine, partitions: int) -> Work:
    """Flushes of 1,000 messages, spread evenly over the partitions."""
    messages = [Outgoing("q", text, f"p{number % partitions}") for number, text in enumerate(payloads())]

    async def work(_: int) -> int:
        return len(await engine.push(messages))

    return work


def push_with_ids(engine: Engine, partitions: int, flush_messages: int = FLUSH_MESSAGES) -> Work:
    """The same with an id on every message, new each time; like the others, messages are made before they are timed."""
    texts = payloads()[:flush_messages]
    names = [f"p{number % partitions}" for number in range(len(texts))]
    prefix = f"order-{uuid.uuid4()}"
    flushes = (
        [
            Outgoing("q", text, name, f"{prefix}-{flush}-{number}")
            for number, (text, name) in enumerate(zip(texts, names, strict=True))
        ]
        for flush in itertools.count()
    )
    made = list(itertools.islice(flushes, FLUSHES_MADE))

    async def work(_: int) -> int:
        return len(await engine.push(made.pop() if made else next(flushes)))

    return work


def copy_bare(connections: list[asyncpg.Connection]) -> Work:
    """The limit: the same bytes by COPY into a table of one column without an index."""
    records = [(text.decode(),) for text in payloads()]

    async def work(worker: int) -> int:
        await connections[worker].copy_records_to_table("bare", records=records)
        return len(records)

    return work


def copy_rows(connections: list[asyncpg.Connection], partitions: int) -> Work:
    """One row per message, with a uuid key, jsonb and three more indexes; even so by COPY, its fastest way in."""
    texts = [text.decode() for text in payloads()]

    async def work(worker: int) -> int:
        records = [(uuid.uuid4(), "q", number % partitions, uuid.uuid4(), text) for number, text in enumerate(texts)]
        await connections[worker].copy_records_to_table(
            "rows", records=records, columns=["id", "queue", "partition", "transaction_id", "payload"]
        )
        return len(records)

    return work
