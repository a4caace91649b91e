"""Queues, groups and the installation with an engine."""

from typing import TYPE_CHECKING

from msgspec.structs import asdict

from queenmq import __version__, model
from queenmq.client.administration import groups, queues, system
from queenmq.client.transports.postgres_table import HandlerTable, limited, text, uuid
from queenmq.engine import statistics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queenmq.client.transports.postgres import PostgresTransport as Postgres

# -- queues


async def configure(postgres: "Postgres", call: queues.Configure) -> queues.QueueSettings:
    """Create or change a queue."""
    admin = postgres.engine.admin
    found = await admin.configure_queue(call.queue, namespace=call.namespace, task=call.task, **call.options)
    await admin.default_partition(call.queue)  # as the server does: a queue is not without it
    return _settings(found)


async def list_queues(postgres: "Postgres", call: queues.ListQueues) -> list[queues.Queue]:
    """Queues and what they hold."""
    found, _ = await postgres.engine.statistics.queues(
        namespace=call.namespace,
        task=call.task,
        search=call.search,
        limit=limited(call.limit, skip=call.skip),
        offset=call.skip,
    )
    return [
        queues.Queue(
            name=settings.name,
            namespace=settings.namespace,
            task=settings.task,
            priority=settings.priority,
            created_at=settings.created_at,
            partitions=totals.partitions,
            messages=_totals(totals),
            counted_at=totals.counted_at,
        )
        for settings, totals in found
    ]


async def describe_queue(postgres: "Postgres", call: queues.DescribeQueue) -> queues.QueueDescription:
    """One queue."""
    settings, totals = await postgres.engine.statistics.queue(call.queue)
    return queues.QueueDescription(
        name=settings.name,
        namespace=settings.namespace,
        task=settings.task,
        created_at=settings.created_at,
        settings=_settings(settings),
        messages=_totals(totals),
        counted_at=totals.counted_at,
        partitions=totals.partitions,
    )


async def delete_queue(postgres: "Postgres", call: queues.DeleteQueue) -> bool:
    """Remove a queue."""
    return await postgres.engine.admin.delete_queue(call.queue)


async def clear_queue(postgres: "Postgres", call: queues.ClearQueue) -> int:
    """Drop what a queue holds."""
    return await postgres.engine.admin.clear_queue(call.queue)


async def get_backlog(postgres: "Postgres", call: queues.GetBacklog) -> queues.Backlog:
    """What is left to do."""
    found = await postgres.engine.statistics.pending(call.queue, call.group, limited(call.limit, 10_000))
    return queues.Backlog(
        pending=found[0].pending_total if found else 0,
        partitions_pending=found[0].partitions_pending if found else 0,
        partitions=[queues.PartitionBacklog(partition=each.partition, pending=each.pending) for each in found],
    )


async def list_partitions(postgres: "Postgres", call: queues.ListPartitions) -> queues.PartitionPage:
    """Partitions and what they hold."""
    queue_id = None if call.queue is None else (await postgres.engine.admin.queue(call.queue)).id
    after_id = 0 if call.cursor is None else uuid(call.cursor, "the cursor").int
    found = await postgres.engine.statistics.partitions(queue_id, after_id, limited(call.limit))
    return queues.PartitionPage(
        partitions=[
            queues.Partition(
                id=text(each.partition_id),
                name=each.partition,
                queue=each.queue,
                created_at=each.created_at,
                last_message_at=each.last_message_at,
                pushed=each.pushed,
                messages=_totals(each),
            )
            for each in found
        ],
        cursor=text(found[-1].partition_id) if len(found) == call.limit else None,
    )


async def list_namespaces(postgres: "Postgres", _call: queues.ListNamespaces) -> list[queues.Label]:
    """Namespaces."""
    return _labels(await postgres.engine.statistics.namespaces())


async def list_tasks(postgres: "Postgres", _call: queues.ListTasks) -> list[queues.Label]:
    """Tasks."""
    return _labels(await postgres.engine.statistics.tasks())


def _settings(found: model.QueueSettings) -> queues.QueueSettings:
    return queues.QueueSettings(**{name: getattr(found, name) for name in queues.OPTION_NAMES})


def _totals(found: statistics.Totals | statistics.PartitionTotals) -> queues.Totals:
    return queues.Totals(
        stored=found.stored,
        pending=found.pending,
        processing=found.leased,
        completed=found.stored - found.pending - found.leased,
        retrying=found.retrying,
        dead_letters=found.dead_letters if isinstance(found, statistics.Totals) else 0,
    )


def _labels(found: "Sequence[tuple[str, int, statistics.Totals]]") -> list[queues.Label]:
    return [
        queues.Label(name=name, queues=count, partitions=totals.partitions, messages=_totals(totals))
        for name, count, totals in found
    ]


# -- groups


async def list_groups(postgres: "Postgres", call: groups.ListGroups) -> list[groups.Group]:
    """Groups and how far they are behind."""
    return [
        groups.Group(
            name=each.group_name,
            queue=each.queue,
            members=each.members,
            lag_messages=each.messages,
            lag_seconds=each.seconds,
            partitions_with_lag=each.partitions_with_lag,
            state=each.state,
            subscription_mode=each.mode,
            subscription_from=each.since,
            subscribed_at=each.subscribed_at,
        )
        for each in await postgres.engine.admin.list_groups(call.lag_seconds_min)
    ]


