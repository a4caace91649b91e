"""The installation as a whole: numbers, traffic, maintenance, PostgreSQL."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from queenmq.api.call import Call, Cursor, Endpoint, Limit
from queenmq.api.diagnosis import PostgresStats, TableSize
from queenmq.api.queues import MessageTotals, QueueDescription

Interval = Literal["minute", "hour", "day"]
INTERVAL_SECONDS: dict[Interval, int] = {"minute": 60, "hour": 3_600, "day": 86_400}

Since = Annotated[datetime | None, Meta(description="beginning of the time; an hour ago")]
LongSince = Annotated[datetime | None, Meta(description="beginning of the time; 60 minutes, 24 hours or 30 days ago")]
Until = Annotated[datetime | None, Meta(description="end of the time; now")]


class Overview(
    Struct,
    frozen=True,
    kw_only=True,
    rename={"groups": "consumerGroups", "leases": "activeLeases", "counted_at": "countedAt"},
):
    """All of it in a few numbers, as of the moment when it was counted."""

    queues: int
    partitions: int
    namespaces: int
    tasks: int
    groups: int
    leases: int
    messages: MessageTotals
    counted_at: datetime | None


class TrafficStep(
    Struct,
    frozen=True,
    kw_only=True,
    rename={
        "starts_at": "timestamp",
        "pushed": "ingested",
        "completed": "processed",
        "dead_lettered": "deadLettered",
        "pushed_per_second": "ingestedPerSecond",
        "completed_per_second": "processedPerSecond",
    },
):
    """What happened in one minute, hour or day; `unfinished` is what was left at its end, null if it is not known."""

    starts_at: datetime
    pushed: int
    completed: int
    dead_lettered: int
    expired: int
    unfinished: int | None
    pushed_per_second: float
    completed_per_second: float


class TimeRange(Struct, frozen=True, rename={"since": "from", "until": "to"}):
    """From `since` until before `until`, in steps of an interval."""

    since: datetime
    until: datetime
    interval: Interval


class TrafficTotals(
    Struct,
    frozen=True,
    rename={"pushed": "ingested", "completed": "processed", "dead_lettered": "deadLettered"},
):
    """All steps together."""

    pushed: int
    completed: int
    dead_lettered: int
    expired: int


class Traffic(Struct, frozen=True, kw_only=True, rename={"time_range": "timeRange", "steps": "throughput"}):
    """What happened, step by step and in all."""

    time_range: TimeRange
    steps: list[TrafficStep]
    totals: TrafficTotals


class Status(Struct, frozen=True, kw_only=True, rename={"time_range": "timeRange", "steps": "throughput"}):
    """The overview, and what happened minute by minute."""

    time_range: TimeRange
    overview: Overview
    steps: list[TrafficStep]


class GroupStatus(
    Struct,
    frozen=True,
    kw_only=True,
    rename={"partitions": "partitionsPending", "leases": "activeLeases"},
):
    """A group on a queue: in how many partitions it has work, and how many of them it has leased.

    `complete` is false while a new group has not reached all partitions.
    """

    name: str
    complete: bool
    partitions: int
    leases: int


class QueueStatus(Struct, frozen=True, kw_only=True, rename={"time_range": "timeRange", "steps": "throughput"}):
    """A queue, the groups that read it, and what happened to it."""

    queue: QueueDescription
    groups: list[GroupStatus]
    time_range: TimeRange
    steps: list[TrafficStep]


class StatisticsRefreshed(Struct, frozen=True):
    """Everything was counted."""

    refreshed: bool


class Postgres(Struct, frozen=True, kw_only=True):
    """The database, and Queen's tables in it, the largest first."""

    database: PostgresStats
    tables: list[TableSize]


class ProcessMetrics(Struct, frozen=True, kw_only=True, rename="camel"):
    """The process that answered, and the machine it runs on; the load is over 1, 5 and 15 minutes."""

    pid: int
    uptime_seconds: float
    cpu_seconds: float
    peak_memory_bytes: int
    cpus: int
    load_average: Annotated[list[float], Meta(min_length=3, max_length=3)]


