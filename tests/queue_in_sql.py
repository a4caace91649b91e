"""The queue as a test sees it: the SQL functions with Python's values, and a clock that the test moves.

    queue = Queue(connection, Clock())
    await queue.push("orders", "ann", 1, 2)
    [delivery] = await queue.pop("billing", "orders")
    queue.clock.advance(31)
    await queue.ack(delivery)               # raises LeaseGone

Errors are those of queenmq.errors. Nothing is remembered here except the clock: two of these on two
sessions are two clients.
"""

import json
import uuid
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg

from queenmq.engine.postgres.sqlstates import from_sqlstate
from queenmq.errors import LeaseGone, NotInLease

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@dataclass
class Clock:
    """What time it is, for everything a test does."""

    now: datetime = NOON

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass(frozen=True)
class Delivery:
    """Messages of one partition, as one pop delivered them."""

    queue: str
    partition: str
    partition_id: int
    group_id: int
    lease_id: uuid.UUID | None
    messages: dict[int, Any]  # by offset
    retries: dict[int, int] = field(default_factory=dict)
    expires_at: datetime | None = None
    ready_since: datetime | None = None  # where the next pop of the same kind may begin to look

    @property
    def offsets(self) -> list[int]:
        return list(self.messages)

    @property
    def values(self) -> list[Any]:
        return list(self.messages.values())

    @property
    def retry_counts(self) -> list[int]:
        return [self.retries.get(offset, 0) for offset in self.messages]


@dataclass(frozen=True)
class Answer:
    """What became of an ack."""

    held: bool
    accepted: list[int]
    dead: list[int]
    released: bool
    more: bool
    already: bool