async def describe_group(postgres: "Postgres", call: groups.DescribeGroup) -> list[groups.GroupPlace]:
    """Where a group stands."""
    return [
        groups.GroupPlace(
            queue=each.queue,
            partition=each.partition,
            lag_messages=each.messages,
            lag_seconds=each.seconds,
            lease_id=None if each.lease_id is None else str(each.lease_id),
            last_served_at=each.last_served_at,
            completed=each.completed,
        )
        for each in await postgres.engine.admin.describe_group(call.group, limited(call.limit, 10_000))
    ]


async def seek(postgres: "Postgres", call: groups.Seek) -> int:
    """Move a group."""
    return await postgres.engine.admin.seek_group(
        call.group, call.queue, partition=call.partition, offset=call.offset, timestamp=call.timestamp, to=call.to
    )


async def set_subscription(postgres: "Postgres", call: groups.SetSubscription) -> int:
    """Change what a group subscribed to."""
    return await postgres.engine.admin.set_subscription(call.group, None, call.since)


async def delete_group(postgres: "Postgres", call: groups.DeleteGroup) -> int:
    """Forget a group."""
    return await postgres.engine.admin.delete_group(call.group, call.queue, with_subscription=call.with_subscription)


# -- the installation


async def ping(postgres: "Postgres", _call: system.Ping) -> None:
    """Ask PostgreSQL."""
    await postgres.engine.database.value("select 1")


async def get_version(_postgres: "Postgres", _call: system.GetVersion) -> str:
    """Ours."""
    return __version__


async def get_overview(postgres: "Postgres", _call: system.GetOverview) -> system.Overview:
    """All of it in a few numbers."""
    found = await postgres.engine.statistics.overview()
    return system.Overview(
        queues=found.queues,
        partitions=found.totals.partitions,
        namespaces=found.namespaces,
        tasks=found.tasks,
        groups=found.groups,
        leases=found.leases,
        messages=_totals(found.totals),
        counted_at=found.totals.counted_at,
    )


async def get_traffic(postgres: "Postgres", call: system.GetTraffic) -> list[system.TrafficStep]:
    """What happened."""
    found = await postgres.engine.statistics.traffic(
        call.since, call.until, call.interval, queue=call.queue, namespace=call.namespace, task=call.task
    )
    return [system.TrafficStep(**asdict(each)) for each in found]


async def refresh_statistics(postgres: "Postgres", _call: system.RefreshStatistics) -> None:
    """Count."""
    await postgres.engine.statistics.refresh()


async def get_postgres(postgres: "Postgres", _call: system.GetPostgres) -> system.Postgres:
    """How PostgreSQL is doing."""
    database, tables = await postgres.engine.statistics.postgres()
    return system.Postgres(database=database, tables=tables)


async def get_maintenance(postgres: "Postgres", _call: system.GetMaintenance) -> system.Maintenance:
    """Whether pushes are kept back; without a server there is no spool."""
    await postgres.presence.ask()
    return system.Maintenance(enabled=postgres.presence.push_paused)


async def set_maintenance(postgres: "Postgres", call: system.SetMaintenance) -> system.Maintenance:
    """Keep pushes back."""
    await postgres.presence.set_push_paused(paused=call.enabled)
    return system.Maintenance(enabled=call.enabled)


async def get_pop_maintenance(postgres: "Postgres", _call: system.GetPopMaintenance) -> bool:
    """Whether deliveries are paused."""
    await postgres.presence.ask()
    return postgres.presence.pop_paused


async def set_pop_maintenance(postgres: "Postgres", call: system.SetPopMaintenance) -> bool:
    """Pause deliveries."""
    await postgres.presence.set_pop_paused(paused=call.enabled)
    return call.enabled


QUEUES: HandlerTable = {
    queues.Configure: configure,
    queues.ListQueues: list_queues,
    queues.DescribeQueue: describe_queue,
    queues.DeleteQueue: delete_queue,
    queues.ClearQueue: clear_queue,
    queues.GetBacklog: get_backlog,
    queues.ListPartitions: list_partitions,
    queues.ListNamespaces: list_namespaces,
    queues.ListTasks: list_tasks,
    groups.ListGroups: list_groups,
    groups.DescribeGroup: describe_group,
    groups.Seek: seek,
    groups.SetSubscription: set_subscription,
    groups.DeleteGroup: delete_group,
    system.Ping: ping,
    system.GetVersion: get_version,
    system.GetOverview: get_overview,
    system.GetTraffic: get_traffic,
    system.RefreshStatistics: refresh_statistics,
    system.GetPostgres: get_postgres,
    system.GetMaintenance: get_maintenance,
    system.SetMaintenance: set_maintenance,
    system.GetPopMaintenance: get_pop_maintenance,
    system.SetPopMaintenance: set_pop_maintenance,
}
