"""Push, pop, ack and reads by offset as HTTP."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

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
from queenmq.client.transports.exchange import Exchange, ExchangeTable, path, query
from queenmq.errors import BY_CODE, InvalidArgument, InvalidHeaders, LeaseGone, QueueNotFound, Refused
from queenmq.model import Headers, NumberedIds, Outgoing, Payloads, PopRequest

encode = msgspec.json.Encoder().encode


class _Item(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    queue: str
    payload: Raw
    transaction_id: str
    partition: str
    trace_id: UUID | None = None
    headers: Raw | None = None


class _Ack(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    transaction_id: str
    partition_id: str
    lease_id: str
    status: str
    consumer_group: str
    error: str | None = None


class _AckOperation(_Ack, frozen=True, gc=False, rename="camel", omit_defaults=True, tag_field="type", tag="ack"):
    pass


class _PopAnswer(Struct):
    messages: list[Delivery]


class _Renewed(Struct, rename="camel"):
    success: bool
    expires_at: datetime | None = None


class _Released(Struct):
    success: bool


class _Operation(Struct, rename="camel"):
    type: str
    status: str = ""
    message_id: str | None = None
    partition_id: str | None = None
    queue_name: str = ""
    transaction_id: str | None = None


class _Transacted(Struct):
    success: bool
    results: list[_Operation] = []
    error: str | None = None
    code: str | None = None


class _Record(Struct, gc=False, rename="camel"):
    offset: int
    transaction_id: str
    payload: Raw
    ts: datetime
    headers: Headers = {}


class _Fetched(Struct, rename="camel"):
    records: list[_Record]
    high_watermark: int
    log_start_offset: int
    error: str | None = None


class _FetchAnswer(Struct):
    entries: list[_Fetched]


class _ChangedPage(Struct):
    partitions: list[ChangedPartition]
    next: str | None = None
    error: str | None = None


class _ChangedAnswer(Struct, rename="camel"):
    safe_time: datetime
    entries: list[_ChangedPage]


class _Run(Struct):
    status: PushStatus
    count: int
    message_id: str | None


class _ArrayAnswer(Struct, rename={"queue_name": "queueName", "depth": "queueDepth", "remaining": "remainingCapacity"}):
    queue_name: str
    partition_id: str | None
    runs: list[_Run]
    depth: int | None = None
    remaining: int | None = None


_pushed = msgspec.json.Decoder(list[Pushed])
_array = msgspec.json.Decoder(_ArrayAnswer)
_popped = msgspec.json.Decoder(_PopAnswer)
_acked = msgspec.json.Decoder(list[Acked])
_renewed = msgspec.json.Decoder(list[_Renewed])
_released = msgspec.json.Decoder(list[_Released])
_transacted = msgspec.json.Decoder(_Transacted)
_fetched = msgspec.json.Decoder(_FetchAnswer)
_changed = msgspec.json.Decoder(_ChangedAnswer)


def push(call: calls.Push) -> Exchange[Sequence[Pushed]]:
    """POST /push; may be repeated, because every message has an id by then."""
    if isinstance(call.messages, Payloads) and call.messages.queue and call.messages.partition:
        return _push_array(
            call.messages, capacity=call.capacity
        )  # an address has no place for an empty name; among items, it is refused
    body = encode({"items": _items(call.messages), "atomic": True})

    def read(answer: bytes) -> Sequence[Pushed]:
        return [
            replace(each, status="queued") if each.status == "duplicate" and message.transaction_id is None else each
            for message, each in zip(call.messages, _pushed.decode(answer), strict=True)
        ]  # nobody else has the ids that we gave: a duplicate of one was stored by a try whose answer was lost

    asked = query(capacity="true" if call.capacity else None)
    return Exchange(path=path("push"), query=asked, method="POST", body=body, repeatable=True, read=read)


def _push_array(messages: Payloads, *, capacity: bool) -> Exchange[Sequence[Pushed]]:
    unique = str(uuid4())

    def read(answer: bytes) -> Sequence[Pushed]:
        found = _array.decode(answer)
        told: list[Pushed] = []
        for run in found.runs:
            status: PushStatus = "buffered" if run.status == "buffered" else "queued"  # nobody else has our ids
            ids = NumberedIds(unique, range(len(told), len(told) + run.count))
            receipts = Receipts(status, found.queue_name, found.partition_id, run.message_id, run.count, ids)
            if run.count == len(messages) and not capacity:
                return receipts
            told += receipts
        if not capacity:
            return told
        return [replace(each, queue_depth=found.depth, remaining_capacity=found.remaining) for each in told]

    return Exchange(
        path=path("push", "queue", messages.queue, "partition", messages.partition),
        query=query(transactionId=unique, capacity="true" if capacity else None),
        method="POST",
        body=messages.array,
        repeatable=True,
        read=read,
    )


def pop(call: calls.Pop) -> Exchange[list[Delivery]]:
    """GET /pop."""
    asked = call.request
    return Exchange(
        path=_source(asked),
        query=query(
            batch=asked.batch,
            consumerGroup=asked.group,
            wait=True if call.wait_seconds else None,
            timeout=round(call.wait_seconds * 1000) if call.wait_seconds else None,
            autoAck=True if asked.auto_ack else None,
            partitions=asked.max_partitions,
            pops=call.count if call.count > 1 else None,
            leaseTime=asked.lease_seconds,
            subscriptionMode=asked.subscription_mode if asked.subscription_from is None else None,
            subscriptionFrom=asked.subscription_from,
            namespace=asked.namespace,
            task=asked.task,
        ),
        wait_seconds=call.wait_seconds,
        read=_read_popped,
        unclaimed=None if asked.auto_ack else _give_back,
    )


def acknowledge(call: calls.Acknowledge) -> Exchange[list[Acked]]:
    """POST /ack/batch."""
    body = encode({"acknowledgments": [_Ack(*_ack(each)) for each in call.acks]})
    return Exchange(path=path("ack", "batch"), method="POST", body=body, read=_acked.decode)


def renew(call: calls.Renew) -> Exchange[datetime]:
    """POST /lease/{lease}/extend."""
    return Exchange(
        path=path("lease", call.lease_id, "extend"),
        method="POST",
        body=encode({"seconds": call.seconds}),
        repeatable=True,
        read=_read_renewed,
    )


def renew_many(call: calls.RenewMany) -> Exchange[list[datetime | None]]:
    """POST /leases/extend."""
    leases = [{"leaseId": each.lease_id, "seconds": each.seconds} for each in call.renewals]
    return Exchange(
        path=path("leases", "extend"),
        method="POST",
        body=encode({"leases": leases}),
        repeatable=True,
        read=lambda body: [each.expires_at for each in _renewed.decode(body)],
    )


def release(call: calls.Release) -> Exchange[bool]:
    """POST /lease/{lease}/release."""
    return Exchange(path=path("lease", call.lease_id, "release"), method="POST", repeatable=True, read=_read_released)


def transact(call: calls.Transact) -> Exchange[Sequence[Pushed]]:
    """POST /transaction."""
    operations: list[Any] = [_AckOperation(*_ack(each)) for each in call.acks]
    if call.messages:
        operations.append({"type": "push", "items": _items(call.messages)})
    return Exchange(
        path=path("transaction"), method="POST", body=encode({"operations": operations}), read=_read_transacted
    )


def fetch(call: calls.Fetch) -> Exchange[list[Fetched]]:
    """POST /fetch."""
    entries = [
        {"queue": each.queue, "partition": each.partition, "offset": each.offset}
        | ({} if each.previous is None else {"previousTs": each.previous})
        for each in call.positions
    ]
    return Exchange(
        path=path("fetch"),
        method="POST",
        body=encode({"entries": entries, "maxBytes": call.bytes_max}),
        repeatable=True,
        read=lambda body: list(map(_read_fetched, call.positions, _fetched.decode(body).entries)),
    )


def changed(call: calls.Changed) -> Exchange[Changes]:
    """POST /partitions/changed."""
    entry = {"queue": call.queue, "since": call.since, "after": call.cursor, "limit": call.limit}

    def read(body: bytes) -> Changes:
        answer = _changed.decode(body)
        [page] = answer.entries
        if page.error is not None:
            raise QueueNotFound(f'there is no queue "{call.queue}"')
        return Changes(answer.safe_time, page.partitions, page.next)

    return Exchange(
        path=path("partitions", "changed"), method="POST", body=encode({"entries": [entry]}), repeatable=True, read=read
    )


def _read_fetched(position: calls.Position, found: _Fetched) -> Fetched:
    records = [
        Record(
            position.queue, position.partition, each.offset, each.transaction_id, each.ts, each.payload, each.headers
        )
        for each in found.records
    ]
    return Fetched(records, found.log_start_offset, found.high_watermark, found.error)


def _items(messages: Sequence[Outgoing]) -> list[_Item]:
    """Each with a transaction id: the producer's, or one that nobody else has."""
    unique = str(uuid4())
    return [
        _Item(
            each.queue,
            Raw(each.payload),
            each.transaction_id or f"{unique}-{number}",
            each.partition,
            each.trace_id,
            None if each.headers is None else _headers(each.headers, number),
        )
        for number, each in enumerate(messages)
    ]


