"""The services: each is a name and what it asks of the database."""

from typing import Any

from queenmq.config import Settings
from queenmq.engine.postgres.database import Database
from queenmq.engine.upkeep.service import Service

GROUP_CHUNK = 10_000  # partitions that a new group is walked up in one round
GROUP_PAUSE_SECONDS = 2.0
CALLS_KEPT_SECONDS = 600.0  # whoever lost an answer has asked, or given up, long before

# Queues whose oldest message, or oldest dead letter, is older than they have to keep: most queues need no call.
QUEUES_WITH_OLD_MESSAGES = """
select q.id from queen.queues q
 cross join lateral (select s.created_at from queen.segments s where s.queue_id = q.id
                      order by s.epoch, s.xid limit 1) as s
 where q.retention_enabled
   and s.created_at < clock_timestamp() - make_interval(secs => least(nullif(q.retention_seconds, 0),
                                                                      nullif(q.completed_retention_seconds, 0)))
 order by q.id
"""
QUEUES_WITH_OLD_DEAD_LETTERS = """
select q.id from queen.queues q
 cross join lateral (select d.failed_at from queen.dead_letters d where d.queue_id = q.id order by d.id limit 1) as d
 where q.retention_enabled
   and d.failed_at < clock_timestamp() - make_interval(secs => nullif(q.dead_letter_retention_seconds, 0))
 order by q.id
"""
INCOMPLETE_GROUP = "select id from queen.queue_groups where queue_wide and not complete order by id limit 1"


class Retention(Service):
    """Deletes what the queues' settings no longer keep."""

    name = "retention"

    def __init__(self, database: Database, settings: Settings) -> None:
        super().__init__(database, settings.retention_interval_seconds)
        self._limit = settings.upkeep_batch

    async def run_once(self) -> bool:
        """Walk every queue that has something older than it keeps, in bounded steps."""
        for row in await self.database.rows(QUEUES_WITH_OLD_MESSAGES):
            await self._walk(row["id"])
        for row in await self.database.rows(QUEUES_WITH_OLD_DEAD_LETTERS):
            while await self._delete_dead_letters(row["id"]) >= self._limit:
                pass
        return False

    async def _delete_dead_letters(self, queue_id: int) -> int:
        deleted: int = await self.database.value("select queen.retain_dead_letters($1, $2)", queue_id, self._limit)
        return deleted

    async def _walk(self, queue_id: int) -> None:
        cursor: Any = None
        while True:
            step = await self.database.row("select * from queen.retain($1, $2, $3)", queue_id, cursor, self._limit)
            if step["done"]:
                return
            cursor = step["cursor"]


class IdlePartitions(Service):
    """Removes partitions that nobody has written for long and that hold nothing."""

    name = "idle partitions"

    def __init__(self, database: Database, settings: Settings) -> None:
        super().__init__(database, settings.retention_interval_seconds)
        self._idle_seconds = settings.idle_partition_seconds
        self._limit = settings.upkeep_batch

    async def run_once(self) -> bool:
        """Remove up to a batch of them."""
        if not self._idle_seconds:
            return False
        removed: int = await self.database.value(
            "select queen.remove_idle_partitions($1, $2)", self._idle_seconds, self._limit
        )
        return removed >= self._limit


class Ticks(Service):
    """Marks positions in the order of commits."""

    name = "ticks"

    def __init__(self, database: Database, settings: Settings) -> None:
        super().__init__(database, settings.tick_interval_seconds)

    async def run_once(self) -> bool:
        """Take a tick, if anything was written since the last."""
        await self.database.value("select queen.take_tick()")
        return False


class Stats(Service):
    """Writes the totals of every queue, minute by minute."""

    name = "stats"

    def __init__(self, database: Database, settings: Settings) -> None:
        super().__init__(database, settings.stats_interval_seconds)

    async def run_once(self) -> bool:
        """Write this minute's row of every queue."""
        await self.database.value("select queen.collect_stats()")
        return False


class NewGroups(Service):
    """Walks new groups up the partitions of their queues, so that pops need not."""

    name = "new groups"

    def __init__(self, database: Database) -> None:
        super().__init__(database, GROUP_PAUSE_SECONDS)

    async def run_once(self) -> bool:
        """Walk one incomplete group a chunk further."""
        group_id = await self.database.value(INCOMPLETE_GROUP)
        if group_id is None:
            return False
        await self.database.value("select queen.extend_group($1, $2)", group_id, GROUP_CHUNK)
        return True


class Calls(Service):
    """Forgets calls about which nobody can ask any more."""

    name = "calls"

    def __init__(self, database: Database, settings: Settings) -> None:
        super().__init__(database, settings.retention_interval_seconds)
        self._limit = settings.upkeep_batch

    async def run_once(self) -> bool:
        """Forget up to a batch of them."""
        forgotten: int = await self.database.value("select queen.forget_calls($1, $2)", CALLS_KEPT_SECONDS, self._limit)
        return forgotten >= self._limit