@dataclass(frozen=True)
class Queue:
    """Push, pop and ack over one session."""

    connection: Any
    clock: Clock

    async def call(self, function: str, *arguments: Any, **named: Any) -> list[Any]:
        """The rows of `select * from queen.function(…)`; a refusal is raised as ours."""
        marks = [f"${number}" for number in range(1, len(arguments) + 1)]
        marks += [f"{name} => ${number}" for number, name in enumerate(named, len(arguments) + 1)]
        async with _our_errors():
            rows: list[Any] = await self.connection.fetch(
                f"select * from queen.{function}({', '.join(marks)})", *arguments, *named.values()
            )
        return rows

    # Push.

    async def push(self, queue: str, partition: str, *values: Any, ids: Sequence[str | None] = ()) -> list[int]:
        """The offsets of the messages; where one was pushed before (by its id), the offset it has."""
        [offsets] = await self.push_many((queue, partition, values, ids))
        return offsets

    async def push_many(self, *batches: tuple[Any, ...]) -> list[list[int]]:
        """Push (queue, partition, values[, ids]) of several partitions, all or nothing."""
        segments = await self._segments(batches)
        await self._append("push_segments", [], segments)
        return [segment.offsets for segment in segments]

    async def partition_id(self, queue: str, partition: str) -> int:
        [row] = await self.call("ensure_partitions", [queue], [partition], p_now=self.clock.now)
        found: int = row["partition_id"]
        return found

    async def push_in_transaction(
        self, queue: str, partition: str, *values: Any, ids: Sequence[str | None] = ()
    ) -> None:
        """The outbox: stored when this session's transaction commits and the inbox is sequenced."""
        for number, value in enumerate(values):
            await self.call(
                "push",
                queue,
                json.dumps(value),
                partition,
                ids[number] if ids else None,
                p_now=self.clock.now,
            )

    async def sequence(self) -> Any:
        [row] = await self.call("sequence_inbox", p_now=self.clock.now)
        return row

    # Pop.

    async def pop(
        self,
        group: str,
        queue: str | None = None,
        partition: str | None = None,
        *,
        namespace: str | None = None,
        task: str | None = None,
        batch: int = 100,
        partitions: int = 1,
        lease_seconds: float | None = None,
        auto_ack: bool = False,
        lease_id: uuid.UUID | None = None,
        mode: str | None = None,
        since: datetime | None = None,
        ready_since: datetime | None = None,
    ) -> list[Delivery]:
        """One pop: a delivery per partition that it got."""
        rows = await self.call(
            "pop_batch",
            [queue], [partition], [namespace], [task], [group], [batch], [partitions],
            [lease_seconds], [auto_ack], [lease_id or uuid.uuid4()], [mode], [since],
            [ready_since], p_now=self.clock.now,
        )  # fmt: skip
        return [await self._delivery(row) for row in rows]

    async def _delivery(self, row: Any) -> Delivery:
        done = set(_offsets(row["done"], row["to_offset"]))
        segments = await self.connection.fetch(
            "select first_offset, payloads from queen.segments where partition_id = $1 "
            "and first_offset < $3 and first_offset + message_count > $2 order by first_offset",
            row["partition_id"], row["from_offset"], row["to_offset"],
        )  # fmt: skip
        stored = {
            segment["first_offset"] + number: value
            for segment in segments
            for number, value in enumerate(json.loads(segment["payloads"]))
        }
        return Delivery(
            queue=row["queue_name"],
            partition=row["partition_name"],
            partition_id=row["partition_id"],
            group_id=row["group_id"],
            lease_id=row["lease_id"],
            messages={
                offset: stored[offset] for offset in range(row["from_offset"], row["to_offset"]) if offset not in done
            },
            retries={int(offset): count for offset, count in json.loads(row["retries"] or "{}").items()},
            expires_at=row["expires_at"],
            ready_since=row["ready_since"],
        )

    # Ack, lease, transaction.

    async def ack(
        self,
        delivery: Delivery,
        offsets: Iterable[int] | None = None,
        status: str = "completed",
        error: str | None = None,
    ) -> Answer:
        """Acknowledge some messages, or all; raises LeaseGone, and NotInLease if none was accepted."""
        ack = _Ack(delivery, list(delivery.offsets if offsets is None else offsets), status, error)
        [row] = await self.call("ack_batch", *_acks([ack]), p_now=self.clock.now)
        answer = Answer(
            held=row["held"],
            accepted=_offsets(row["accepted"]),
            dead=_offsets(row["dead"]),
            released=row["released"],
            more=row["more"],
            already=row["already"],
        )
        if not answer.held and not answer.already:
            raise LeaseGone
        if answer.held and ack.offsets and not answer.accepted:
            raise NotInLease
        return answer

    async def fail(self, delivery: Delivery, offsets: Iterable[int] | None = None, error: str | None = None) -> Answer:
        return await self.ack(delivery, offsets, "failed", error)

    async def renew(self, delivery: Delivery, seconds: float | None = None) -> datetime:
        [row] = await self.call("renew_lease", [delivery.lease_id], [seconds], p_now=self.clock.now)
        if row["expires_at"] is None:
            raise LeaseGone
        expires_at: datetime = row["expires_at"]
        return expires_at

    async def release(self, delivery: Delivery) -> None:
        [row] = await self.call("release_lease", [delivery.lease_id], p_now=self.clock.now)
        if row[0] == 0:
            raise LeaseGone

    async def transact(
        self,
        acks: Iterable[tuple[Delivery, Iterable[int], str]] = (),
        pushes: Iterable[tuple[Any, ...]] = (),
        required: Iterable[Delivery] = (),
    ) -> list[list[int]]:
        """Acks (delivery, offsets, status) and pushes (queue, partition, values[, ids]) together."""
        said = [_Ack(delivery, list(offsets), status) for delivery, offsets, status in acks]
        segments = await self._segments(pushes)
        await self._append("transact", [*_acks(said), [each.lease_id for each in required]], segments)
        return [segment.offsets for segment in segments]

    async def _segments(self, batches: Iterable[tuple[Any, ...]]) -> list["_Segment"]:
        return [
            _Segment(await self.partition_id(queue, partition), *messages) for queue, partition, *messages in batches
        ]

    async def _append(self, function: str, before: list[Any], segments: Sequence["_Segment"]) -> None:
        """Push without a cache of ids: if something is a duplicate, find out what, and push the rest."""
        while True:
            kept = [segment for segment in segments if segment.left]
            if not kept and function == "push_segments":
                return
            [row] = await self.call(
                function, *before,
                [segment.partition_id for segment in kept],
                [len(segment.left) for segment in kept],
                [json.dumps([segment.values[n] for n in segment.left]).encode() for segment in kept],
                [segment.left_ids for segment in kept],
                *([None] * 4),
                p_now=self.clock.now,
            )  # fmt: skip
            if row["first_offsets"] is not None or not kept:
                for segment, first in zip(kept, row["first_offsets"] or (), strict=True):
                    segment.found.update({n: first + k for k, n in enumerate(segment.left)})
                return
            for segment in kept:
                await self._drop_duplicates(segment)

    async def _drop_duplicates(self, segment: "_Segment") -> None:
        known: dict[str | None, int] = {}
        for row in await self.call("recent_ids", [segment.partition_id], p_bytes=1 << 40, p_now=self.clock.now):
            for offset, id in enumerate(json.loads(row["transaction_ids"] or "[]"), row["first_offset"] or 0):
                known.setdefault(id, offset)
        segment.found.update({n: known[id] for n, id in enumerate(segment.ids) if id is not None and id in known})

    # Everything else.

    async def configure(
        self, queue: str, namespace: str | None = None, task: str | None = None, **options: Any
    ) -> None:
        await self.call("configure_queue", queue, namespace, task, json.dumps(options), self.clock.now)

    async def seek(
        self,
        group: str,
        queue: str,
        partition: str | None = None,
        *,
        offset: int | None = None,
        at: datetime | None = None,
        to: str | None = None,
    ) -> None:
        await self.call("seek_group", group, queue, partition, offset, at, to, self.clock.now)

    async def dead_letters(self, queue: str) -> list[Any]:
        """Newest first."""
        return await self.call("list_dead_letters", queue)


