"""Consumer groups: where they stand; move them, forget them."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from queenmq.client.calls import Call


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
    """A group on a queue: how far it is behind, and what it subscribed to; `members` are the leases it holds."""

    name: str
    queue: str
    members: int
    lag_messages: int
    lag_seconds: float
    partitions_with_lag: int
    state: str
    subscription_mode: str
    subscription_from: datetime | None
    subscribed_at: datetime


class GroupPlace(Struct, frozen=True, kw_only=True):
    """Where a group stands in a partition; `lease_id` while somebody holds it."""

    queue: str
    partition: str
    lag_messages: int
    lag_seconds: float
    lease_id: str | None
    last_served_at: datetime | None
    completed: int


class ListGroups(Call[list[Group]], frozen=True):
    """Every group on every queue; only those whose oldest unfinished message is this old."""

    lag_seconds_min: int = 0


class DescribeGroup(Call[list[GroupPlace]], frozen=True):
    """Where a group stands, by queue and partition, furthest behind first."""

    group: str
    limit: int


class Seek(Call[int], frozen=True, kw_only=True):
    """Move a group: to an end, a moment, or an offset of one partition; answers how many partitions moved."""

    group: str
    queue: str
    partition: str | None
    to: Literal["beginning", "end"] | None
    timestamp: datetime | None
    offset: int | None


class SetSubscription(Call[int], frozen=True):
    """Change since when a group reads partitions that it has not reached yet; answers how many changed."""

    group: str
    since: datetime


class DeleteGroup(Call[int], frozen=True):
    """Forget where a group stands, on one queue or on all; answers on how many queues it had been."""

    group: str
    queue: str | None
    with_subscription: bool
