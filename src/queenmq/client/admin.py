"""Looking after queues and the installation: `queen.admin`."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Unpack

from queenmq.api import system
from queenmq.api.queues import (
    Backlog,
    Changes,
    ClearQueue,
    Configure,
    DeleteQueue,
    DescribeQueue,
    GetBacklog,
    Label,
    ListNamespaces,
    ListPartitions,
    ListQueues,
    ListTasks,
    PartitionPage,
    Pause,
    Queue,
    QueueDescription,
    QueueOptions,
    QueueSettings,
    Resume,
)
from queenmq.client.moment import aware
from queenmq.errors import InvalidSetting

if TYPE_CHECKING:
    from queenmq.client.queen import AsyncQueen

TRAFFIC_STEPS = 60  # told when no beginning is given


class AsyncAdmin:
    """What operators do with queues."""

    def __init__(self, queen: "AsyncQueen") -> None:
        self._queen = queen

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._queen!r}>"

    # -- queues

    async def configure(
        self, queue: str, *, namespace: str | None = None, task: str | None = None, **options: Unpack[QueueOptions]
    ) -> QueueSettings:
        """Create a queue, or change what is named of it: `configure("orders", lease_seconds=60, retry_limit=5)`."""
        changes = _changes(options)
        return (await self._queen.call(Configure(queue, changes, namespace, task))).settings

    async def queues(
        self,
        *,
        namespace: str | None = None,
        task: str | None = None,
        search: str | None = None,
        limit: int = 100,
        skip: int = 0,
    ) -> list[Queue]:
        """Queues by name, with what they hold; `search` is a part of the name."""
        asked = ListQueues(namespace=namespace, task=task, search=search, limit=limit, skip=skip)
        return (await self._queen.call(asked)).queues

    async def describe(self, queue: str) -> QueueDescription:
        """A queue with its settings and what it holds. Raises QueueNotFound."""
        return await self._queen.call(DescribeQueue(queue, limit=1))

    async def delete(self, queue: str) -> bool:
        """Remove a queue and all that is in it; False when there was none."""
        return (await self._queen.call(DeleteQueue(queue))).existed

    async def clear(self, queue: str) -> int:
        """Drop all stored messages of a queue; its partitions and groups stay. Answers how many."""
        return (await self._queen.call(ClearQueue(queue))).messages

    async def pause(self, queue: str, *, group: str | None = None) -> bool:
        """Deliver nothing more from a queue, or from it to one group, until `resume`; False if that was so before.

        Pushes go on, and long polls wait. Leases that consumers have can be acknowledged.
        """
        return (await self._queen.call(Pause(queue, group))).changed

    async def resume(self, queue: str, *, group: str | None = None) -> bool:
        """Deliver again from a queue, or from it to one group; False if it was not paused."""
        return (await self._queen.call(Resume(queue, group))).changed

    async def backlog(self, queue: str, *, group: str | None = None, limit: int = 100) -> Backlog:
        """How much is left to do for a group, or for the slowest one, and in which partitions."""
        return await self._queen.call(GetBacklog(queue, group, limit))

    async def partitions(
        self, queue: str | None = None, *, cursor: str | None = None, limit: int = 100
    ) -> PartitionPage:
        """Partitions in the order in which they were made, of one queue or of all, page by page."""
        return await self._queen.call(ListPartitions(queue, cursor, limit))

    async def namespaces(self) -> list[Label]:
        """The namespaces of all queues, with what these hold."""
        return (await self._queen.call(ListNamespaces())).namespaces

    async def tasks(self) -> list[Label]:
        """The tasks of all queues, with what these hold."""
        return (await self._queen.call(ListTasks())).tasks

    # -- the installation

    async def version(self) -> str:
        """The version of the Queen that answers."""
        return (await self._queen.call(system.GetHealth())).version

    async def overview(self) -> system.Overview:
        """All of it in a few numbers."""
        return await self._queen.call(system.GetOverview())

    async def traffic(
        self,
        interval: system.Interval = "minute",
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        queue: str | None = None,
        namespace: str | None = None,
        task: str | None = None,
    ) -> list[system.TrafficStep]:
        """What was pushed and what became of it, step by step; the last 60 steps unless you say otherwise."""
        until = aware(until, "until") or datetime.now(UTC)
        since = aware(since, "since") or until - timedelta(seconds=TRAFFIC_STEPS * system.INTERVAL_SECONDS[interval])
        call = system.GetTraffic(
            interval=interval, since=since, until=until, queue=queue, namespace=namespace, task=task
        )
        return (await self._queen.call(call)).steps

    async def refresh_statistics(self) -> None:
        """Count everything now, as upkeep does every minute."""
        await self._queen.call(system.RefreshStatistics())

    async def postgres(self) -> system.Postgres:
        """How PostgreSQL is doing."""
        return await self._queen.call(system.GetPostgres())

    async def maintenance(self) -> system.Maintenance:
        """Whether pushes are kept back, and what waits in the spool of the server that answers."""
        return await self._queen.call(system.GetMaintenance())

    async def set_maintenance(self, *, enabled: bool) -> system.Maintenance:
        """Keep pushes back, on every server of the database, or store them again."""
        return await self._queen.call(system.SetMaintenance(enabled))

    async def pop_maintenance(self) -> bool:
        """Whether deliveries are paused."""
        return (await self._queen.call(system.GetPopMaintenance())).enabled

    async def set_pop_maintenance(self, *, enabled: bool) -> bool:
        """Pause deliveries, on every server of the database, or go on."""
        return (await self._queen.call(system.SetPopMaintenance(enabled))).enabled


def _changes(options: QueueOptions) -> Changes:
    """The settings that are to change; refuses names that are not settings."""
    try:
        return Changes(**options)
    except TypeError as error:
        raise InvalidSetting(f"{error}; docs/queues.md lists the settings of a queue") from None
