"""POST /push: items for any partitions, or a plain array of payloads for one."""

import contextlib
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import groupby
from uuid import UUID

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from queenmq.broker import wire
from queenmq.broker.broker import Broker
from queenmq.broker.http import Request, Response, answer, decode
from queenmq.engine.postgres.outcome import OutcomeUnknown
from queenmq.errors import (
    DatabaseUnavailable,
    InvalidArgument,
    InvalidTraceId,
    Paused,
    QueenError,
    Refused,
    TooManyItems,
)
from queenmq.model import DEFAULT_PARTITION, Depth, Outgoing, Payloads, Pushed, PushedRun, id_prefix, message_text
from queenmq.service.ids import id_text


class PushItem(Struct, gc=False, rename="camel"):
    """A message to push; `data` is another name of `payload`."""

    queue: str
    partition: str | None = None
    payload: Raw | UnsetType = UNSET
    data: Raw | UnsetType = UNSET
    transaction_id: str | None = None
    trace_id: str | None = None
    headers: wire.GivenHeaders = None


class PushBody(Struct):
    """Messages for any queues and partitions; `atomic`: one that is refused takes all others with it."""

    items: list[PushItem]
    atomic: bool = False


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
    queueDepth: int | UnsetType | None = UNSET  # noqa: N815 (as the field beside it)
    remainingCapacity: int | UnsetType | None = UNSET  # noqa: N815


Results = list[PushResult]


class PushedRunResult(Struct):
    """What became of `count` payloads in a row; `message_id` is that of the first, and the others count up from it."""

    status: str
    count: int
    first_offset: int | None
    message_id: str | None


class ArrayResult(Struct):
    """What became of an array of payloads: mostly one run."""

    queueName: str  # noqa: N815 (as in a push of items)
    partition_id: str | None
    runs: list[PushedRunResult]
    queueDepth: int | UnsetType | None = UNSET  # noqa: N815 (as in a push of items)
    remainingCapacity: int | UnsetType | None = UNSET  # noqa: N815


class Buffered(Enum):
    """A message that waits in the spool: nothing is known of it yet."""

    BUFFERED = "buffered"


BUFFERED = Buffered.BUFFERED

_body = msgspec.json.Decoder(PushBody)


QUERY = {"capacity": "true: also answer how many messages wait in the queue and how many more it takes"}
ARRAY_QUERY = QUERY | {"transactionId": "the first payload gets the id <this>-0, the next <this>-1, and so on"}


async def push_array(broker: Broker, request: Request) -> Response:
    """Push an array of payloads to one partition, all or none."""
    queue = request.path_parameters["queue"]
    with_capacity = request.flag("capacity")
    body = await request.body()
    _check_count(broker, body, None)
    messages = Payloads(
        queue,
        request.path_parameters.get("partition", DEFAULT_PARTITION),
        body,
        transaction_id=request.text("transactionId"),
        producer=request.producer,
    )
    if len(messages) > broker.settings.push_items_max:
        raise _too_many(broker)
    pushed = await _store(broker, messages) if messages else []
    broker.metrics.pushed += len(pushed)
    runs = list(_runs(pushed))
    first = next(iter(pushed), None)
    partition = id_text(first.partition_id) if isinstance(first, Pushed) else None
    result = ArrayResult(queue, partition, runs)
    if with_capacity:
        await _add_capacity(broker, [result])
    return answer(result, 202 if isinstance(first, Buffered) else 201)


def _runs(pushed: Sequence[Pushed | Buffered]) -> Iterator[PushedRunResult]:
    """What follows each other in the log as it does in the request, and has the same status, in one line."""
    if isinstance(pushed, PushedRun):
        first = message_text(pushed.created_at, pushed.partition_id, pushed.offsets.start)
        yield PushedRunResult("queued", len(pushed), pushed.offsets.start, first)
        return
    for _, group in groupby(enumerate(pushed), _run_of):
        own = [each for _, each in group]
        if isinstance(own[0], Buffered):
            yield PushedRunResult(own[0].value, len(own), None, None)
        else:
            status = "duplicate" if own[0].duplicate else "queued"
            id = message_text(own[0].created_at, own[0].partition_id, own[0].offset)
            yield PushedRunResult(status, len(own), own[0].offset, id)


def _run_of(placed: tuple[int, Pushed | Buffered]) -> object:
    place, each = placed
    return each if isinstance(each, Buffered) else (each.duplicate, each.created_at, each.offset - place)


def _check_count(broker: Broker, body: bytes, name: str | None) -> None:
    if wire.is_longer(body, name, broker.settings.push_items_max):
        raise _too_many(broker)


