"""POST /ack, /ack/batch, /lease/{lease}/extend, /lease/{lease}/release and /leases/extend."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import count, repeat
from operator import attrgetter
from typing import get_args
from uuid import UUID

import msgspec
from msgspec import Raw, Struct

from queenmq.broker import wire
from queenmq.broker.broker import Broker
from queenmq.broker.deliveries import Part
from queenmq.broker.http import Request, Response, answer, decode, encode
from queenmq.engine.partitions import check_name
from queenmq.errors import InvalidArgument, InvalidStatus, TooManyItems
from queenmq.model import QUEUE_MODE, Ack, Acked, AckStatus, Located
from queenmq.service.ids import partition_number, uuid

STATUSES: dict[str, AckStatus] = {status: status for status in get_args(AckStatus)} | {"success": "completed"}
AGAIN: tuple[AckStatus, ...] = ("failed", "retry")  # unless the message becomes a dead letter
NOT_FOUND = "Message not found"
NO_LEASE = "Invalid or expired lease"  # clients of the original system look for this text
NOT_LEASED = "Lease not found"
SECONDS = 60.0
SECONDS_MAX = 604_800.0
LEASES_MAX = 1_000  # in one request


class AckBody(Struct, gc=False, rename="camel"):
    """What became of one message; `transactionId` may be a message id too."""

    transaction_id: str
    partition_id: str
    lease_id: str | None = None
    status: str | None = None
    error: str | None = None
    consumer_group: str | None = None


class AckBatchBody(Struct, rename="camel"):
    """What became of several messages; `consumerGroup` counts for those that name none."""

    acknowledgments: list[AckBody]
    consumer_group: str | None = None


class AckResult(Struct, gc=False, rename="camel"):
    """The answer to one acknowledgement."""

    index: int
    transaction_id: str
    success: bool
    error: str | None
    queue_name: str | None
    partition_name: str | None
    lease_released: bool = False
    dlq: bool = False


class _AckedAlike(Struct, gc=False, rename="camel"):
    """An AckResult whose last field is text that brings all others with it: those of a whole lease are the same."""

    index: int
    transaction_id: str
    success: Raw


class ExtendBody(Struct):
    """How long to keep the lease, from now."""

    seconds: float = SECONDS


class LeaseBody(Struct, rename="camel"):
    """A lease, and how long to keep it, from now."""

    lease_id: str
    seconds: float = SECONDS


class LeasesBody(Struct):
    """Leases to keep."""

    leases: list[LeaseBody]


class ExtendResult(Struct, rename="camel"):
    """The answer to one extension."""

    index: int
    lease_id: str
    success: bool
    expires_at: datetime | None
    error: str | None


class ReleaseResult(Struct, rename="camel"):
    """The answer to one release."""

    index: int
    lease_id: str
    success: bool
    error: str | None


class Place(Struct, gc=False):
    """The ack that is meant, or why there is none; and where the message is."""

    ack: Ack | None
    error: str | None
    queue: str | None
    partition: str | None


_success = attrgetter("success")

_ack = msgspec.json.Decoder(AckBody)
_batch = msgspec.json.Decoder(AckBatchBody)
_extend = msgspec.json.Decoder(ExtendBody)
_extend_many = msgspec.json.Decoder(LeasesBody)


async def ack(broker: Broker, request: Request) -> Response:
    """Acknowledge one message."""
    return await _acknowledge(broker, [await request.json(_ack)], None)


async def ack_batch(broker: Broker, request: Request) -> Response:
    """Acknowledge several messages; each gets its own answer, in order."""
    text, most = await request.body(), broker.settings.push_items_max
    too_many = TooManyItems(f"the request has more than {most} acknowledgments")
    if wire.is_longer(text, "acknowledgments", most):
        raise too_many
    body = decode(text, _batch)
    if len(body.acknowledgments) > most:
        raise too_many
    return await _acknowledge(broker, body.acknowledgments, body.consumer_group)


async def extend(broker: Broker, request: Request) -> Response:
    """Keep a lease for longer."""
    body = await request.json_or(ExtendBody(), _extend)
    return await _renew(broker, [LeaseBody(request.path_parameters["lease"], body.seconds)])


async def extend_many(broker: Broker, request: Request) -> Response:
    """Keep several leases for longer; each gets its own answer, in order."""
    body = await request.json(_extend_many)
    if len(body.leases) > LEASES_MAX:
        raise TooManyItems(f"the request has {len(body.leases)} leases; {LEASES_MAX} is the most")
    return await _renew(broker, body.leases)


async def _renew(broker: Broker, leases: Sequence[LeaseBody]) -> Response:
    for each in leases:
        if not 0 < each.seconds <= SECONDS_MAX:
            raise InvalidArgument(f"a lease is extended by more than 0 and at most {SECONDS_MAX:.0f} seconds")
    renewals = [(uuid(each.lease_id, "the lease id"), each.seconds) for each in leases]
    return answer(
        [
            ExtendResult(number, each.lease_id, expires_at is not None, expires_at, None if expires_at else NOT_LEASED)
            for number, (each, expires_at) in enumerate(
                zip(leases, await broker.engine.renew_many(renewals), strict=True)
            )
        ]
    )


async def release(broker: Broker, request: Request) -> Response:
    """Give a lease back: what of it was not acknowledged is delivered again at once, and counts no failure."""
    lease = request.path_parameters["lease"]
    lease_id = uuid(lease, "the lease id")
    released = await broker.engine.release(lease_id)
    broker.deliveries.forget([lease_id])
    return answer([ReleaseResult(0, lease, released, None if released else NOT_LEASED)])


async def _acknowledge(broker: Broker, bodies: Sequence[AckBody], group: str | None) -> Response:
    """Find the messages that are meant, and say what became of them."""
    if group is not None:
        check_name(group, "group")
    whole = _delivered_together(broker, bodies)
    return await _complete(broker, *whole) if whole is not None else await _one_by_one(broker, bodies, group)


def _delivered_together(broker: Broker, bodies: Sequence[AckBody]) -> tuple[Part, list[str], list[int]] | None:
    """The lease's part, the names and the offsets, where all were delivered under one lease here, and are done."""
    if not bodies:
        return None
    said = bodies[0]
    part = broker.deliveries.find(said.lease_id, said.partition_id)
    if part is None or said.error is not None or STATUSES.get(said.status or "completed") != "completed":
        return None
    lease_id, partition_id, status, group = said.lease_id, said.partition_id, said.status, said.consumer_group
    names = [
        body.transaction_id
        for body in bodies
        if body.lease_id == lease_id
        and body.partition_id == partition_id
        and body.status == status
        and body.error is None
        and body.consumer_group == group
    ]
    offsets = part.offsets_of(names) if len(names) == len(bodies) else None
    if offsets is None:
        return None
    if group is not None:
        check_name(group, "group")
    return part, names, offsets


