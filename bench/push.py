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
IN_FLIGHT = (1, 2)  # commits, on every side; judged is one, as the design measured
PRODUCERS = 4  # of the engine: while flushes are in flight, the next are made ready
FLUSH_MESSAGES = 1_000
ROUNDS = 3

ROWS = """
create table row_partitions (
    id bigint primary key, next_offset bigint not null default 0, last_message_at timestamptz
) with (fillfactor = 50);
create table rows (
    id uuid primary key default gen_random_uuid(), partition_id bigint not null, "offset" bigint not null,
    transaction_id text not null, trace_id uuid, created_at timestamptz not null default clock_timestamp(),
    payload jsonb not null
);
create index on rows (partition_id, created_at, id);
create index on rows (transaction_id);
create index on rows (trace_id);
"""
# As a push of ours, without segments: offsets are given under the partitions' row locks, in their order.
PUSH_ROWS = """
with message as (
    select m.*, row_number() over (partition by m.partition_id order by m.n) - 1 as place
      from unnest($1::bigint[], $2::text[], $3::uuid[], $4::text[]) with ordinality
           as m (partition_id, id, trace, payload, n)
), written as (
    update row_partitions p set next_offset = p.next_offset + i.messages, last_message_at = clock_timestamp()
      from (select partition_id, count(*) as messages from message group by partition_id order by partition_id) as i
     where p.id = i.partition_id
    returning p.id, p.next_offset - i.messages as first_offset
)
insert into rows (partition_id, "offset", transaction_id, trace_id, payload)
select m.partition_id, w.first_offset + m.place, m.id, m.trace, m.payload::jsonb
  from message m join written w on w.id = m.partition_id
"""

Work = Callable[[int], Awaitable[int]]


async def run(bench: Bench) -> None:
    for in_flight in IN_FLIGHT:
        for partitions in ASKED:
            await _compare(bench, in_flight, partitions)


async def _compare(bench: Bench, in_flight: int, partitions: int) -> None:
    async with bench.engine(push_calls_max=in_flight, push_messages_max=FLUSH_MESSAGES) as engine:
        connections = [await asyncpg.connect(engine.database.dsn) for _ in range(in_flight)]
        await connections[0].execute("create table bare (payload text)")
        await make_rows(connections[0], partitions)
        sides = {
            "limit": (in_flight, copy_bare(connections)),
            "push": (PRODUCERS, push(engine, partitions)),
            "with ids": (PRODUCERS, push_with_ids(engine, partitions)),
            "rows": (in_flight, push_rows(connections, partitions)),
            "rows by COPY": (in_flight, copy_rows(connections, partitions)),
        }
        measured: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(ROUNDS):
            for side, (workers, work) in sides.items():
                measured[side].append(await rate(bench.seconds, workers, work))
            await connections[0].execute("truncate bare, rows")
        for connection in connections:
            await connection.close()
    _report(bench, in_flight, partitions, {side: median(values) for side, values in measured.items()})


def _report(bench: Bench, in_flight: int, partitions: int, figures: dict[str, float]) -> None:
    where = f"push, 1,000 messages a flush over {partitions:,} partition{'s' * (partitions > 1)}"
    where += ", two commits in flight" * (in_flight > 1)
    detail = ", ".join(f"{side} {value:,.0f}/s" for side, value in figures.items())

    def line(case: str, against: str, asked: float, text: str, shown: str, detail: str = "") -> None:
        ratio = figures[case] / figures[against]
        good = ratio >= asked if in_flight == 1 else None
        bench.report(Line(f"{where}{text}", shown.format(asked), shown.format(ratio).split(" of")[0], good, detail))

    line("push", "limit", ASKED[partitions], "", "{:.0%} of the limit", detail)
    line("with ids", "push", ASKED_WITH_IDS, ", with transaction ids", "{:.0%} of without")
    if partitions in ASKED_OVER_ROWS:
        line("push", "rows", ASKED_OVER_ROWS[partitions], ", against one row per message", "{:.1f}x")


def push(engine: Engine, partitions: int) -> Work:
    """Flushes of 1,000 messages, spread evenly over the partitions."""
    texts = payloads()
    names = [f"p{number % partitions}" for number in range(len(texts))]

    async def work(_: int) -> int:
        return len(await engine.push([Outgoing("q", text, name) for text, name in zip(texts, names, strict=True)]))

    return work


def push_with_ids(engine: Engine, partitions: int, flush_messages: int = FLUSH_MESSAGES) -> Work:
    """The same with an id on every message, new each time."""
    texts = payloads()[:flush_messages]
    names = [f"p{number % partitions}" for number in range(len(texts))]
    prefix = f"order-{uuid.uuid4()}"
    numbers = itertools.count()

    async def work(_: int) -> int:
        return len(
            await engine.push(
                [
                    Outgoing("q", text, name, f"{prefix}-{number}")
                    for text, name, number in zip(texts, names, numbers, strict=False)
                ]
            )
        )

    return work


def copy_bare(connections: list[asyncpg.Connection]) -> Work:
    """The limit: the same bytes by COPY into a table of one column without an index."""
    texts = [text.decode() for text in payloads()]

    async def work(worker: int) -> int:
        records = [(text,) for text in texts]
        await connections[worker].copy_records_to_table("bare", records=records)
        return len(records)

    return work


async def make_rows(connection: asyncpg.Connection, partitions: int) -> None:
    """A queue of rows, without messages."""
    await connection.execute(ROWS)
    await connection.execute("insert into row_partitions select generate_series(0, $1::bigint - 1)", partitions)
    await connection.execute("vacuum analyze row_partitions")


def push_rows(connections: list[asyncpg.Connection], partitions: int) -> Work:
    """A queue of one row per message, with a uuid key, jsonb and three more indexes, whose order is kept as ours is."""
    texts = [text.decode() for text in payloads()]
    numbers = [number % partitions for number in range(len(texts))]

    async def work(worker: int) -> int:
        ids = [uuid.uuid4() for _ in texts]
        await connections[worker].execute(PUSH_ROWS, numbers, list(map(str, ids)), ids, texts)
        return len(texts)

    return work


def copy_rows(connections: list[asyncpg.Connection], partitions: int) -> Work:
    """Rows like these by COPY, their fastest way in; no queue can use it: nobody gives them an order."""
    texts = [text.decode() for text in payloads()]

    async def work(worker: int) -> int:
        ids = [uuid.uuid4() for _ in texts]
        records = [
            (number % partitions, 0, str(id), id, text)
            for number, (id, text) in enumerate(zip(ids, texts, strict=True))
        ]
        await connections[worker].copy_records_to_table(
            "rows", records=records, columns=["partition_id", "offset", "transaction_id", "trace_id", "payload"]
        )
        return len(records)

    return work