@dataclass
class _Segment:
    """Messages on their way into a partition; found says where each one is stored, once that is known."""

    partition_id: int
    values: Sequence[Any]
    ids: Sequence[str | None] = ()
    found: dict[int, int] = field(default_factory=dict)

    @property
    def left(self) -> list[int]:
        repeated = {n for n, each in enumerate(self.ids) if each is not None and each in self.ids[:n]}
        return [n for n in range(len(self.values)) if n not in self.found and n not in repeated]

    @property
    def left_ids(self) -> str | None:
        return json.dumps([self.ids[n] for n in self.left]) if self.ids else None

    @property
    def offsets(self) -> list[int]:
        by_id = {self.ids[n]: offset for n, offset in self.found.items() if self.ids}
        return [self.found[n] if n in self.found else by_id[self.ids[n]] for n in range(len(self.values))]


@dataclass(frozen=True)
class _Ack:
    delivery: Delivery
    offsets: Sequence[int]
    status: str
    error: str | None = None


def _acks(acks: Sequence[_Ack]) -> list[Any]:
    """The arguments that ack_batch and transact share."""
    done = [(n, offset) for n, ack in enumerate(acks, 1) for offset in ack.offsets if ack.status == "completed"]
    rest = [(n, offset, ack) for n, ack in enumerate(acks, 1) for offset in ack.offsets if ack.status != "completed"]
    return [
        [ack.delivery.partition_id for ack in acks],
        [ack.delivery.group_id for ack in acks],
        [ack.delivery.lease_id for ack in acks],
        [n for n, _ in done],
        [offset for _, offset in done],
        [offset + 1 for _, offset in done],
        [n for n, _, _ in rest],
        [offset for _, offset, _ in rest],
        [ack.status for _, _, ack in rest],
        [ack.error for _, _, ack in rest],
    ]


def _offsets(ranges: Iterable[Any], end: int | None = None) -> list[int]:
    """The offsets of a multirange, up to an end."""
    return [o for r in ranges for o in range(r.lower, r.upper if end is None else min(r.upper, end))]


@asynccontextmanager
async def _our_errors() -> AsyncIterator[None]:
    try:
        yield
    except asyncpg.PostgresError as error:
        ours = from_sqlstate(error.sqlstate, str(error), error.detail)
        if ours is None:
            raise
        raise ours from error