async def _complete(broker: Broker, part: Part, names: list[str], offsets: list[int]) -> Response:
    acked = await broker.engine.complete(part.partition_id, part.group_id, part.lease_id, offsets)
    if acked.count(acked[0]) < len(acked):
        results = [
            _result(index, name, part, told) for index, (name, told) in enumerate(zip(names, acked, strict=True))
        ]
        return _answered(broker, results, [part.lease_id] if any(each.lease_released for each in results) else [])
    alike = _result(0, "", part, acked[0])
    broker.metrics.acked += len(acked) * alike.success
    if alike.lease_released:
        broker.deliveries.forget([part.lease_id])
    rest = Raw(encode(alike).partition(b'"success":')[2].removesuffix(b"}"))
    return answer(list(map(_AckedAlike, count(), names, repeat(rest))))


async def _one_by_one(broker: Broker, bodies: Sequence[AckBody], group: str | None) -> Response:
    places = await locate(broker, bodies, group)
    acks = [place.ack for place in places if place.ack is not None]
    acked = iter(await broker.engine.ack(acks) if acks else ())
    results: list[AckResult] = []
    ended: dict[UUID, None] = {}
    for index, (body, place) in enumerate(zip(bodies, places, strict=True)):
        if place.ack is not None:
            told = next(acked)
            if told.released:
                ended[place.ack.lease_id] = None
            broker.metrics.dead_lettered += told.dead_lettered
            broker.metrics.retried += told.accepted and not told.dead_lettered and place.ack.status in AGAIN
            result = _result(index, body.transaction_id, place, told)
        else:
            result = AckResult(index, body.transaction_id, False, place.error, place.queue, place.partition)
        results.append(result)
    return _answered(broker, results, ended)


