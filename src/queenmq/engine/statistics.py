"""Numbers about queues, partitions and traffic, for people who look. Nothing here changes anything but the numbers.

What a queue of few partitions holds is counted when it is asked for; of a large one it is known from the last round
of statistics (see queen.queue_totals), so that looking costs little however many partitions there are.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import fields

from queenmq.api.diagnosis import PostgresStats, TableSize
from queenmq.engine.postgres.database import Database
from queenmq.errors import QueueNotFound
from queenmq.model import QueueSettings

T = TypeVar("T", bound=Struct)

PARTITIONS_COUNTED_MAX = 1_000  # of one queue, when many are looked at
PARTITIONS_COUNTED_OF_ONE_MAX = 10_000
RATES_SINCE = timedelta(minutes=6)  # older counts say nothing about how fast something is now

QUEUES = """
select q.*, count(*) over () as queues from queen.queues q
 where ($1::text is null or q.namespace = $1) and ($2::text is null or q.task = $2)
   and ($3::text is null or strpos(lower(q.name), lower($3)) > 0)
 order by q.name limit $4 offset $5
"""
LABELS = """
select q.{label} as label, array_agg(q.id) as queue_ids from queen.queues q
 where q.{label} <> '' group by 1 order by 1 limit $1
"""
PARTITION_IDS = "select partition_id from queen.partition_lookup where partition_id > $1 order by partition_id limit $2"
PARTITION_IDS_OF_QUEUE = """
select partition_id from queen.partition_lookup
 where queue_id = $3 and partition_id > $1 order by partition_id limit $2
"""
PARTITIONS = """
select q.name as queue, p.name as partition, p.created_at, t.*
  from queen.partition_totals t
  join queen.partitions p on p.id = t.partition_id
  join queen.queues q on q.id = t.queue_id
 where t.partition_id = any ($1) order by t.partition_id
"""
GROUPS = """
select g.name, g.complete or not g.queue_wide as complete, w.partitions, w.leases
  from queen.queue_groups g
 cross join lateral (
     select count(*) as partitions,
            count(*) filter (where c.lease_id is not null and c.ready_at > clock_timestamp()) as leases
       from queen.partition_consumers c where c.group_id = g.id and c.ready_at is not null) as w
 where g.queue_id = (select id from queen.queues where name = $1) order by g.name limit $2
"""
# From the rows that upkeep writes each minute: nothing is counted here. A queue has no rates before its second row.
RATES = """
select q.name as queue, q.max_queue_size, n.minute as counted_at, n.pending + n.leased as unfinished,
       greatest(0, n.pushed - b.pushed) / extract(epoch from n.minute - b.minute)::float8 as pushed_per_second,
       greatest(0, n.completed - b.completed) / extract(epoch from n.minute - b.minute)::float8 as completed_per_second,
       n.pending + n.leased - f.pending - f.leased as growth,
       extract(epoch from n.minute - f.minute)::float8 as growth_seconds
  from queen.queues q
 cross join lateral (
     select s.* from queen.stats s where s.queue_id = q.id order by s.minute desc limit 1) as n
  left join lateral (
     select s.* from queen.stats s where s.queue_id = q.id and s.minute < n.minute
      order by s.minute desc limit 1) as b on true
  left join lateral (
     select s.* from queen.stats s
      where s.queue_id = q.id and s.minute between n.minute - $1::interval and n.minute - interval '1 minute'
      order by s.minute limit 1) as f on true
 where n.minute > clock_timestamp() - $1::interval
 order by q.name
"""
OVERVIEW = """
select (select array_agg(id order by id) from queen.queues) as queue_ids,
       (select count(distinct namespace) from queen.queues where namespace <> '') as namespaces,
       (select count(distinct task) from queen.queues where task <> '') as tasks,
       (select count(distinct name) from queen.queue_groups) as groups,
       (select count(*) from queen.partition_consumers
         where lease_id is not null and ready_at > clock_timestamp()) as leases
