"""Consumer groups: `queen.groups`."""

from datetime import datetime
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from queenmq.api import groups
from queenmq.errors import InvalidArgument

if TYPE_CHECKING:
    from queenmq.client.queen import AsyncQueen


class AsyncGroups:
    """Where groups stand; move them, forget them."""

    def __init__(self, queen: "AsyncQueen") -> None:
        self._queen = queen

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._queen!r}>"

    async def lag(self, group: str, *, limit: int = 1_000) -> list[groups.GroupPlace]:
        """How far a group is behind, by queue and partition, furthest behind first."""
        found = await self._queen.call(groups.DescribeGroup(group, limit))
        return [replace(place, queue=queue) for queue, places in found.items() for place in places.partitions]

    async def seek(
        self,
        group: str,
        queue: str,
        *,
        partition: str | None = None,
        to: Literal["beginning", "end"] | None = None,
        timestamp: datetime | None = None,
        offset: int | None = None,
    ) -> int:
        """Move a group to an end, a moment, or an offset of one partition; answers how many partitions moved."""
        if (to is not None) + (timestamp is not None) + (offset is not None) != 1:
            raise InvalidArgument("say where to move: one of to, timestamp and offset")
        if offset is not None and partition is None:
            raise InvalidArgument("an offset counts in one partition: name it too")
        if partition is None:
            call = groups.Seek(
                group=group, queue=queue, to_end=to == "end", to_beginning=to == "beginning", timestamp=timestamp
            )
            return (await self._queen.call(call)).partitions_moved
        within = groups.SeekPartition(
            group=group,
            queue=queue,
            partition=partition,
            to_end=to == "end",
            to_beginning=to == "beginning",
            timestamp=timestamp,
            offset=offset,
        )
        return (await self._queen.call(within)).partitions_moved

    async def set_subscription(self, group: str, since: datetime) -> int:
        """Change since when a group reads partitions that it has not reached yet; answers how many changed."""
        return (await self._queen.call(groups.SetSubscription(group, since))).subscriptions_changed

    async def delete(self, group: str, queue: str | None = None, *, with_subscription: bool = True) -> int:
        """Forget where a group stands, on one queue or on all; answers on how many queues it had been."""
        return (await self._queen.call(groups.DeleteGroup(group, queue, with_subscription))).queues

    async def list(self, *, lag_seconds_min: int = 0) -> list[groups.Group]:
        """Every group on every queue with its lag; only those that are this far behind."""
        return await self._queen.call(groups.ListGroups(lag_seconds_min))
