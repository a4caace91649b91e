"""The same queue in PostgreSQL, called from code that does not wait for coroutines."""

import asyncio
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from tests.model.paper import Answer, Letter
from tests.model.serving import Delivered, Request
from tests.queue_in_sql import Clock, Queue

PLACES = """
    select q.name as queue, p.name as partition, p.id, l.start_offset, l.next_offset, l.last_message_at,
           g.name as group_name, c.*
      from queen.queues q
      join queen.partitions p on p.queue_id = q.id
      join queen.partition_lookup l on l.partition_id = p.id
      left join queen.partition_consumers c on c.partition_id = p.id
      left join queen.queue_groups g on g.id = c.group_id
"""
GROUPS = """
    select q.name as queue, g.id, g.name, g.queue_wide, g.complete
      from queen.queue_groups g join queen.queues q on q.id = g.queue_id
"""
LETTERS = """
    select d.*, q.name as queue from queen.dead_letters d join queen.queues q on q.id = d.queue_id order by d.id
"""
TROUBLE = """
    select 'check: ' || c::text from queen.check_consistency($1) as c
    union all select 'ledger: ' || l::text from queen.ledger as l where not l.balanced
    union all select 'two leases: ' || c.lease_id from queen.partition_consumers c
               group by c.partition_id, c.group_id, c.lease_id having count(*) > 1
"""
SEGMENTS = "select * from queen.fetch_segments($1, $2, $3)"


@dataclass(frozen=True)
class Handle:
    """A delivery as its consumer remembers it, however old."""

    partition_id: int
    group_id: int
    lease_id: UUID
    offsets: tuple[int, ...]


@dataclass(frozen=True)
class Ack:
    handle: Handle
    completed: frozenset[int]
    others: tuple[tuple[int, str, str], ...] = ()  # offset, status, error


@dataclass(frozen=True)
class Segment:
    partition_id: int
    values: list[Any]
    ids: list[str | None]
    expected: int | None = None


