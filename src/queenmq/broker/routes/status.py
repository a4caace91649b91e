"""/status, /analytics and /resources/overview: numbers for people and dashboards."""

import os
import resource
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from queenmq.broker.http import Request, Response, answer
from queenmq.broker.routes import partitions, queues
from queenmq.broker.routes.queues import MessageTotals, QueueDetail
from queenmq.diagnosis import PostgresStats, TableSize
from queenmq.engine.statistics import Overview, TrafficStep
from queenmq.errors import InvalidArgument, InvalidTimestamp

if TYPE_CHECKING:
    from queenmq.broker.app import Broker

STARTED = monotonic()
MAXRSS_BYTES = 1 if sys.platform == "darwin" else 1024
GROUPS_MAX = 1_000

STEP_SECONDS = {"minute": 60, "hour": 3_600, "day": 86_400}
STEPS = {"minute": 60, "hour": 24, "day": 30}  # so many are told when no beginning is given

RANGE_QUERY = {"from": "beginning of the time that is told (an hour ago)", "to": "end of it (now)"}
QUEUE_QUERY = RANGE_QUERY | partitions.PAGE_QUERY
ANALYTICS_QUERY = {
    "interval": f"length of a step: {', '.join(STEP_SECONDS)} (hour)",
    "from": "beginning of the time that is told (60 minutes, 24 hours or 30 days ago)",
    "to": "end of it (now)",
    "queue": "only this queue",
    "namespace": "only queues of this namespace",
    "task": "only queues of this task",
}


class OverviewAnswer(Struct, rename="camel"):
    """All of it in a few numbers, as of `countedAt`."""

    queues: int
    partitions: int
    namespaces: int
    tasks: int
    consumer_groups: int
    active_leases: int
    messages: MessageTotals
    counted_at: datetime | None

    @classmethod
    def of(cls, overview: Overview) -> "OverviewAnswer":
        """As clients read it."""
        return cls(
            overview.queues,
            overview.totals.partitions,
            overview.namespaces,
            overview.tasks,
            overview.groups,
            overview.leases,
            MessageTotals.of(overview.totals),
            overview.totals.counted_at,
        )


class Step(Struct, rename="camel"):
    """What happened in one step; `unfinished` is what was left at its end, null where nobody counted."""

    timestamp: datetime
    ingested: int
    processed: int
    dead_lettered: int
    expired: int
    unfinished: int | None
    ingested_per_second: float
    processed_per_second: float


class TimeRange(Struct, rename={"since": "from", "until": "to"}):
    """The time that is told, from `from` until before `to`, and the length of its steps."""

    since: datetime
    until: datetime
    interval: str


class StatusAnswer(Struct, rename="camel"):
    """Everything at a glance."""

    time_range: TimeRange
    overview: OverviewAnswer
    throughput: list[Step]


class TrafficTotals(Struct, rename="camel"):
    """All steps together."""

    ingested: int
    processed: int
    dead_lettered: int
    expired: int


class AnalyticsAnswer(Struct, rename="camel"):
    """What happened, step by step and in all."""

    time_range: TimeRange
    throughput: list[Step]
    totals: TrafficTotals


class GroupStatus(Struct, rename="camel"):
    """A group on a queue; `complete` is false while a new group has not reached all partitions."""

    name: str
    complete: bool
    partitions_pending: int
    active_leases: int


class QueueStatus(Struct, rename="camel"):
    """A queue, the groups that read it, and what happened to it."""

    queue: QueueDetail
    groups: list[GroupStatus]
    time_range: TimeRange
    throughput: list[Step]


class SystemMetrics(Struct, rename="camel"):
    """The server process that answered, and the machine it runs on."""

    pid: int
    uptime_seconds: float
    cpu_seconds: float
    peak_memory_bytes: int
    cpus: int
    load_average: Annotated[list[float], Meta(min_length=3, max_length=3)]  # over 1, 5 and 15 minutes


class WorkerMetrics(Struct):
    """What all server processes of this server have counted since it started, and what they have open."""

    counters: dict[str, int]
    gauges: dict[str, int]


