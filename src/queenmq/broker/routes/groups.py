"""Consumer groups: look at them, move them, change what they subscribed to, forget them."""

from datetime import datetime
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct

from queenmq.broker.http import Request, Response, answer, moment
from queenmq.errors import InvalidArgument
from queenmq.model import GroupLine, GroupPlace

if TYPE_CHECKING:
    from queenmq.broker.app import Broker

LAG_SECONDS = 60
LAG_SECONDS_MAX = 315_360_000
PARTITIONS = 1_000
PARTITIONS_MAX = 10_000

LAGGING_QUERY = {"minLagSeconds": f"groups whose oldest unfinished message is at least this old; {LAG_SECONDS}"}
PLACES_QUERY = {"limit": f"partitions per queue, furthest behind first; {PARTITIONS}, at most {PARTITIONS_MAX}"}
DELETE_QUERY = {"deleteMetadata": "whether to forget the subscription too; true"}


class Group(Struct, rename="camel"):
    """A group on a queue. `members` are the leases that somebody holds."""

    name: str
    queue_name: str
    topics: list[str]
    members: int
    total_lag: int
    max_time_lag: float
    partitions_with_lag: int
    state: str
    subscription_mode: str
    subscription_timestamp: datetime | None
    subscription_created_at: datetime


class Place(Struct, rename="camel"):
    """A group in a partition. `workerId` is the lease that is live."""

    partition: str
    offset_lag: int
    time_lag_seconds: float
    lease_active: bool
    worker_id: str | None
    last_consumed_at: datetime | None
    total_consumed: int


class Places(Struct):
    """A group on a queue, partition by partition."""

    partitions: list[Place]


class PartitionSeekBody(Struct, rename="camel"):
    """Where to move: exactly one of these."""

    to_end: bool = False
    to_beginning: bool = False
    timestamp: str | None = None
    offset: int | None = None


class SeekBody(PartitionSeekBody, rename="camel"):
    """Where to move: exactly one of these; an offset counts in one partition, and names it."""

    partition: str | None = None


class SeekAnswer(Struct, rename="camel"):
    """What moved."""

    success: bool
    consumer_group: str
    queue_name: str
    partition: str | None
    partitions_updated: int
    target_timestamp: datetime | None
    seek_to_end: bool


class SubscriptionBody(Struct, rename="camel"):
    """Since when a group reads partitions that it has not reached yet."""

    subscription_timestamp: str


class SubscriptionAnswer(Struct, rename="camel"):
    """How many subscriptions changed."""

    success: bool
    consumer_group: str
    subscription_timestamp: datetime
    subscriptions_updated: int


class DeleteAnswer(Struct, rename="camel"):
    """On how many queues the group had been."""

    success: bool
    consumer_group: str
    queue_name: str | None
    queues_deleted: int
    metadata_deleted: bool


_seek = msgspec.json.Decoder(SeekBody)
_partition_seek = msgspec.json.Decoder(PartitionSeekBody)
_subscription = msgspec.json.Decoder(SubscriptionBody)


async def list_groups(broker: "Broker", _request: Request) -> Response:
    """Every group on every queue, with its lag and its subscription."""
    return answer([_group(line) for line in await broker.engine.admin.list_groups()])


async def list_lagging(broker: "Broker", request: Request) -> Response:
    """The groups that are behind by more than some seconds."""
    seconds = request.number("minLagSeconds", LAG_SECONDS, 0, LAG_SECONDS_MAX)
    return answer([_group(line) for line in await broker.engine.admin.list_groups(seconds)])


async def describe_group(broker: "Broker", request: Request) -> Response:
    """Where a group stands, by queue and partition."""
    limit = request.number("limit", PARTITIONS, 1, PARTITIONS_MAX)
    queues: dict[str, Places] = {}
    for place in await broker.engine.admin.describe_group(request.path_parameters["group"], limit):
        queues.setdefault(place.queue, Places([])).partitions.append(_place(place))
    return answer(queues)


async def seek(broker: "Broker", request: Request) -> Response:
    """Move a group on a queue to the end, the beginning, a moment, or an offset of one partition."""
    body = await request.json(_seek)
    if (body.offset is None) != (body.partition is None):
        raise InvalidArgument("an offset and a partition go together: an offset counts in one partition")
    return await _move(broker, request, body, body.partition)


async def seek_partition(broker: "Broker", request: Request) -> Response:
    """Move a group in one partition."""
    return await _move(broker, request, await request.json(_partition_seek), request.path_parameters["partition"])


async def set_subscription(broker: "Broker", request: Request) -> Response:
    """Change since when a group reads partitions that it has not reached yet, on all its queues."""
    group = request.path_parameters["group"]
    since = moment((await request.json(_subscription)).subscription_timestamp, "subscriptionTimestamp")
    return answer(
        SubscriptionAnswer(True, group, since, await broker.engine.admin.set_subscription(group, None, since))
    )


async def delete_group(broker: "Broker", request: Request) -> Response:
    """Forget where a group stands, on one queue or on all of them."""
    group, queue = request.path_parameters["group"], request.path_parameters.get("queue")
    with_subscription = request.flag("deleteMetadata", default=True)
    count = await broker.engine.admin.delete_group(group, queue, with_subscription=with_subscription)
    return answer(DeleteAnswer(True, group, queue, count, with_subscription))


async def _move(broker: "Broker", request: Request, body: PartitionSeekBody, partition: str | None) -> Response:
    if body.to_end + body.to_beginning + (body.timestamp is not None) + (body.offset is not None) != 1:
        raise InvalidArgument("name exactly one of toEnd, toBeginning, timestamp and offset")
    group, queue = request.path_parameters["group"], request.path_parameters["queue"]
    timestamp = None if body.timestamp is None else moment(body.timestamp, "timestamp")
    to: Literal["beginning", "end"] | None = "end" if body.to_end else "beginning" if body.to_beginning else None
    moved = await broker.engine.admin.seek_group(
        group, queue, partition=partition, offset=body.offset, timestamp=timestamp, to=to
    )
    return answer(SeekAnswer(True, group, queue, partition, moved, timestamp, body.to_end))


def _group(line: GroupLine) -> Group:
    return Group(
        line.group_name,
        line.queue,
        [line.queue],
        line.members,
        line.messages,
        line.seconds,
        line.partitions_with_lag,
        line.state,
        line.mode,
        line.since,
        line.subscribed_at,
    )


def _place(place: GroupPlace) -> Place:
    return Place(
        place.partition,
        place.messages,
        place.seconds,
        place.lease_id is not None,
        None if place.lease_id is None else str(place.lease_id),
        place.last_served_at,
        place.completed,
    )