def _answered(broker: Broker, results: Sequence[AckResult], ended: Iterable[UUID]) -> Response:
    broker.deliveries.forget(ended)
    broker.metrics.acked += sum(map(_success, results))
    return answer(results)


async def locate(broker: Broker, bodies: Sequence[AckBody], group: str | None) -> list[Place]:
    """The acks that are meant; where a message or its lease cannot be found, why."""
    found = [Place(None, NOT_FOUND, None, None)] * len(bodies)
    unknown: list[tuple[int, int, str, AckStatus]] = []
    find = broker.deliveries.find
    for index, body in enumerate(bodies):
        status = STATUSES.get(body.status) if body.status else "completed"
        if status is None:
            raise InvalidStatus(f"a status is one of {', '.join(STATUSES)}, not {body.status!r}")
        if body.consumer_group is not None:
            check_name(body.consumer_group, "group")
        part = find(body.lease_id, body.partition_id)
        offset = None if part is None else part.offset(body.transaction_id)
        if part is not None and offset is not None:
            ack = Ack(part.partition_id, part.group_id, part.lease_id, offset, status, body.error)
            found[index] = Place(ack, None, part.queue, part.partition)
            continue
        try:
            partition_id = partition_number(body.partition_id)
            if body.lease_id:
                uuid(body.lease_id, "leaseId")
        except InvalidArgument:
            continue  # an id of another system: only this ack is not found
        if "\0" not in body.transaction_id:  # no pushed message has this id
            unknown.append((index, partition_id, body.consumer_group or group or QUEUE_MODE, status))
    if unknown:
        located = await broker.engine.admin.locate_messages(
            [partition_id for _, partition_id, _, _ in unknown],
            [name for _, _, name, _ in unknown],
            [bodies[index].transaction_id for index, *_ in unknown],
        )
        for (index, partition_id, name, status), each in zip(unknown, located, strict=True):
            found[index] = _place(bodies[index], partition_id, name, each, status)
    return found


def _place(body: AckBody, partition_id: int, group: str, located: Located, status: AckStatus) -> Place:
    names = located.queue_name, located.partition_name
    if located.offset is None:
        return Place(None, NOT_FOUND, *names)
    lease_id = UUID(body.lease_id) if body.lease_id else located.lease_id if located.lease_live else None
    if lease_id is None or located.group_id is None:
        return Place(None, NO_LEASE if body.lease_id else _no_lease(group, located), *names)
    return Place(Ack(partition_id, located.group_id, lease_id, located.offset, status, body.error), None, *names)


def _no_lease(group: str, located: Located) -> str:
    """What an ack without a lease lacks: the group that is meant may be another one."""
    return (
        f'{NO_LEASE}: the request has no leaseId, and group "{group}" holds no lease on partition '
        f'"{located.partition_name}"; send the leaseId or the consumerGroup of the pop'
    )


def _result(index: int, name: str, where: Part | Place, acked: Acked) -> AckResult:
    error = None if acked.accepted else NO_LEASE
    released, dead = acked.released, acked.dead_lettered
    return AckResult(index, name, acked.accepted, error, where.queue, where.partition, released, dead)
