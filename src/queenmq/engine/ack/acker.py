"""Acknowledge: what callers say of their messages becomes ranges, and one call for all of them."""

from collections.abc import Sequence
from datetime import datetime
from itertools import chain, count
from operator import attrgetter, itemgetter
from typing import Any, get_args
from uuid import UUID, uuid4

import asyncpg
from msgspec import Struct

from queenmq.config import Settings
from queenmq.engine.batching import Batcher
from queenmq.engine.postgres.database import Database
from queenmq.engine.postgres.outcome import OutcomeUnknown
from queenmq.engine.postgres.pg_arrays import ACK_ARGUMENTS, PLAIN, listed, once
from queenmq.engine.waiting import Bell
from queenmq.errors import InvalidArgument, InvalidStatus, LeaseGone, NotInLease
from queenmq.model import Ack, Acked, AckStatus, Message

MESSAGES_MAX = 20_000  # in one call
SHARED_FROM = 8  # requests that gathered; fewer go out as one call
ERROR_CHARACTERS_MAX = 10_000

ACK = once("ack_batch", *ACK_ARGUMENTS, now="clock_timestamp()")
ACK_ONCE = once("ack_once", PLAIN, *ACK_ARGUMENTS, now="clock_timestamp()")
RELEASE = """
select queen.release_lease($1) as released,
       array(select distinct q.name
               from queen.partition_consumers c
               join queen.queue_groups g on g.id = c.group_id
               join queen.queues q on q.id = g.queue_id
              where c.lease_id = any ($1)) as queues
"""
RENEW = "select * from queen.renew_lease($1, $2)"

EVERYTHING = asyncpg.Range(0, 1 << 40)
GONE = Acked(False, error=LeaseGone.code)
FOREIGN = Acked(False, error=NotInLease.code)

STATUSES = frozenset(get_args(AckStatus))
Held = tuple[int, int, UUID]  # partition, group, lease

_key = attrgetter("partition_id", "group_id", "lease_id")
_lease_id = attrgetter("lease_id")
_place = attrgetter("partition_id", "group_id")
_status = attrgetter("status")
_offset = attrgetter("offset")
_number = itemgetter("ack")


class Offsets(Struct):
    """What is said about one lease on one partition."""

    completed: list[int]
    others: list[Ack]


Said = dict[Held, Offsets]


def gather(acks: Sequence[Ack]) -> Said:
    """Acks by lease and partition."""
    if _of_one_lease(acks) and set(map(_status, acks)) == {"completed"}:  # a batch that was popped and done
        return {_key(acks[0]): Offsets(list(map(_offset, acks)), [])}
    said: Said = {}
    for ack in acks:
        offsets = said.setdefault(_key(ack), Offsets([], []))
        if ack.status == "completed":
            offsets.completed.append(ack.offset)
        else:
            offsets.others.append(ack)
    return said


def joined(requests: Sequence[Said]) -> Said:
    """What several requests say, as if one had said it."""
    together: Said = {}
    for said in requests:
        for held, offsets in said.items():
            known = together.get(held)
            if known is None:
                together[held] = offsets
            else:
                together[held] = Offsets(known.completed + offsets.completed, known.others + offsets.others)
    return together


def _of_one_lease(acks: Sequence[Ack]) -> bool:
    """Whether all of them are about one lease on one partition, as far as that can be told without comparing ids."""
    return len(set(map(id, map(_lease_id, acks)))) == 1 and len(set(map(_place, acks))) == 1


def arguments(held: Said) -> list[Any]:
    """The arguments of queen.ack_batch: ranges of completed offsets, the others one by one."""
    ranges: list[tuple[int, int, int]] = []
    others: list[tuple[int, Ack]] = []
    for number, offsets in enumerate(held.values(), 1):
        ranges += [(number, start, end) for start, end in _ranges(offsets.completed)]
        others += [(number, ack) for ack in offsets.others]
    return [
        listed([key[0] for key in held]),
        listed([key[1] for key in held]),
        listed([key[2] for key in held]),
        listed([number for number, _, _ in ranges]),
        listed([start for _, start, _ in ranges]),
        listed([end for _, _, end in ranges]),
        listed([number for number, _ in others]),
        listed([ack.offset for _, ack in others]),
        [ack.status for _, ack in others],
        [ack.error and _storable(ack.error) for _, ack in others],
    ]


def _storable(text: str) -> str:
    """As much of a text as PostgreSQL can hold: what went wrong must not go wrong again."""
    return text[:ERROR_CHARACTERS_MAX].replace("\x00", "").encode(errors="replace").decode()


def check(acks: Sequence[Ack]) -> None:
    """Refuse what makes no sense before it meets other requests."""
    if unknown := set(map(_status, acks)) - STATUSES:
        raise InvalidStatus(f'unknown status "{unknown.pop()}"; use completed, failed, retry or dlq')
    _check_offsets(list(map(_offset, acks)))


def _check_offsets(offsets: Sequence[int]) -> None:
    for offset in (min(offsets, default=0), max(offsets, default=0)):
        if not 0 <= offset < 1 << 40:
            raise InvalidArgument(f"{offset} is not an offset")