def _too_many(broker: Broker) -> TooManyItems:
    return TooManyItems(f"the request has more than {broker.settings.push_items_max} items")


async def push(broker: Broker, request: Request) -> Response:
    """Push messages; each gets its own answer, in order."""
    text = await request.body()
    _check_count(broker, text, "items")
    body = decode(text, _body)
    del text  # the items hold it as long as they need it
    with_capacity = request.flag("capacity")
    items = body.items
    if len(items) > broker.settings.push_items_max:
        raise _too_many(broker)
    if not items:
        return answer([], 201)
    messages = outgoing(items, request.producer)
    for item in items:
        item.payload = item.data = UNSET  # when no item holds a part of it, the memory of the body is free
    refused = 0
    try:
        pushed: Sequence[Pushed | QueenError | Buffered] = await _store(broker, messages)
    except Refused as refusal:
        if len(messages) == 1 or body.atomic:
            raise
        pushed = await _one_by_one(broker, messages)
        refused = sum(isinstance(each, QueenError) for each in pushed)
        if refused == len(pushed):
            raise refusal from None
    told = results(items, messages, pushed)
    broker.metrics.pushed += len(told) - refused
    if with_capacity:
        await _add_capacity(broker, [each for each in told if each.error is None])
    return answer(told, 202 if Buffered in map(type, pushed) else 201)


async def _add_capacity(broker: Broker, results: Sequence[PushResult | ArrayResult]) -> None:
    """Tell how full the queues are now. The messages are stored already, so a failure here leaves nulls."""
    depths: dict[str, Depth] = {}
    with contextlib.suppress(QueenError):
        depths = await broker.engine.admin.depths({each.queueName for each in results})
    for each in results:
        depth = depths.get(each.queueName)
        each.queueDepth = None if depth is None else depth.depth
        each.remainingCapacity = None if depth is None else depth.remaining


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
        messages.append(
            Outgoing(item.queue, bytes(payload), partition, item.transaction_id, trace_id, producer, item.headers)
        )
    return messages


async def _store(broker: Broker, messages: Sequence[Outgoing]) -> Sequence[Pushed | Buffered]:
    """Push, or keep in the spool what PostgreSQL cannot take now."""
    spool = broker.spool
    if spool is None:
        if broker.presence.push_paused:
            raise Paused()
        return await broker.engine.push(messages)
    required, mark = False, None
    while True:
        if not required and not spool.in_use:
            try:
                return await broker.engine.push(messages)
            except DatabaseUnavailable as away:
                broker.presence.doubt()
                required = True
                mark = away.mark if isinstance(away, OutcomeUnknown) else None
        broker.engine.pusher.check(messages)
        if await spool.append(messages, required=required, mark=mark):
            return [BUFFERED] * len(messages)


async def _one_by_one(broker: Broker, messages: Sequence[Outgoing]) -> list[Pushed | QueenError | Buffered]:
    """One of them was refused: the others must not suffer. What is wrong is found without the database, if it can."""
    answers: dict[int, Pushed | QueenError | Buffered] = {}
    sound: dict[str, list[int]] = {}  # by queue: a full one stands alone
    for index, message in enumerate(messages):
        try:
            broker.engine.pusher.check([message])
            sound.setdefault(message.queue, []).append(index)
        except Refused as refusal:
            answers[index] = refusal
    for places in sound.values():
        try:
            pushed = await _store(broker, [messages[place] for place in places])
            answers.update(zip(places, pushed, strict=True))
        except QueenError as error:
            answers.update(dict.fromkeys(places, error))
    return [answers[index] for index in range(len(messages))]


def results(
    items: Sequence[PushItem], messages: Sequence[Outgoing], pushed: Sequence[Pushed | QueenError | Buffered]
) -> list[PushResult]:
    """One result per item, in order."""
    found = []
    for index, (item, message, each) in enumerate(zip(items, messages, pushed, strict=True)):
        if not isinstance(each, Pushed):
            found.append(_not_stored(index, item, each))
            continue
        partition_id = each.partition_id
        id = f"{id_prefix(each.created_at, partition_id)}{each.offset:010x}"
        found.append(
            PushResult(
                index,
                "duplicate" if each.duplicate else "queued",
                id,
                message.transaction_id or id,
                id_text(partition_id),
                item.trace_id,
                item.queue,
            )
        )
    return found


def _not_stored(index: int, item: PushItem, why: QueenError | Buffered) -> PushResult:
    if isinstance(why, Buffered):
        return PushResult(index, why.value, None, item.transaction_id, None, item.trace_id, item.queue)
    return PushResult(
        index, "failed", None, item.transaction_id, None, item.trace_id, item.queue, why.message, why.code
    )
