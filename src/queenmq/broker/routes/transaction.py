"""POST /transaction: acks and pushes, all or nothing."""

from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import msgspec
from msgspec import Struct

from queenmq.broker import wire
from queenmq.broker.auth import require
from queenmq.broker.http import Request, Response, answer
from queenmq.broker.routes import ack, push
from queenmq.errors import InvalidArgument, LeaseGone, NotInLease, Refused, TooManyItems
from queenmq.model import Ack

if TYPE_CHECKING:
    from queenmq.broker.app import Broker


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


async def transaction(broker: "Broker", request: Request) -> Response:
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
    required = [wire.uuid(lease, "a required lease") for lease in body.required_leases]
    id = str(uuid4())
    places = await ack.locate(broker, [each for _, each in acks], None)
    for (index, each), place in zip(acks, places, strict=True):
        if not isinstance(place, Ack):
            return _undone(id, LeaseGone(place) if place == ack.NO_LEASE else NotInLease(place), index, each)
    messages = push.outgoing([item for _, item in items], request.producer)
    try:
        pushed = await broker.engine.transaction([p for p in places if isinstance(p, Ack)], messages, required)
    except (LeaseGone, NotInLease) as refusal:
        return _undone(id, refusal, acks[0][0] if acks else 0, acks[0][1] if acks else None)
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
    result = OperationResult(index, "ack", False, error=refusal.message, transaction_id=name)
    return answer(TransactionAnswer(id, False, [result], refusal.message, refusal.code, refusal.hint))
