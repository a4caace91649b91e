"""POST /push."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from queenmq.broker import wire
from queenmq.broker.http import Request, Response, answer
from queenmq.errors import InvalidArgument, InvalidTraceId, Refused, TooManyItems
from queenmq.model import DEFAULT_PARTITION, Outgoing, Pushed, milliseconds

if TYPE_CHECKING:
    from queenmq.broker.app import Broker


class PushItem(Struct, gc=False, rename="camel"):
    """A message to push; `data` is another name of `payload`."""

    queue: str
    partition: str | None = None
    payload: Raw | UnsetType = UNSET
    data: Raw | UnsetType = UNSET
    transaction_id: str | None = None
    trace_id: str | None = None


class PushBody(Struct):
    """Messages for any queues and partitions."""

    items: list[PushItem]


class PushResult(Struct, gc=False, omit_defaults=False):
    """What became of one item."""

    index: int
    status: str
    message_id: str | None
    transaction_id: str | None
    partition_id: str | None
    trace_id: str | None
    queueName: str  # noqa: N815 (as clients of the first hour read it)
    error: str | None = None
    code: str | None = None


_body = msgspec.json.Decoder(PushBody)


async def push(broker: "Broker", request: Request) -> Response:
    """Push messages; each gets its own answer, in order."""
    items = (await request.json(_body)).items
    if len(items) > broker.settings.push_items_max:
        raise TooManyItems(f"the request has {len(items)} items; {broker.settings.push_items_max} is the most")
    if not items:
        return answer([], 201)
    messages = outgoing(items, request.producer)
    try:
        pushed: Sequence[Pushed | Refused] = await broker.engine.push(messages)
    except Refused as refusal:
        if len(messages) == 1:
            raise
        pushed = await _one_by_one(broker, messages)
        if all(isinstance(each, Refused) for each in pushed):
            raise refusal from None
    return answer(results(items, messages, pushed), 201)


def outgoing(items: Sequence[PushItem], producer: str | None) -> list[Outgoing]:
    """The items as messages; refuses what is no message at all."""
    messages = []
    for index, item in enumerate(items):
        payload = item.payload if item.payload is not UNSET else item.data
        if payload is UNSET:
            raise InvalidArgument(f"items[{index}] has no payload")
        trace_id = None
        if item.trace_id is not None:
            try:
                trace_id = UUID(item.trace_id)
            except ValueError:
                raise InvalidTraceId(f"the traceId of items[{index}] is not a UUID") from None
        partition = DEFAULT_PARTITION if item.partition is None else item.partition
        messages.append(Outgoing(item.queue, bytes(payload), partition, item.transaction_id, trace_id, producer))
    return messages


async def _one_by_one(broker: "Broker", messages: Sequence[Outgoing]) -> list[Pushed | Refused]:
    """One of them was refused: the others must not suffer. What is wrong is found without the database, if it can."""
    answers: dict[int, Pushed | Refused] = {}
    sound: dict[str, list[int]] = {}  # by queue: a full one stands alone
    for index, message in enumerate(messages):
        try:
            broker.engine.pusher.check([message])
            sound.setdefault(message.queue, []).append(index)
        except Refused as refusal:
            answers[index] = refusal
    for places in sound.values():
        try:
            pushed = await broker.engine.push([messages[place] for place in places])
            answers.update(zip(places, pushed, strict=True))
        except Refused as refusal:
            answers.update(dict.fromkeys(places, refusal))
    return [answers[index] for index in range(len(messages))]


def results(
    items: Sequence[PushItem], messages: Sequence[Outgoing], pushed: Sequence[Pushed | Refused]
) -> list[PushResult]:
    """One result per item, in order."""
    found = []
    moment = created_ms = None
    for index, (item, message, each) in enumerate(zip(items, messages, pushed, strict=True)):
        if isinstance(each, Refused):
            found.append(
                PushResult(
                    index, "failed", None, item.transaction_id, None, item.trace_id, item.queue, each.message, each.code
                )
            )
            continue
        if each.created_at is not moment:
            moment = each.created_at
            created_ms = milliseconds(moment)
        assert created_ms is not None
        id = wire.message_text(created_ms, each.partition_id, each.offset)
        found.append(
            PushResult(
                index,
                "duplicate" if each.duplicate else "queued",
                id,
                message.transaction_id or id,
                wire.partition_text(each.partition_id),
                item.trace_id,
                item.queue,
            )
        )
    return found
