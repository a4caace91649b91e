"""/dlq: look at dead letters, deliver them again, throw them away."""

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from queenmq.broker import wire
from queenmq.broker.http import Request, Response, answer
from queenmq.errors import InvalidArgument, TooManyItems
from queenmq.model import DeadLetter, Headers

if TYPE_CHECKING:
    from queenmq.broker.app import Broker

LIMIT, LIMIT_MAX = 100, 1_000
OFFSET_MAX = 10_000_000
REDRIVE_MAX = 10_000

FILTER_QUERY = {
    "queue": "only dead letters of this queue",
    "consumerGroup": "only those that this group gave up",
}
LIST_QUERY = {
    **FILTER_QUERY,
    "partition": "only those of this partition",
    "from": "only those given up at this moment or later",
    "to": "only those given up before this moment",
    "limit": f"most dead letters to list, up to {LIMIT_MAX} ({LIMIT}); QUEEN_POP_BYTES_MAX may end a page earlier",
    "offset": "dead letters to pass over (0)",
}
PURGE_QUERY = {
    **FILTER_QUERY,
    "ids": f"only these, separated by commas, up to {REDRIVE_MAX}",
    "olderThan": "only those given up before this moment",
}


class DeadLetterView(Struct, rename="camel"):
    """A message that a group gave up; decrypted where the server has the key. `id` is the dead letter's own."""

    id: str
    message_id: str
    transaction_id: str
    partition_id: str
    partition: str
    queue: str
    offset: int
    consumer_group: str
    data: Raw
    error_message: str | None
    retry_count: int
    created_at: datetime
    failed_at: datetime
    producer_sub: str | None
    trace_id: UUID | None
    headers: Headers | UnsetType = UNSET

    @classmethod
    def of(cls, letter: DeadLetter) -> "DeadLetterView":
        """As clients read it."""
        return cls(
            str(UUID(int=letter.id)),
            str(letter.message_id),
            letter.transaction_id,
            wire.partition_text(letter.partition_id),
            letter.partition,
            letter.queue,
            letter.offset,
            letter.group_name,
            Raw(letter.payload),
            letter.error,
            letter.retry_count,
            letter.created_at,
            letter.failed_at,
            letter.producer,
            letter.trace_id,
            letter.headers or UNSET,
        )


class Pagination(Struct, rename="camel"):
    """Where this page lies."""

    limit: int
    offset: int
    total: int
    has_more: bool


class DeadLetterList(Struct):
    """A page of dead letters, newest first, and how many there are on all pages."""

    messages: list[DeadLetterView]
    total: int
    pagination: Pagination


class RedriveBody(Struct, rename="camel", forbid_unknown_fields=True):
    """Which dead letters to deliver again: what is named narrows the choice, and something must be."""

    ids: list[str] | None = None
    queue: str | None = None
    consumer_group: str | None = None
    limit: int = REDRIVE_MAX


class RedriveAnswer(Struct):
    """How many dead letters are delivered again."""

    redriven: int


class PurgeAnswer(Struct):
    """How many dead letters were deleted."""

    purged: int


_redrive = msgspec.json.Decoder(RedriveBody)


async def list_dead_letters(broker: "Broker", request: Request) -> Response:
    """List dead letters, newest first."""
    queue, group, partition = request.text("queue"), request.text("consumerGroup"), request.text("partition")
    since, until = request.moment("from"), request.moment("to")
    limit = request.number("limit", LIMIT, 1, LIMIT_MAX)
    offset = request.number("offset", 0, 0, OFFSET_MAX)
    admin = broker.engine.admin
    total = await admin.count_dead_letters(queue, group=group, partition=partition, since=since, until=until)
    found = await admin.list_dead_letters(
        queue, group=group, partition=partition, since=since, until=until, limit=limit, skip=offset
    )
    pagination = Pagination(limit, offset, total, offset + len(found) < total)
    return answer(DeadLetterList([DeadLetterView.of(each) for each in found], total, pagination))


async def redrive(broker: "Broker", request: Request) -> Response:
    """Deliver dead letters again to the groups that gave them up, the oldest first."""
    body = await request.json(_redrive)
    if body.ids is None and body.queue is None and body.consumer_group is None:
        raise InvalidArgument("say which dead letters to deliver again: ids, a queue or a consumerGroup")
    if not 1 <= body.limit <= REDRIVE_MAX:
        raise InvalidArgument(f"limit is a whole number from 1 to {REDRIVE_MAX}, not {body.limit}")
    count = await broker.engine.admin.redrive_dead_letters(
        None if body.ids is None else _ids(body.ids), queue=body.queue, group=body.consumer_group, limit=body.limit
    )
    return answer(RedriveAnswer(count))


async def purge(broker: "Broker", request: Request) -> Response:
    """Delete dead letters for good."""
    for name in PURGE_QUERY:
        if request.query.get(name) == "":  # taken for a missing one, it would delete more than was meant
            raise InvalidArgument(f"{name} is empty; leave it out, or say which dead letters are meant")
    ids = request.text("ids")
    count = await broker.engine.admin.purge_dead_letters(
        None if ids is None else _ids(ids.split(",")),
        queue=request.text("queue"),
        group=request.text("consumerGroup"),
        older_than=request.moment("olderThan"),
    )
    return answer(PurgeAnswer(count))


def _ids(texts: Iterable[str]) -> list[int]:
    found = [wire.uuid(text, "a dead letter's id").int for text in texts]
    if len(found) > REDRIVE_MAX:
        raise TooManyItems(f"the request names {len(found)} dead letters; {REDRIVE_MAX} is the most")
    return [id for id in found if id < 1 << 63]  # no other was ever given to a dead letter