class Acker:
    """Tells the database what became of leased messages, and renews leases."""

    def __init__(self, database: Database, settings: Settings, bell: Bell) -> None:
        self._database = database
        self._bell = bell
        self.batcher = Batcher(
            self._ack_all,
            calls_max=settings.ack_calls_max,
            weight=_weight,
            weight_max=MESSAGES_MAX,
            shared_from=SHARED_FROM,
        )
        self.renewals = Batcher(self._renew_all, calls_max=1, weight=len)

    async def ack(self, acks: Sequence[Ack]) -> list[Acked]:
        """Acknowledge messages; every one gets its own answer, in order."""
        if not acks:
            return []
        check(acks)
        said = gather(acks)
        verdicts = await self.batcher.submit(said)
        if len(said) == 1:
            [held] = said
            return verdicts[held].of_each(list(map(_offset, acks)))
        return [verdicts[_key(ack)].of(ack.offset) for ack in acks]

    async def complete(self, held: Held, offsets: list[int]) -> list[Acked]:
        """Messages of one lease on one partition are done; every one gets its own answer, in order."""
        _check_offsets(offsets)
        verdicts = await self.batcher.submit({held: Offsets(offsets, [])})
        return verdicts[held].of_each(offsets)

    async def renew(self, lease_id: UUID, seconds: float | None) -> datetime:
        """When the lease now expires; raises LeaseGone."""
        [expires_at] = await self.renew_many([(lease_id, seconds)])
        if expires_at is None:
            raise LeaseGone()
        return expires_at

    async def renew_many(self, renewals: Sequence[tuple[UUID, float | None]]) -> list[datetime | None]:
        """When leases now expire; None for those that are gone."""
        for _, seconds in renewals:
            if seconds is not None and not 0 < seconds <= 604_800:
                raise InvalidArgument("a lease lasts more than 0 and at most 604800 seconds")
        return await self.renewals.submit(renewals)

    async def release(self, lease_id: UUID) -> bool:
        """End a lease, untouched; False when it is gone."""
        try:
            return self._released(await self._database.row(RELEASE, [lease_id], repeatable=False))
        except OutcomeUnknown:
            self._released(await self._database.row(RELEASE, [lease_id]))
            return True  # by this call or by the one before

    def _released(self, row: Any) -> bool:
        """Ring for what can be taken again."""
        for queue in row["queues"]:
            self._bell.ring(queue, row["released"])
        return bool(row["released"])

    async def _ack_all(self, requests: list[Said]) -> "list[dict[Held, Verdict]]":
        said = joined(requests)
        rows = sorted(await self._call(said), key=_number)
        for row in rows:
            if row["more"]:
                self._bell.ring(row["queue_name"])
        verdicts = {held: Verdict(row) for held, row in zip(said, rows, strict=True)}
        return [verdicts] * len(requests)

    async def _call(self, said: Said) -> list[Any]:
        """Completed messages may be completed again; whatever else is said of one must count once."""
        statement, *ids = (ACK_ONCE, uuid4()) if any(offsets.others for offsets in said.values()) else (ACK,)
        sent = arguments(said)

        async def call(call_id: int) -> list[Any]:
            return await self._database.rows(statement, *ids, *sent, call_id, repeatable=False)

        async def outcome() -> list[Any] | None:
            if ids:
                return None  # the same call again finds out by itself
            # A lease that the lost call ended is gone, but what it was asked to do is done.
            return [_forgiving(row) for row in await self._database.rows(ACK, *sent, None)]

        return await self._database.once(call, outcome)

    async def _renew_all(self, requests: list[Sequence[tuple[UUID, float | None]]]) -> list[list[datetime | None]]:
        renewals = list(chain.from_iterable(requests))
        rows = await self._database.rows(RENEW, [id for id, _ in renewals], [seconds for _, seconds in renewals])
        expiries = {row["item"]: row["expires_at"] for row in rows}
        numbers = count(1)
        return [[expiries[next(numbers)] for _ in each] for each in requests]


def _weight(said: Said) -> int:
    return sum(len(offsets.completed) + len(offsets.others) for offsets in said.values())


class Verdict:
    """What the database says of one lease on one partition, asked offset by offset."""

    __slots__ = ("_accepted", "_dead", "_held", "_released")

    def __init__(self, row: Any) -> None:
        self._held: bool = row["held"]
        self._released: bool = row["released"]
        self._accepted = [(each.lower, each.upper) for each in row["accepted"]]
        self._dead = [(each.lower, each.upper) for each in row["dead"]]

    def of_each(self, offsets: Sequence[int]) -> list[Acked]:
        """The answers to the acks of some offsets, mostly the same for all of them."""
        if not self._held:
            return [GONE] * len(offsets)
        first, last = min(offsets), max(offsets)
        if not self._dead and any(start <= first and last < end for start, end in self._accepted):
            return [Acked(True, self._released)] * len(offsets)
        return list(map(self.of, offsets))

    def of(self, offset: int) -> Acked:
        """The answer to the ack of one offset."""
        if not self._held:
            return GONE
        for start, end in self._accepted:
            if start <= offset < end:
                dead = any(start <= offset < end for start, end in self._dead) if self._dead else False
                return Acked(True, self._released, dead)
        return FOREIGN


def _forgiving(row: Any) -> dict[str, Any]:
    """A repeated ack whose lease is gone because the first one worked."""
    if row["held"] or not row["already"]:
        return dict(row)
    return {**row, "held": True, "released": True, "accepted": [EVERYTHING]}


def completed(messages: Sequence[Message]) -> list[Ack]:
    """Acks that complete messages."""
    return [Ack.of(message) for message in messages]


def _ranges(offsets: list[int]) -> list[tuple[int, int]]:
    """Contiguous runs of offsets as [start, end)."""
    ordered = sorted(set(offsets))
    if ordered and ordered[-1] - ordered[0] == len(ordered) - 1:
        return [(ordered[0], ordered[-1] + 1)]
    ranges: list[tuple[int, int]] = []
    for offset in ordered:
        if ranges and ranges[-1][1] == offset:
            ranges[-1] = (ranges[-1][0], offset + 1)
        else:
            ranges.append((offset, offset + 1))
    return ranges
