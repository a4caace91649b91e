"""Push, pop, ack and reads by offset with an engine."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from queenmq import model
from queenmq.api.call import Call
from queenmq.client import calls
from queenmq.client.answers import (
    Acked,
    ChangedPartition,
    Changes,
    Delivery,
    Fetched,
    Pushed,
    PushStatus,
    Receipts,
    Record,
)
from queenmq.engine import reading
from queenmq.engine.reading import ChangesAsked, OffsetRead
from queenmq.errors import BY_CODE, InvalidArgument, Paused, QueenError, QueueNotFound
from queenmq.model import OFFSET_DIGITS, Outgoing, Payloads, PushedRun, message_text
from queenmq.service.ids import id_text, uuid

if TYPE_CHECKING:
    from queenmq.client.transports.postgres import PostgresTransport


async def push(transport: "PostgresTransport", call: calls.Push) -> Sequence[Pushed]:
    """Store messages; what was sent is found again by the engine, so they need no transaction ids."""
    if transport.presence.push_paused:
        raise Paused("pushes are paused for maintenance")
    pushed = _pushed(call.messages, await transport.engine.push(call.messages))
    return await _with_capacity(transport, pushed) if call.capacity else pushed


async def _with_capacity(transport: "PostgresTransport", pushed: Sequence[Pushed]) -> Sequence[Pushed]:
    """How full the queues are now. The messages are stored already, so a failure here leaves the fields empty."""
    try:
        depths = await transport.engine.admin.depths({each.queue for each in pushed})
    except QueenError:
        return pushed
    return [
        replace(each, queue_depth=depths[each.queue].depth, remaining_capacity=depths[each.queue].remaining)
        if each.queue in depths
        else each
        for each in pushed
    ]


async def pop(transport: "PostgresTransport", call: calls.Pop) -> list[Delivery]:
    """Lease messages."""
    popped = await transport.engine.pop(call.request, call.wait_seconds, call.count)
    return [_delivery(each) for each in popped.messages]


async def acknowledge(transport: "PostgresTransport", call: calls.Acknowledge) -> list[Acked]:
    """Say what became of messages."""
    return [
        Acked(each.accepted, _sentence(each.error), each.released, each.dead_lettered)
        for each in await transport.engine.ack([_ack(each) for each in call.acks])
    ]


async def renew(transport: "PostgresTransport", call: calls.Renew) -> datetime:
    """Keep a lease."""
    return await transport.engine.renew(uuid(call.lease_id, "the lease id"), call.seconds)


async def renew_many(transport: "PostgresTransport", call: calls.RenewMany) -> list[datetime | None]:
    """Keep leases."""
    return await transport.engine.renew_many(
        [(uuid(each.lease_id, "the lease id"), each.seconds) for each in call.renewals]
    )


async def release(transport: "PostgresTransport", call: calls.Release) -> bool:
    """Give a lease back."""
    return await transport.engine.release(uuid(call.lease_id, "the lease id"))


async def transact(transport: "PostgresTransport", call: calls.Transact) -> Sequence[Pushed]:
    """Acknowledge and push together."""
    pushed = await transport.engine.transaction([_ack(each) for each in call.acks], call.messages)
    return _pushed(call.messages, pushed)


async def fetch(transport: "PostgresTransport", call: calls.Fetch) -> list[Fetched]:
    """Read by offset."""
    reads = [
        OffsetRead(each.queue, each.partition, each.offset, call.bytes_max, each.previous) for each in call.positions
    ]
    return [
        Fetched([_record(position, each) for each in found.records], found.start_offset, found.next_offset, found.error)
        for position, found in zip(
            call.positions, await transport.engine.reader.read(reads, call.bytes_max), strict=True
        )
    ]


async def changed(transport: "PostgresTransport", call: calls.Changed) -> Changes:
    """Find partitions that were written."""
    asked = ChangesAsked(queue=call.queue, since=call.since, cursor=call.cursor, limit=call.limit)
    changes = await transport.engine.reader.changes([asked])
    [found] = changes.partitions
    if found is None:
        raise QueueNotFound(f'there is no queue "{call.queue}"')
    partitions = [
        ChangedPartition(
            each.partition,
            id_text(each.partition_id),
            each.next_offset - 1,
            each.start_offset,
            each.last_message_at,
        )
        for each in found
    ]
    return Changes(changes.safe_time, partitions, found[-1].cursor if len(found) == call.limit else None)


def _pushed(messages: Sequence[Outgoing], pushed: Sequence[model.Pushed]) -> Sequence[Pushed]:
    """The answers; what messages of one segment have in common is written once for all that follow each other."""
    if isinstance(pushed, PushedRun):
        first_id = message_text(pushed.created_at, pushed.partition_id, pushed.offsets.start)
        queue = messages.queue if isinstance(messages, Payloads) else messages[0].queue
        partition = id_text(pushed.partition_id)
        return Receipts("queued", queue, partition, first_id, len(pushed), pushed.transaction_ids)
    told: list[Pushed] = []
    created_at, partition_id, prefix, partition = None, 0, "", ""
    for message, each in zip(messages, pushed, strict=True):
        if each.created_at is not created_at or each.partition_id != partition_id:
            created_at, partition_id = each.created_at, each.partition_id
            prefix = message_text(created_at, partition_id, 0)[:-OFFSET_DIGITS]
            partition = id_text(partition_id)
        id = f"{prefix}{each.offset:010x}"
        status: PushStatus = "duplicate" if each.duplicate else "queued"
        told.append(Pushed(status, message.queue, each.given_transaction_id or id, id, partition))
    return told


def _delivery(message: model.Message) -> Delivery:
    lease = message.lease
    id = message_text(message.created_at, lease.partition_id, message.offset)
    return Delivery(
        id=id,
        transaction_id=message.given_transaction_id or id,
        queue=lease.queue,
        partition=lease.partition,
        partition_id=id_text(lease.partition_id),
        offset=message.offset,
        raw=message.payload,
        created_at=message.created_at,
        lease_id="" if lease.id is None else str(lease.id),
        group=lease.group,
        trace_id=None if message.trace_id is None else str(message.trace_id),
        producer=message.producer,
        retry_count=message.retry_count,
        headers=message.headers,
        lease=lease,
    )


def _record(position: calls.Position, found: reading.Record) -> Record:
    return Record(
        queue=position.queue,
        partition=position.partition,
        offset=found.offset,
        transaction_id=found.transaction_id,
        created_at=found.created_at,
        raw=found.payload,
        headers=found.headers,
    )


def _ack(ack: calls.Ack) -> model.Ack:
    lease = ack.delivery.lease
    if lease is None:
        raise InvalidArgument("a server has delivered this message: acknowledge it there")
    if lease.id is None:
        raise InvalidArgument("the pop acknowledged this message itself")
    return model.Ack(lease.partition_id, lease.group_id, lease.id, ack.delivery.offset, ack.status, ack.error)


def _sentence(code: str | None) -> str | None:
    return None if code is None else BY_CODE.get(code, QueenError)().message


TRAFFIC: Mapping[type[Call[Any]], Callable[[Any, Any], Awaitable[Any]]] = {
    calls.Push: push,
    calls.Pop: pop,
    calls.Acknowledge: acknowledge,
    calls.Renew: renew,
    calls.RenewMany: renew_many,
    calls.Release: release,
    calls.Transact: transact,
    calls.Fetch: fetch,
    calls.Changed: changed,
}