def _headers(headers: Headers, number: int) -> Raw:
    try:
        return Raw(encode(headers))
    except (TypeError, UnicodeEncodeError) as error:
        raise InvalidHeaders(f"the headers of message {number} are not acceptable: {error}") from error


def _ack(ack: calls.Ack) -> tuple[str, str, str, str, str, str | None]:
    delivery = ack.delivery
    if not delivery.lease_id:
        raise InvalidArgument("the pop acknowledged this message itself")
    return (
        delivery.transaction_id, delivery.partition_id, delivery.lease_id, ack.status, delivery.group, ack.error
    )  # fmt: skip


def _source(asked: PopRequest) -> str:
    if asked.queue is None:
        return path("pop")
    if asked.partition is None:
        return path("pop", "queue", asked.queue)
    return path("pop", "queue", asked.queue, "partition", asked.partition)


def _read_popped(body: bytes) -> list[Delivery]:
    return _popped.decode(body).messages if body else []


def _give_back(deliveries: list[Delivery]) -> list[Exchange[bool]]:
    return [release(calls.Release(lease_id)) for lease_id in {each.lease_id: None for each in deliveries}]


def _read_renewed(body: bytes) -> datetime:
    [renewed] = _renewed.decode(body)
    if renewed.expires_at is None:
        raise LeaseGone()
    return renewed.expires_at


def _read_released(body: bytes) -> bool:
    [released] = _released.decode(body)
    return released.success


def _read_transacted(body: bytes) -> Sequence[Pushed]:
    answer = _transacted.decode(body)
    if not answer.success:
        raise BY_CODE.get(answer.code or "", Refused)(answer.error)
    return [
        Pushed(
            status="duplicate" if each.status == "duplicate" else "queued",
            queue=each.queue_name,
            transaction_id=each.transaction_id,
            id=each.message_id,
            partition_id=each.partition_id,
        )
        for each in answer.results
        if each.type == "push"
    ]


TRAFFIC: ExchangeTable = {
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
