"""POST /transaction: acks and pushes, all or nothing."""

from collections.abc import Sequence
from typing import Any, Literal
from uuid import uuid4

import msgspec
from msgspec import Struct

from queenmq.broker.auth import require
from queenmq.broker.broker import Broker
from queenmq.broker.http import Request, Response, answer
from queenmq.broker.routes import ack, push
from queenmq.errors import InvalidArgument, LeaseGone, NotInLease, QueueFull, Refused, TooManyItems
from queenmq.service.ids import uuid


class AckOperation(ack.AckBody, tag_field="type", tag="ack"):
    """Acknowledge one message."""


class PushOperation(Struct, tag_field="type", tag="push"):
    """Push messages."""

    items: list[push.PushItem]


class TransactionBody(Struct, rename="camel"):
    """What is to happen together; a lease in `requiredLeases` that is gone undoes it."""

    operations: list[AckOperation | PushOperation]
    required_leases: list[str] = []


class OperationResult(Struct, rename="camel", omit_defaults=True):
    """The answer to one ack, or to one message of a push."""

    index: int
    type: Literal["ack", "push"]
    success: bool
    error: str | None = None
    status: str | None = None
    message_id: str | None = None
    partition_id: str | None = None
    queue_name: str | None = None
    transaction_id: str | None = None


class TransactionAnswer(Struct, rename="camel", omit_defaults=True):
    """All of it happened, or nothing."""

    transaction_id: str
    success: bool
    results: list[OperationResult]
    error: str | None = None
    code: str | None = None
    hint: str | None = None


_body = msgspec.json.Decoder(TransactionBody)


async def transaction(broker: Broker, request: Request) -> Response:
    """Acknowledge and push together: all of it happens, or nothing."""
    body = await request.json(_body)
    if not body.operations:
        raise InvalidArgument("a transaction needs at least one operation")
    acks = [(index, each) for index, each in enumerate(body.operations) if isinstance(each, AckOperation)]
    items = [
        (index, item)
        for index, each in enumerate(body.operations)
        if isinstance(each, PushOperation)
        for item in each.items
    ]
    if acks:
        require(request, "consumer")
    if items:
        require(request, "producer")
    if len(acks) + len(items) > broker.settings.push_items_max:
        raise TooManyItems(f"a transaction has at most {broker.settings.push_items_max} acks and messages")
    required = [uuid(lease, "a required lease") for lease in body.required_leases]
    id = str(uuid4())
    places = await ack.locate(broker, [each for _, each in acks], None)
    for (index, each), place in zip(acks, places, strict=True):
        if place.ack is None:
            kind = NotInLease if place.error == ack.NOT_FOUND else LeaseGone
            return _undone(id, kind(place.error), index, each)
    try:
        messages = push.outgoing([item for _, item in items], request.producer)
        pushed = await broker.engine.transaction([p.ack for p in places if p.ack is not None], messages, required)
    except (LeaseGone, NotInLease) as refusal:
        return _undone(id, refusal, acks[0][0] if acks else 0, acks[0][1] if acks else None)
    except Refused as refusal:
        if not items:
            raise
        return _unpushed(id, refusal, items, broker, request.producer)
    broker.metrics.acked += len(acks)
    broker.metrics.pushed += len(messages)
    results = [
        OperationResult(index, "ack", True, transaction_id=each.transaction_id, partition_id=each.partition_id)
        for index, each in acks
    ]
    told = push.results([item for _, item in items], messages, pushed)
    results += [
        OperationResult(
            index,
            "push",
            True,
            status=result.status,
            message_id=result.message_id,
            partition_id=result.partition_id,
            queue_name=result.queueName,
            transaction_id=result.transaction_id,
        )
        for (index, _), result in zip(items, told, strict=True)
    ]
    return answer(TransactionAnswer(id, True, sorted(results, key=lambda result: result.index)))


def _undone(id: str, refusal: Refused, index: int, operation: Any) -> Response:
    name = operation.transaction_id if operation is not None else None
    return _refused(id, refusal, OperationResult(index, "ack", False, error=refusal.message, transaction_id=name))


def _unpushed(
    id: str, refusal: Refused, items: Sequence[tuple[int, push.PushItem]], broker: Broker, producer: str | None
) -> Response:
    """The push that was refused: for a full queue the first to that queue, else the first that is refused alone."""
    index, item = next((each for each in items if _is_refused(each[1], refusal, broker, producer)), items[0])
    result = OperationResult(
        index, "push", False, error=refusal.message, queue_name=item.queue, transaction_id=item.transaction_id
    )
    return _refused(id, refusal, result)


def _is_refused(item: push.PushItem, refusal: Refused, broker: Broker, producer: str | None) -> bool:
    if isinstance(refusal, QueueFull):
        return item.queue == refusal.queue
    try:
        broker.engine.pusher.check(push.outgoing([item], producer))
    except Refused:
        return True
    return False


def _refused(id: str, refusal: Refused, result: OperationResult) -> Response:
    return answer(TransactionAnswer(id, False, [result], refusal.message, refusal.code, refusal.hint))