"""
POSTGRES = """
select current_setting('server_version') as version, pg_database_size(current_database()) as bytes,
       numbackends as connections, current_setting('max_connections')::int as connections_max,
       xact_commit as commits, xact_rollback as rollbacks, deadlocks,
       coalesce(blks_hit::float8 / nullif(blks_hit + blks_read, 0), 1) as cache_hit_ratio,
       (select coalesce(extract(epoch from max(clock_timestamp() - xact_start)), 0)::float8
          from pg_stat_activity where datname = current_database()) as oldest_transaction_seconds
  from pg_stat_database where datname = current_database()
"""
TABLES = """
select s.relname::text as name, s.n_live_tup as rows, s.n_dead_tup as dead_rows,
       pg_total_relation_size(s.relid) as bytes, s.last_autovacuum as vacuumed_at
  from pg_stat_user_tables s where s.schemaname = 'queen' order by 4 desc, 1
"""


class Totals(Struct, frozen=True, kw_only=True):
    """What queues hold: `stored` = `pending` + `leased` + what every group has finished."""

    partitions: int = 0
    stored: int = 0
    pending: int = 0
    leased: int = 0
    retrying: int = 0
    dead_letters: int = 0
    counted_at: datetime | None = None

    @classmethod
    def sum(cls, totals: Sequence["Totals"]) -> "Totals":
        """Several queues together; as old as the oldest count."""
        names = [field.name for field in fields(cls) if field.name != "counted_at"]
        moments = [each.counted_at for each in totals if each.counted_at is not None]
        numbers = {name: sum(getattr(each, name) for each in totals) for name in names}
        return cls(**numbers, counted_at=min(moments, default=None))


class PartitionTotals(Struct, frozen=True, kw_only=True):
    """What a partition holds."""

    queue: str
    partition: str
    partition_id: int
    created_at: datetime
    last_message_at: datetime | None
    pushed: int
    stored: int
    pending: int
    leased: int
    retrying: int


class PendingPartition(Struct, frozen=True, kw_only=True):
    """A partition with work; the last two count all partitions of the question."""

    partition: str
    pending: int
    partitions_pending: int
    pending_total: int


class GroupAtWork(Struct, frozen=True, kw_only=True):
    """A group on a queue: in how many partitions it has work, and how many of them it holds."""

    name: str
    complete: bool
    partitions: int
    leases: int


class TrafficStep(Struct, frozen=True, kw_only=True):
    """What happened in one minute, hour or day; `unfinished` is None where nobody counted."""

    starts_at: datetime
    pushed: int
    completed: int
    dead_lettered: int
    expired: int
    unfinished: int | None


class QueueRates(Struct, frozen=True, kw_only=True, rename="camel"):
    """How fast a queue is written and finished, as of `countedAt`; null as long as it was counted only once.

    `growth`: how many unfinished messages more it has than `growthSeconds` before.
    """

    queue: str
    max_queue_size: int
    counted_at: datetime
    unfinished: int
    pushed_per_second: float | None
    completed_per_second: float | None
    growth: int | None
    growth_seconds: float | None


class Overview(Struct, frozen=True, kw_only=True):
    """All of it in a few numbers."""

    queues: int
    namespaces: int
    tasks: int
    groups: int
    leases: int
    totals: Totals


class Statistics:
    """Asks for numbers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def refresh(self) -> None:
        """Count everything now, as upkeep does every minute."""
        await self._database.value("select queen.collect_stats()")

    async def queues(
        self,
        *,
        namespace: str | None = None,
        task: str | None = None,
        search: str | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> tuple[list[tuple[QueueSettings, Totals]], int]:
        """Queues by name with what they hold, and how many there are on all pages."""
        rows = await self._database.rows(QUEUES, namespace, task, search, limit, offset)
        totals = await self._totals([row["id"] for row in rows], PARTITIONS_COUNTED_MAX)
        page = [(_struct(QueueSettings, row), totals[row["id"]]) for row in rows]
        return page, rows[0]["queues"] if rows else 0

    async def queue(self, queue: str) -> tuple[QueueSettings, Totals]:
        """A queue with what it holds; raises QueueNotFound."""
        row = await self._database.row("select * from queen.queues where name = $1", queue)
        if row is None:
            raise QueueNotFound(f'there is no queue "{queue}"')
        return _struct(QueueSettings, row), (await self._totals([row["id"]], PARTITIONS_COUNTED_OF_ONE_MAX))[row["id"]]

    async def namespaces(self, limit: int = 1000) -> list[tuple[str, int, Totals]]:
        """Namespaces with how many queues they have and what these hold."""
        return await self._labels("namespace", limit)

    async def tasks(self, limit: int = 1000) -> list[tuple[str, int, Totals]]:
        """Tasks with how many queues they have and what these hold."""
        return await self._labels("task", limit)

    async def partitions(
        self, queue_id: int | None = None, after_id: int = 0, limit: int = 100
    ) -> list[PartitionTotals]:
        """Partitions by id with what they hold; the id of the last one gives the next page."""
        if queue_id is None:
            rows = await self._database.rows(PARTITION_IDS, after_id, limit)
        else:
            rows = await self._database.rows(PARTITION_IDS_OF_QUEUE, after_id, limit, queue_id)
        ids = [row["partition_id"] for row in rows]
        return [_struct(PartitionTotals, row) for row in await self._database.rows(PARTITIONS, ids)]

    async def pending(self, queue: str, group: str | None = None, limit: int = 100) -> list[PendingPartition]:
        """Where the work of a queue is, the fullest partitions first."""
        rows = await self._database.rows("select * from queen.pending_partitions($1, $2, $3)", queue, group, limit)
        return [_struct(PendingPartition, row) for row in rows]

    async def groups(self, queue: str, limit: int = 100) -> list[GroupAtWork]:
        """The groups of a queue."""
        return [_struct(GroupAtWork, row) for row in await self._database.rows(GROUPS, queue, limit)]

    async def overview(self) -> Overview:
        """All of it in a few numbers."""
        row = await self._database.row(OVERVIEW)
        ids = row["queue_ids"] or []
        totals = Totals.sum(list((await self._totals(ids, PARTITIONS_COUNTED_MAX)).values()))
        return Overview(
            queues=len(ids),
            namespaces=row["namespaces"],
            tasks=row["tasks"],
            groups=row["groups"],
            leases=row["leases"],
            totals=totals,
        )

    async def traffic(
        self,
        since: datetime,
        until: datetime,
        step: str = "hour",
        *,
        queue: str | None = None,
        namespace: str | None = None,
        task: str | None = None,
    ) -> list[TrafficStep]:
        """What was pushed and what became of it, step by step."""
        call = "select * from queen.traffic($1, $2, $3, $4, $5, $6)"
        rows = await self._database.rows(call, since, until, step, queue, namespace, task)
        return [_struct(TrafficStep, row) for row in rows]

    async def rates(self) -> list[QueueRates]:
        """How fast each queue is written and finished; queues that nobody has counted lately are not there."""
        return [_struct(QueueRates, row) for row in await self._database.rows(RATES, RATES_SINCE)]

    async def postgres(self) -> tuple[PostgresStats, list[TableSize]]:
        """The database and our tables in it, as PostgreSQL sees them."""
        row = await self._database.row(POSTGRES)
        return _struct(PostgresStats, row), [_struct(TableSize, each) for each in await self._database.rows(TABLES)]

    async def _labels(self, label: str, limit: int) -> list[tuple[str, int, Totals]]:
        rows = await self._database.rows(LABELS.format(label=label), limit)
        totals = await self._totals([id for row in rows for id in row["queue_ids"]], PARTITIONS_COUNTED_MAX)
        return [
            (row["label"], len(row["queue_ids"]), Totals.sum([totals[id] for id in row["queue_ids"]])) for row in rows
        ]

    async def _totals(self, queue_ids: Sequence[int], partitions_max: int) -> dict[int, Totals]:
        rows = await self._database.rows("select * from queen.queue_totals($1, $2)", queue_ids, partitions_max)
        return {row["queue_id"]: _struct(Totals, row) for row in rows}


def _struct(kind: type[T], row: Mapping[str, Any]) -> T:
    return kind(**{field.name: row[field.name] for field in fields(kind)})