class Postgres:
    """One session and a clock."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connection: Any, clock: Clock) -> None:
        self.loop = loop
        self.connection = connection
        self.clock = clock
        self.queue = Queue(connection, clock)

    def call(self, function: str, *arguments: Any, **named: Any) -> list[Any]:
        return self.loop.run_until_complete(self.queue.call(function, *arguments, **named))

    def fetch(self, query: str, *arguments: Any) -> list[Any]:
        rows: list[Any] = self.loop.run_until_complete(self.connection.fetch(query, *arguments))
        return rows

    # Push and ack.

    def push(self, segments: list[Segment]) -> Any:
        [row] = self.call("push_segments", *push_arguments(segments), p_now=self.clock.now)
        return row

    def ack(self, acks: list[Ack]) -> list[Answer]:
        rows = self.call("ack_batch", *ack_arguments(acks), p_now=self.clock.now)
        return [
            Answer(
                row["held"],
                frozenset(offsets(row["accepted"])),
                frozenset(offsets(row["dead"])),
                row["released"],
                row["more"],
                row["already"],
            )
            for row in sorted(rows, key=lambda row: row["ack"])
        ]

    def transact(self, acks: list[Ack], required: list[UUID], segments: list[Segment]) -> Any:
        [row] = self.call("transact", *ack_arguments(acks), required, *push_arguments(segments), p_now=self.clock.now)
        return row

    # Pop.

    def pop(self, requests: list[Request]) -> list[tuple[Delivered, Handle | None, datetime]]:
        """What each request got, how to answer it, and the moment of ready_since."""
        kinds = [request.kind for request in requests]
        rows = self.call(
            "pop_batch",
            [kind.queue for kind in kinds],
            [kind.partition for kind in kinds],
            [kind.namespace for kind in kinds],
            [None] * len(kinds),
            [kind.group for kind in kinds],
            [request.batch for request in requests],
            [request.partitions for request in requests],
            [request.lease_seconds for request in requests],
            [request.auto_ack for request in requests],
            [request.lease_id for request in requests],
            [request.mode for request in requests],
            [request.since for request in requests],
            [request.ready_since for request in requests],
            self.clock.now,
        )
        return [(*self._delivered(row, requests[row["request"] - 1]), row["ready_since"]) for row in rows]

    def _delivered(self, row: Any, request: Request) -> tuple[Delivered, Handle | None]:
        done = set(offsets(row["done"], row["to_offset"]))
        taken = tuple(o for o in range(row["from_offset"], row["to_offset"]) if o not in done)
        segments = self.fetch(SEGMENTS, [row["partition_id"]], [row["from_offset"]], [row["to_offset"]])
        values = {s["first_offset"] + n: v for s in segments for n, v in enumerate(json.loads(s["payloads"]))}
        leased = row["lease_id"] is not None
        assert row["lease_id"] == (None if request.auto_ack else request.lease_id)
        delivered = Delivered(
            row["request"] - 1,
            row["queue_name"],
            row["partition_name"],
            request.kind.group,
            taken,
            tuple(values[o] for o in taken),
            row["expires_at"],
            tuple(counts(row["retries"]).get(o, 0) for o in taken) if leased else None,
        )
        if not leased:
            return delivered, None
        return delivered, Handle(row["partition_id"], row["group_id"], row["lease_id"], taken)


def facts(row: Any) -> dict[str, Any]:
    """A row of partition_consumers in the words of the paper."""
    held = range(row["lease_from"] or 0, row["lease_to"] or 0)
    done = set(offsets(row["acked"]))
    left = {o for o in held if o >= row["committed"] and o not in done}
    return {
        "origin": row["origin"],
        "cursor": row["committed"],
        "done above": done,
        "lease": row["lease_id"] and (row["lease_id"], row["lease_from"], row["lease_to"]),
        "given back": left & set(offsets(row["nacked"])),
        "failures": counts(row["retries"]),
        "lapses": [set(offsets(lapse)) for lapse in row["lapses"] or ()],
        "ready": row["ready_at"],
        "completed": row["completed"],
        "dead": row["dead_lettered"],
        "expired": row["expired"],
    }


def letter_facts(row: Any) -> tuple[Any, ...]:
    value = json.loads(row["payload"])
    return Letter(
        row["queue"], row["partition_id"], row["group_name"], row["offset"], value, row["retry_count"],
        row["error"], row["failed_at"],
    ).facts()  # fmt: skip


def counts(retries: str | None) -> dict[int, int]:
    return {int(offset): count for offset, count in json.loads(retries or "{}").items()}


def offsets(ranges: Any, end: int | None = None) -> list[int]:
    return [o for r in ranges for o in range(r.lower, r.upper if end is None else min(r.upper, end))]


def push_arguments(segments: list[Segment]) -> list[Any]:
    has_ids = any(any(segment.ids) for segment in segments)
    return [
        [segment.partition_id for segment in segments],
        [len(segment.values) for segment in segments],
        [json.dumps(segment.values).encode() for segment in segments],
        [json.dumps(segment.ids) if any(segment.ids) else None for segment in segments] if has_ids else None,
        None,
        None,
        None,
        [segment.expected for segment in segments] if any(s.expected is not None for s in segments) else None,
    ]


def ack_arguments(acks: list[Ack]) -> list[Any]:
    ranges = [(n, o) for n, ack in enumerate(acks, 1) for o in sorted(ack.completed)]
    others = [(n, *other) for n, ack in enumerate(acks, 1) for other in ack.others]
    return [
        [ack.handle.partition_id for ack in acks],
        [ack.handle.group_id for ack in acks],
        [ack.handle.lease_id for ack in acks],
        [n for n, _ in ranges],
        [o for _, o in ranges],
        [o + 1 for _, o in ranges],
        [n for n, _, _, _ in others],
        [o for _, o, _, _ in others],
        [status for _, _, status, _ in others],
        [error for _, _, _, error in others],
    ]
