"""Consumer groups: where they stand; move them, change what they subscribed to, delete them."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from queenmq.api.call import Call, Endpoint, LongLimit

Moment = Annotated[datetime, Meta(tz=True)]
LagSeconds = Annotated[
    int, Meta(ge=0, le=315_360_000, description="only groups whose oldest unfinished message is this old")
]


class Group(
    Struct,
    frozen=True,
    kw_only=True,
    rename={
        "queue": "queueName",
        "lag_messages": "totalLag",
        "lag_seconds": "maxTimeLag",
        "partitions_with_lag": "partitionsWithLag",
        "subscription_mode": "subscriptionMode",
        "subscription_from": "subscriptionTimestamp",
        "subscribed_at": "subscriptionCreatedAt",
    },
):
    """A group on a queue: how far it is behind, and what it subscribed to; `members` are the leases it holds.

    `paused`: deliveries of the queue, or to the group, are paused.
    """

    name: str
    queue: str
    topics: list[str]
    members: int
    lag_messages: int
    lag_seconds: float
    partitions_with_lag: int
    state: str
    subscription_mode: str
    subscription_from: datetime | None
    subscribed_at: datetime
    paused: bool


class GroupPlace(
    Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={
        "lag_messages": "offsetLag",
        "lag_seconds": "timeLagSeconds",
        "leased": "leaseActive",
        "lease_id": "workerId",
        "last_served_at": "lastConsumedAt",
        "completed": "totalConsumed",
    },
):
    """Where a group stands in a partition, and the id of its live lease.

    Answers are grouped by queue and leave `queue` out; the SDK fills it in.
    """

    queue: str = ""
    partition: str
    lag_messages: int
    lag_seconds: float
    leased: bool
    lease_id: str | None
    last_served_at: datetime | None
    completed: int


class GroupPlaces(Struct, frozen=True):
    """Where a group stands in the partitions of a queue."""

    partitions: list[GroupPlace]


class GroupMoved(
    Struct,
    frozen=True,
    kw_only=True,
    rename={
        "group": "consumerGroup",
        "queue": "queueName",
        "partitions_moved": "partitionsUpdated",
        "timestamp": "targetTimestamp",
        "to_end": "seekToEnd",
    },
):
    """How many partitions the group has moved in."""

    success: bool
    group: str
    queue: str
    partition: str | None
    partitions_moved: int
    timestamp: datetime | None
    to_end: bool


class SubscriptionSet(
    Struct,
    frozen=True,
    kw_only=True,
    rename={
        "group": "consumerGroup",
        "since": "subscriptionTimestamp",
        "subscriptions_changed": "subscriptionsUpdated",
    },
):
    """How many subscriptions changed."""

    success: bool
    group: str
    since: datetime
    subscriptions_changed: int


class GroupDeleted(
    Struct,
    frozen=True,
    kw_only=True,
    rename={
        "group": "consumerGroup",
        "queue": "queueName",
        "queues": "queuesDeleted",
        "with_subscription": "metadataDeleted",
    },
):
    """On how many queues the group had been."""

    success: bool
    group: str
    queue: str | None
    queues: int
    with_subscription: bool


class ListGroups(Call[list[Group]], frozen=True, rename={"lag_seconds_min": "minLagSeconds"}):
    """List every group on every queue, with its lag and its subscription; or those that are behind."""

    endpoints = (
        Endpoint("GET", "/api/v1/consumer-groups", "read-only"),
        Endpoint("GET", "/api/v1/consumer-groups/lagging", "read-only", defaults={"lag_seconds_min": 60}),
    )
    lag_seconds_min: LagSeconds = 0


class DescribeGroup(Call[dict[str, GroupPlaces]], frozen=True):
    """Tell where a group stands, by queue and partition; the partitions that are furthest behind come first."""

    endpoints = (Endpoint("GET", "/api/v1/consumer-groups/{group}", "read-only"),)
    group: str
    limit: Annotated[LongLimit, Meta(description="how many partitions of each queue to list at most")] = 1_000


class Seek(Call[GroupMoved], frozen=True, kw_only=True, rename={"to_end": "toEnd", "to_beginning": "toBeginning"}):
    """Move a group on a queue to the end, the beginning, a moment, or an offset of one partition: exactly one."""

    endpoints = (Endpoint("POST", "/api/v1/consumer-groups/{group}/queues/{queue}/seek", "admin"),)
    group: str
    queue: str
    to_end: bool = False
    to_beginning: bool = False
    timestamp: Moment | None = None
    partition: str | None = None
    offset: int | None = None


class SeekPartition(
    Call[GroupMoved], frozen=True, kw_only=True, rename={"to_end": "toEnd", "to_beginning": "toBeginning"}
):
    """Move a group in one partition to the end, the beginning, a moment, or an offset: exactly one."""

    endpoints = (
        Endpoint("POST", "/api/v1/consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek", "admin"),
    )
    group: str
    queue: str
    partition: str
    to_end: bool = False
    to_beginning: bool = False
    timestamp: Moment | None = None
    offset: int | None = None


class SetSubscription(Call[SubscriptionSet], frozen=True, rename={"since": "subscriptionTimestamp"}):
    """Change since when a group reads partitions that it has not reached yet, on all its queues."""

    endpoints = (Endpoint("POST", "/api/v1/consumer-groups/{group}/subscription", "admin"),)
    group: str
    since: Moment


class DeleteGroup(Call[GroupDeleted], frozen=True, rename={"with_subscription": "deleteMetadata"}):
    """Delete where a group stands, on one queue or on all queues."""

    endpoints = (
        Endpoint("DELETE", "/api/v1/consumer-groups/{group}/queues/{queue}", "admin"),
        Endpoint("DELETE", "/api/v1/consumer-groups/{group}", "admin"),
    )
    repeatable = False
    group: str
    queue: Annotated[str | None, Meta(description="only on this queue")] = None
    with_subscription: Annotated[bool, Meta(description="whether to delete the subscription too")] = True
