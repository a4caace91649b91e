"""The installation as a whole: numbers, traffic, maintenance, PostgreSQL."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from queenmq.client.administration.queues import Totals
from queenmq.client.calls import Call
from queenmq.diagnosis import PostgresStats, TableSize

Interval = Literal["minute", "hour", "day"]
INTERVAL_SECONDS: dict[Interval, int] = {"minute": 60, "hour": 3_600, "day": 86_400}


class Overview(Struct, frozen=True, kw_only=True, rename={"groups": "consumerGroups", "leases": "activeLeases",
                                                          "counted_at": "countedAt"}):  # fmt: skip
    """All of it in a few numbers."""

    queues: int
    partitions: int
    namespaces: int
    tasks: int
    groups: int
    leases: int
    messages: Totals
    counted_at: datetime | None


class TrafficStep(
    Struct,
    frozen=True,
    kw_only=True,
    rename={"starts_at": "timestamp", "pushed": "ingested", "completed": "processed", "dead_lettered": "deadLettered"},
):
    """What happened in one minute, hour or day; `unfinished` is None where nobody counted."""

    starts_at: datetime
    pushed: int
    completed: int
    dead_lettered: int
    expired: int
    unfinished: int | None


class Maintenance(Struct, frozen=True, kw_only=True, rename="camel"):
    """Whether pushes are kept back, and what waits in the spool of the server that answered."""

    enabled: bool
    database_available: bool = True
    buffered_messages: int = 0
    buffered_bytes: int = 0
    refused_messages: int = 0


class Postgres(Struct, frozen=True, kw_only=True):
    """The database, and Queen's tables in it, the largest first."""

    database: PostgresStats
    tables: list[TableSize]


class Ping(Call[None], frozen=True):
    """Whether calls can be served. Raises Unavailable."""


class GetVersion(Call[str], frozen=True):
    """The version of the Queen that answers."""


class GetOverview(Call[Overview], frozen=True):
    """All of it in a few numbers."""


class GetTraffic(Call[list[TrafficStep]], frozen=True, kw_only=True):
    """What was pushed and what became of it, step by step."""

    interval: Interval
    since: datetime
    until: datetime
    queue: str | None
    namespace: str | None
    task: str | None


class RefreshStatistics(Call[None], frozen=True):
    """Count everything now, as upkeep does every minute."""


class GetPostgres(Call[Postgres], frozen=True):
    """How PostgreSQL is doing."""


class GetMaintenance(Call[Maintenance], frozen=True):
    """Whether pushes are kept back."""


class SetMaintenance(Call[Maintenance], frozen=True):
    """Keep pushes back in all servers of the database, or store them again."""

    enabled: bool


class GetPopMaintenance(Call[bool], frozen=True):
    """Whether deliveries are paused."""


class SetPopMaintenance(Call[bool], frozen=True):
    """Pause deliveries in all servers of the database, or go on; answers how it is now."""

    enabled: bool
