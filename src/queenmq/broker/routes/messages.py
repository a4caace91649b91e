"""/messages: list them, look at one, keep it from everybody, deliver it again, give it up."""

from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from queenmq.broker import wire
from queenmq.broker.http import Request, Response, answer
from queenmq.errors import InvalidArgument
from queenmq.model import QUEUE_MODE, Headers, StoredMessage

if TYPE_CHECKING:
    from queenmq.broker.app import Broker

LIMIT, LIMIT_MAX = 100, 1_000
STATUSES = {"pending": "pending", "processing": "leased", "completed": "completed", "dead_letter": "dead_letter"}
STATUS_NAMES = {ours: theirs for theirs, ours in STATUSES.items()}

PAGE_QUERY = {
    "partition": "only messages of this partition",
    "status": "only messages that the group sees so: pending, processing, completed, dead_letter",
    "consumerGroup": f"the group whose statuses are told ({QUEUE_MODE})",
    "limit": f"most messages to list, up to {LIMIT_MAX} ({LIMIT}); QUEEN_POP_BYTES_MAX may end a page earlier",
    "cursor": "nextCursor of the page before",
}
LIST_QUERY = {
    "queue": "only messages of this queue",
    "ns": "only messages of queues of this namespace",
    "task": "only messages of queues of this task",
    **PAGE_QUERY,
}
GROUP_QUERY = {"consumerGroup": f"the group that is meant ({QUEUE_MODE})"}
RETRY_QUERY = {"consumerGroup": "the group that is meant; without it, every group that gave the message up"}


class MessageView(Struct, rename="camel"):
    """A stored message, and what a group has made of it; decrypted where the server has the key."""

    id: str
    transaction_id: str
    partition_id: str
    partition: str
    queue: str
    offset: int
    trace_id: UUID | None
    data: Raw
    status: str
    encrypted: bool
    created_at: datetime
    producer_sub: str | None
    headers: Headers | UnsetType = UNSET

    @classmethod
    def of(cls, message: StoredMessage) -> "MessageView":
        """As clients read it."""
        return cls(
            str(message.message_id),
            message.transaction_id,
            wire.partition_text(message.partition_id),
            message.partition,
            message.queue,
            message.offset,
            message.trace_id,
            Raw(message.payload),
            STATUS_NAMES[message.status or "pending"],
            message.encrypted,
            message.created_at,
            message.producer,
            message.headers or UNSET,
        )


class MessageList(Struct, rename="camel"):
    """A page of messages, newest first; nextCursor is null on the last one."""

    messages: list[MessageView]
    next_cursor: str | None


class DeleteMessageAnswer(Struct, rename="camel"):
    """How many groups will not get the message any more, and how many dead letters of it were purged."""

    success: bool
    partition_id: str
    transaction_id: str
    groups: int
    dead_letters: int


class RetryMessageAnswer(Struct, rename="camel"):
    """For how many groups the message is delivered again."""

    success: bool
    partition_id: str
    transaction_id: str
    groups: int


class GiveUpBody(Struct):
    """Why the message is given up."""

    error: str | None = None


class GiveUpAnswer(Struct, rename="camel"):
    """The message is a dead letter of this group now."""

    success: bool
    partition_id: str
    transaction_id: str
    consumer_group: str


_give_up = msgspec.json.Decoder(GiveUpBody)


async def list_messages(broker: "Broker", request: Request) -> Response:
    """List stored messages, newest first; pages do not shift when something is pushed."""
    status = request.text("status")
    if status is not None and status not in STATUSES:
        raise InvalidArgument(f"status is one of {', '.join(STATUSES)}, not {status[:40]!r}")
    limit = request.number("limit", LIMIT, 1, LIMIT_MAX)
    found = await broker.engine.admin.list_messages(
        request.path_parameters.get("queue") or request.text("queue"),
        partition=request.text("partition"),
        group=request.text("consumerGroup") or QUEUE_MODE,
        status=None if status is None else STATUSES[status],
        cursor=request.text("cursor"),
        limit=limit,
        namespace=request.text("ns"),
        task=request.text("task"),
    )
    cursor = found[-1].cursor if len(found) == limit or (found and found[-1].more) else None
    return answer(MessageList([MessageView.of(each) for each in found], cursor))


async def get_message(broker: "Broker", request: Request) -> Response:
    """Show a message by its partition and its transaction id or message id."""
    group = request.text("consumerGroup") or QUEUE_MODE
    return answer(MessageView.of(await broker.engine.admin.find_message(*_address(request)[1:], group)))


async def delete_message(broker: "Broker", request: Request) -> Response:
    """Let no group get a message any more, and purge its dead letters."""
    text, partition_id, name = _address(request)
    groups, dead_letters = await broker.engine.admin.delete_message(partition_id, name)
    return answer(DeleteMessageAnswer(True, text, name, groups, dead_letters))


async def retry_message(broker: "Broker", request: Request) -> Response:
    """Deliver a dead message again, to the groups that gave it up."""
    text, partition_id, name = _address(request)
    groups = await broker.engine.admin.retry_message(partition_id, name, request.text("consumerGroup"))
    return answer(RetryMessageAnswer(True, text, name, groups))


async def give_up_message(broker: "Broker", request: Request) -> Response:
    """Make a message a dead letter of a group that has not finished it."""
    text, partition_id, name = _address(request)
    group = request.text("consumerGroup") or QUEUE_MODE
    body = await request.json_or(GiveUpBody(), _give_up)
    await broker.engine.admin.dead_letter_message(partition_id, name, group, body.error)
    return answer(GiveUpAnswer(True, text, name, group))


def _address(request: Request) -> tuple[str, int, str]:
    """The partition as it is written and as a number, and the message in it."""
    path = request.path_parameters
    # A transaction id may contain slashes, a partition id cannot: the first one divides them.
    partition, _, name = f"{path['partition']}/{path['transaction']}".partition("/")
    return partition, wire.partition_number(partition), name
