"""/resources/partitions, and where the work of a queue is."""

from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from queenmq.broker import wire
from queenmq.broker.http import Request, Response, answer
from queenmq.engine.statistics import PartitionTotals

if TYPE_CHECKING:
    from queenmq.broker.app import Broker

LIMIT, LIMIT_MAX = 100, 1_000
DEPTH_LIMIT_MAX = 10_000

PAGE_QUERY = {
    "limit": f"most partitions to list, up to {LIMIT_MAX} ({LIMIT})",
    "cursor": "nextCursor of the page before",
}
PARTITIONS_QUERY = {"queue": "only partitions of this queue", **PAGE_QUERY}
DEPTH_QUERY = {
    "group": "the group that is meant; without it, the slowest",
    "limit": f"most partitions to list, up to {DEPTH_LIMIT_MAX} ({LIMIT})",
}


class PartitionMessages(Struct):
    """Stored messages of one partition."""

    total: int
    pending: int
    processing: int
    completed: int
    failed: int


class PartitionSummary(Struct, rename="camel"):
    """A partition and what it holds."""

    id: str
    name: str
    queue: str
    created_at: datetime
    last_message_at: datetime | None
    pushed: int
    messages: PartitionMessages

    @classmethod
    def of(cls, totals: PartitionTotals) -> "PartitionSummary":
        """As clients read it."""
        finished = totals.stored - totals.pending - totals.leased
        return cls(
            wire.partition_text(totals.partition_id),
            totals.partition,
            totals.queue,
            totals.created_at,
            totals.last_message_at,
            totals.pushed,
            PartitionMessages(totals.stored, totals.pending, totals.leased, finished, totals.retrying),
        )


class PartitionList(Struct, rename="camel"):
    """A page of partitions; nextCursor is null on the last one."""

    partitions: list[PartitionSummary]
    next_cursor: str | None


class PartitionDepth(Struct):
    """A partition with work."""

    partition: str
    pending: int


class DepthAnswer(Struct, rename="camel"):
    """How much is left to do, in all and in the fullest partitions."""

    queue: str
    group: str | None
    pending: int
    partitions_pending: int
    conflation: bool
    effective_pending: int
    partitions: list[PartitionDepth]


async def list_partitions(broker: "Broker", request: Request) -> Response:
    """List partitions in the order in which they were made, with what they hold."""
    queue = request.text("queue")
    queue_id = None if queue is None else (await broker.engine.admin.queue(queue)).id
    return answer(PartitionList(*await page(broker, request, queue_id)))


async def get_depth(broker: "Broker", request: Request) -> Response:
    """Tell how much of a queue is left to do, and where."""
    queue, group = request.path_parameters["queue"], request.text("group")
    found = await broker.engine.statistics.pending(queue, group, request.number("limit", LIMIT, 1, DEPTH_LIMIT_MAX))
    pending = found[0].pending_total if found else 0
    return answer(
        DepthAnswer(
            queue=queue,
            group=group,
            pending=pending,
            partitions_pending=found[0].partitions_pending if found else 0,
            conflation=False,
            effective_pending=pending,
            partitions=[PartitionDepth(each.partition, each.pending) for each in found],
        )
    )


async def page(broker: "Broker", request: Request, queue_id: int | None) -> tuple[list[PartitionSummary], str | None]:
    """The page of partitions that a request asks for, and the cursor of the next one."""
    limit = request.number("limit", LIMIT, 1, LIMIT_MAX)
    cursor = request.text("cursor")
    after_id = 0 if cursor is None else wire.partition_number(cursor)
    found = await broker.engine.statistics.partitions(queue_id, after_id, limit)
    more = wire.partition_text(found[-1].partition_id) if len(found) == limit else None
    return [PartitionSummary.of(each) for each in found], more
