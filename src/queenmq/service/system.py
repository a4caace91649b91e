"""The installation as a whole."""

import os
import resource
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from time import monotonic

from queenmq import __version__
from queenmq.api import system
from queenmq.api.queues import DescribeQueue
from queenmq.engine import statistics
from queenmq.errors import InvalidTimestamp
from queenmq.service.host import Host
from queenmq.service.queues import describe_queue, message_totals

STARTED = monotonic()
MAXRSS_BYTES = 1 if sys.platform == "darwin" else 1024
GROUPS_MAX = 1_000
STEPS: dict[system.Interval, int] = {"minute": 60, "hour": 24, "day": 30}  # if the call says no beginning


async def get_overview(host: Host, call: system.GetOverview) -> system.Overview:
    """Call queen.queue_totals for all queues."""
    found = await host.engine.statistics.overview()
    return system.Overview(
        queues=found.queues,
        partitions=found.totals.partitions,
        namespaces=found.namespaces,
        tasks=found.tasks,
        groups=found.groups,
        leases=found.leases,
        messages=message_totals(found.totals),
        counted_at=found.totals.counted_at,
    )


async def get_status(host: Host, call: system.GetStatus) -> system.Status:
    """Call queen.traffic, and what the overview calls."""
    time = _time_range(call.since, call.until, "minute")
    overview = await get_overview(host, system.GetOverview())
    steps = await host.engine.statistics.traffic(time.since, time.until, time.interval)
    return system.Status(time_range=time, overview=overview, steps=_steps(steps, time.interval))


async def get_queue_status(host: Host, call: system.GetQueueStatus) -> system.QueueStatus:
    """Call queen.traffic for one queue, and describe it."""
    time = _time_range(call.since, call.until, "minute")
    description = await describe_queue(host, DescribeQueue(call.queue, call.limit, call.cursor))
    groups = await host.engine.statistics.groups(call.queue, GROUPS_MAX)
    steps = await host.engine.statistics.traffic(time.since, time.until, time.interval, queue=call.queue)
    return system.QueueStatus(
        queue=description,
        groups=[
            system.GroupStatus(name=each.name, complete=each.complete, partitions=each.partitions, leases=each.leases)
            for each in groups
        ],
        time_range=time,
        steps=_steps(steps, time.interval),
    )


async def get_traffic(host: Host, call: system.GetTraffic) -> system.Traffic:
    """Call queen.traffic."""
    time = _time_range(call.since, call.until, call.interval)
    steps = await host.engine.statistics.traffic(
        time.since, time.until, call.interval, queue=call.queue, namespace=call.namespace, task=call.task
    )
    totals = system.TrafficTotals(
        pushed=sum(each.pushed for each in steps),
        completed=sum(each.completed for each in steps),
        dead_lettered=sum(each.dead_lettered for each in steps),
        expired=sum(each.expired for each in steps),
    )
    return system.Traffic(time_range=time, steps=_steps(steps, call.interval), totals=totals)


async def get_process_metrics(host: Host, call: system.GetProcessMetrics) -> system.ProcessMetrics:
    """Ask the operating system."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return system.ProcessMetrics(
        pid=os.getpid(),
        uptime_seconds=monotonic() - STARTED,
        cpu_seconds=used.ru_utime + used.ru_stime,
        peak_memory_bytes=used.ru_maxrss * MAXRSS_BYTES,
        cpus=os.cpu_count() or 1,
        load_average=list(os.getloadavg()),
    )


async def get_postgres(host: Host, call: system.GetPostgres) -> system.Postgres:
    """Read PostgreSQL's own statistics."""
    database, tables = await host.engine.statistics.postgres()
    return system.Postgres(database=database, tables=tables)


async def refresh_statistics(host: Host, call: system.RefreshStatistics) -> system.StatisticsRefreshed:
    """Call queen.collect_stats."""
    await host.engine.statistics.refresh()
    return system.StatisticsRefreshed(refreshed=True)


async def get_maintenance(host: Host, call: system.GetMaintenance) -> system.Maintenance:
    """Tell what the host knows of the switch, and what waits in its spool."""
    messages, size, refused = await host.buffered()
    return system.Maintenance(
        enabled=host.presence.push_paused,
        database_available=not host.engine.database.away,
        buffered_messages=messages,
        buffered_bytes=size,
        refused_messages=refused,
    )


async def set_maintenance(host: Host, call: system.SetMaintenance) -> system.Maintenance:
    """Change queen.system_state."""
    await host.presence.set_push_paused(paused=call.enabled)
    return await get_maintenance(host, system.GetMaintenance())


async def get_pop_maintenance(host: Host, call: system.GetPopMaintenance) -> system.PopMaintenance:
    """Tell what the host knows of the switch."""
    return system.PopMaintenance(host.presence.pop_paused)


async def set_pop_maintenance(host: Host, call: system.SetPopMaintenance) -> system.PopMaintenance:
    """Change queen.system_state."""
    await host.presence.set_pop_paused(paused=call.enabled)
    return system.PopMaintenance(host.presence.pop_paused)


async def get_health(host: Host, call: system.GetHealth) -> system.Health:
    """Tell the version."""
    return system.Health("healthy", __version__)


async def ping(host: Host, call: system.Ping) -> system.Ready:
    """Ask PostgreSQL for an answer."""
    await host.engine.database.value("select 1")
    return system.Ready("ready")


def _time_range(since: datetime | None, until: datetime | None, interval: system.Interval) -> system.TimeRange:
    until = until or datetime.now(UTC)
    if since is None:
        try:
            since = until - timedelta(seconds=system.INTERVAL_SECONDS[interval] * STEPS[interval])
        except OverflowError:
            raise InvalidTimestamp("to is too early: give from as well") from None
    return system.TimeRange(since, until, interval)


def _steps(steps: Sequence[statistics.TrafficStep], interval: system.Interval) -> list[system.TrafficStep]:
    seconds = system.INTERVAL_SECONDS[interval]
    return [
        system.TrafficStep(
            starts_at=each.starts_at,
            pushed=each.pushed,
            completed=each.completed,
            dead_lettered=each.dead_lettered,
            expired=each.expired,
            unfinished=each.unfinished,
            pushed_per_second=each.pushed / seconds,
            completed_per_second=each.completed / seconds,
        )
        for each in steps
    ]
