"""Consumer groups."""

from typing import Literal

from queenmq.api import groups
from queenmq.errors import InvalidArgument
from queenmq.service.host import Host


async def list_groups(host: Host, call: groups.ListGroups) -> list[groups.Group]:
    """Call queen.list_groups."""
    return [
        groups.Group(
            name=each.group_name,
            queue=each.queue,
            topics=[each.queue],
            members=each.members,
            lag_messages=each.messages,
            lag_seconds=each.seconds,
            partitions_with_lag=each.partitions_with_lag,
            state=each.state,
            subscription_mode=each.mode,
            subscription_from=each.since,
            subscribed_at=each.subscribed_at,
            paused=each.paused,
        )
        for each in await host.engine.admin.list_groups(call.lag_seconds_min)
    ]


async def describe_group(host: Host, call: groups.DescribeGroup) -> dict[str, groups.GroupPlaces]:
    """Call queen.describe_group."""
    queues: dict[str, groups.GroupPlaces] = {}
    for each in await host.engine.admin.describe_group(call.group, call.limit):
        place = groups.GroupPlace(
            partition=each.partition,
            lag_messages=each.messages,
            lag_seconds=each.seconds,
            leased=each.lease_id is not None,
            lease_id=None if each.lease_id is None else str(each.lease_id),
            last_served_at=each.last_served_at,
            completed=each.completed,
        )
        queues.setdefault(each.queue, groups.GroupPlaces([])).partitions.append(place)
    return queues


async def seek(host: Host, call: groups.Seek) -> groups.GroupMoved:
    """Call queen.seek_group."""
    if (call.offset is None) != (call.partition is None):
        raise InvalidArgument("an offset and a partition go together: an offset counts in one partition")
    return await _move(host, call)


async def seek_partition(host: Host, call: groups.SeekPartition) -> groups.GroupMoved:
    """Call queen.seek_group for one partition."""
    return await _move(host, call)


async def _move(host: Host, call: groups.Seek | groups.SeekPartition) -> groups.GroupMoved:
    if call.to_end + call.to_beginning + (call.timestamp is not None) + (call.offset is not None) != 1:
        raise InvalidArgument("name exactly one of toEnd, toBeginning, timestamp and offset")
    to: Literal["beginning", "end"] | None = "end" if call.to_end else "beginning" if call.to_beginning else None
    moved = await host.engine.admin.seek_group(
        call.group, call.queue, partition=call.partition, offset=call.offset, timestamp=call.timestamp, to=to
    )
    return groups.GroupMoved(
        success=True,
        group=call.group,
        queue=call.queue,
        partition=call.partition,
        partitions_moved=moved,
        timestamp=call.timestamp,
        to_end=call.to_end,
    )


async def set_subscription(host: Host, call: groups.SetSubscription) -> groups.SubscriptionSet:
    """Call queen.set_subscription."""
    changed = await host.engine.admin.set_subscription(call.group, None, call.since)
    return groups.SubscriptionSet(success=True, group=call.group, since=call.since, subscriptions_changed=changed)


async def delete_group(host: Host, call: groups.DeleteGroup) -> groups.GroupDeleted:
    """Call queen.delete_group."""
    count = await host.engine.admin.delete_group(call.group, call.queue, with_subscription=call.with_subscription)
    return groups.GroupDeleted(
        success=True, group=call.group, queue=call.queue, queues=count, with_subscription=call.with_subscription
    )