class Maintenance(Struct, frozen=True, kw_only=True, rename="camel"):
    """Whether pushes are kept back, and what waits in the spool of the server that answered."""

    enabled: bool
    database_available: bool = True
    buffered_messages: int = 0
    buffered_bytes: int = 0
    refused_messages: int = 0


class PopMaintenance(Struct, frozen=True):
    """Whether deliveries are paused in all servers."""

    enabled: bool


class Health(Struct, frozen=True):
    """The process is alive."""

    status: Literal["healthy"]
    version: str


class Ready(Struct, frozen=True):
    """A push and a pop would work now."""

    status: Literal["ready"]


class GetOverview(Call[Overview], frozen=True):
    """Tell all of it in a few numbers."""

    endpoints = (Endpoint("GET", "/api/v1/resources/overview", "read-only"),)


class GetStatus(Call[Status], frozen=True, kw_only=True, rename={"since": "from", "until": "to"}):
    """Tell everything at a glance: the overview, and what happened minute by minute."""

    endpoints = (Endpoint("GET", "/api/v1/status", "read-only"),)
    since: Since = None
    until: Until = None


class GetQueueStatus(Call[QueueStatus], frozen=True, kw_only=True, rename={"since": "from", "until": "to"}):
    """Describe a queue, the groups that read it, and what happened to it minute by minute."""

    endpoints = (Endpoint("GET", "/api/v1/status/queues/{queue}", "read-only"),)
    queue: str
    since: Since = None
    until: Until = None
    limit: Limit = 100
    cursor: Cursor = None


class GetTraffic(Call[Traffic], frozen=True, kw_only=True, rename={"since": "from", "until": "to"}):
    """Tell what was pushed and what became of it, step by step and in all."""

    endpoints = (Endpoint("GET", "/api/v1/status/analytics", "read-only"),)
    interval: Annotated[Interval, Meta(description="length of a step")] = "hour"
    since: LongSince = None
    until: Until = None
    queue: Annotated[str | None, Meta(description="only this queue")] = None
    namespace: Annotated[str | None, Meta(description="only queues of this namespace")] = None
    task: Annotated[str | None, Meta(description="only queues of this task")] = None


class GetProcessMetrics(Call[ProcessMetrics], frozen=True):
    """Tell what the process that answers has used, and how busy its machine is."""

    endpoints = (Endpoint("GET", "/api/v1/analytics/system-metrics", "read-only"),)


class GetPostgres(Call[Postgres], frozen=True):
    """Tell how PostgreSQL is doing."""

    endpoints = (Endpoint("GET", "/api/v1/analytics/postgres-stats", "read-only"),)


class RefreshStatistics(Call[StatisticsRefreshed], frozen=True):
    """Count everything now, as the server does every minute."""

    endpoints = (Endpoint("POST", "/api/v1/stats/refresh", "admin"),)


class GetMaintenance(Call[Maintenance], frozen=True):
    """Tell whether pushes are kept in the spool on purpose, and how much is in it."""

    endpoints = (Endpoint("GET", "/api/v1/system/maintenance", "read-only"),)


class SetMaintenance(Call[Maintenance], frozen=True):
    """Keep pushes in the spools of all servers of this database, or store them again."""

    endpoints = (Endpoint("POST", "/api/v1/system/maintenance", "admin"),)
    enabled: bool


class GetPopMaintenance(Call[PopMaintenance], frozen=True):
    """Tell whether deliveries are paused."""

    endpoints = (Endpoint("GET", "/api/v1/system/maintenance/pop", "read-only"),)


class SetPopMaintenance(Call[PopMaintenance], frozen=True):
    """Pause deliveries in all servers of this database, or resume them."""

    endpoints = (Endpoint("POST", "/api/v1/system/maintenance/pop", "admin"),)
    enabled: bool


class GetHealth(Call[Health], frozen=True):
    """Whether the server is alive."""

    endpoints = (Endpoint("GET", "/health", None),)


class Ping(Call[Ready], frozen=True):
    """Whether a push and a pop would work now; 503 says what is in their way, and what to do."""

    endpoints = (Endpoint("GET", "/ready", None),)
    repeatable = False