class PostgresAnswer(Struct):
    """The database, and our tables in it, the largest first."""

    database: PostgresStats
    tables: list[TableSize]


class RefreshAnswer(Struct):
    """Everything was counted anew."""

    refreshed: bool


async def overview(broker: "Broker", _request: Request) -> Response:
    """Tell all of it in a few numbers."""
    return answer(OverviewAnswer.of(await broker.engine.statistics.overview()))


async def status(broker: "Broker", request: Request) -> Response:
    """Tell everything at a glance: the overview, and what happened minute by minute."""
    time = _time_range(request, "minute")
    found = OverviewAnswer.of(await broker.engine.statistics.overview())
    steps = await broker.engine.statistics.traffic(time.since, time.until, time.interval)
    return answer(StatusAnswer(time, found, _steps(steps, time.interval)))


async def queue_status(broker: "Broker", request: Request) -> Response:
    """Show a queue, the groups that read it, and what happened to it minute by minute."""
    time = _time_range(request, "minute")
    detail = await queues.describe(broker, request)
    statistics = broker.engine.statistics
    groups = await statistics.groups(detail.name, GROUPS_MAX)
    steps = await statistics.traffic(time.since, time.until, time.interval, queue=detail.name)
    told = [GroupStatus(each.name, each.complete, each.partitions, each.leases) for each in groups]
    return answer(QueueStatus(detail, told, time, _steps(steps, time.interval)))


async def analytics(broker: "Broker", request: Request) -> Response:
    """Tell what was pushed and what became of it, step by step and in all."""
    interval = request.text("interval") or "hour"
    if interval not in STEP_SECONDS:
        raise InvalidArgument(f"interval is one of {', '.join(STEP_SECONDS)}, not {interval[:40]!r}")
    time = _time_range(request, interval)
    steps = await broker.engine.statistics.traffic(
        time.since,
        time.until,
        interval,
        queue=request.text("queue"),
        namespace=request.text("namespace"),
        task=request.text("task"),
    )
    totals = TrafficTotals(
        sum(each.pushed for each in steps),
        sum(each.completed for each in steps),
        sum(each.dead_lettered for each in steps),
        sum(each.expired for each in steps),
    )
    return answer(AnalyticsAnswer(time, _steps(steps, interval), totals))


async def system_metrics(_broker: "Broker", _request: Request) -> Response:
    """Tell how the server process that answers is doing, and its machine."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return answer(
        SystemMetrics(
            pid=os.getpid(),
            uptime_seconds=monotonic() - STARTED,
            cpu_seconds=used.ru_utime + used.ru_stime,
            peak_memory_bytes=used.ru_maxrss * MAXRSS_BYTES,
            cpus=os.cpu_count() or 1,
            load_average=list(os.getloadavg()),
        )
    )


async def worker_metrics(broker: "Broker", _request: Request) -> Response:
    """Tell what the server's processes have counted, and what they have open."""
    numbers = broker.metrics.total()
    return answer(WorkerMetrics(numbers.counters, numbers.gauges))


async def postgres_stats(broker: "Broker", _request: Request) -> Response:
    """Tell how PostgreSQL is doing."""
    return answer(PostgresAnswer(*await broker.engine.statistics.postgres()))


async def refresh(broker: "Broker", _request: Request) -> Response:
    """Count everything now, as the server does every minute."""
    await broker.engine.statistics.refresh()
    return answer(RefreshAnswer(refreshed=True))


def _time_range(request: Request, interval: str) -> TimeRange:
    until = request.moment("to") or datetime.now(UTC)
    since = request.moment("from")
    if since is None:
        try:
            since = until - timedelta(seconds=STEP_SECONDS[interval] * STEPS[interval])
        except OverflowError:
            raise InvalidTimestamp("to is too early: give from as well") from None
    return TimeRange(since, until, interval)


def _steps(steps: Sequence[TrafficStep], interval: str) -> list[Step]:
    seconds = STEP_SECONDS[interval]
    return [
        Step(
            each.starts_at,
            each.pushed,
            each.completed,
            each.dead_lettered,
            each.expired,
            each.unfinished,
            each.pushed / seconds,
            each.completed / seconds,
        )
        for each in steps
    ]
