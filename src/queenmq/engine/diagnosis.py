"""Why nothing is delivered, and whether everything adds up. Nothing here changes anything."""

from queenmq.api.diagnosis import Finding, LedgerTotal, Reason, Unread, Verification
from queenmq.engine.postgres.database import Database
from queenmq.model import QUEUE_MODE

PARTITIONS = 100
LEDGER = """
select queue, group_name as group, count(*) as partitions, sum(pushed)::bigint as pushed,
       sum(skipped)::bigint as skipped, sum(completed)::bigint as completed,
       sum(dead_lettered)::bigint as dead_lettered, sum(expired)::bigint as expired, sum(leased)::bigint as leased,
       sum(pending)::bigint as pending, bool_and(balanced) as balanced
  from queen.ledger where queue = coalesce($1, queue) group by queue, group_name order by queue, group_name
"""
UNREAD = "select * from queen.unread order by messages desc, queue"
FINDINGS = (
    'select * from queen.check_consistency() where $1::text is null or queue = $1 order by "check", queue, partition'
)


class Diagnosis:
    """Asks what is wrong."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def why(
        self, queue: str, *, group: str = QUEUE_MODE, partition: str | None = None, limit: int = PARTITIONS
    ) -> list[Reason]:
        """Why a group gets nothing from a queue, partition by partition; those with work first."""
        rows = await self._database.rows("select * from queen.why($1, $2, $3, $4)", queue, group, partition, limit)
        return [Reason(**row) for row in rows]

    async def ledger(self, queue: str | None = None) -> list[LedgerTotal]:
        """What became of everything pushed, by queue and group; of one queue, or of all."""
        return [LedgerTotal(**row) for row in await self._database.rows(LEDGER, queue)]

    async def unread(self) -> list[Unread]:
        """Queues, or partitions of them, that no consumer group has asked for; the largest backlog first."""
        return [Unread(**row) for row in await self._database.rows(UNREAD)]

    async def verify(self, queue: str | None = None) -> Verification:
        """Whether all that was pushed is accounted for and nothing contradicts anything else; reads everything."""
        findings = [Finding(**row) for row in await self._database.rows(FINDINGS, queue)]
        ledger = await self.ledger(queue)
        consistent = not findings and all(line.balanced for line in ledger)
        return Verification(consistent=consistent, ledger=ledger, findings=findings)
