"""GET /why, /ledger, /unread, /verify and /doctor: what is wrong, if anything."""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from queenmq.broker.exposure import examine_access
from queenmq.broker.http import Request, Response, answer
from queenmq.config import masked
from queenmq.diagnosis import Check
from queenmq.engine.checkup import check_up, disk
from queenmq.engine.diagnosis import PARTITIONS
from queenmq.model import QUEUE_MODE

if TYPE_CHECKING:
    from queenmq.broker.app import Broker

PARTITIONS_MAX = 10_000

WHY_QUERY = {
    "group": f"the consumer group that gets nothing; {QUEUE_MODE}",
    "partition": "only this partition",
    "limit": f"most partitions to look at, those with work first; {PARTITIONS}, at most {PARTITIONS_MAX}",
}
LEDGER_QUERY = {"queue": "only this queue"}


async def why(broker: "Broker", request: Request) -> Response:
    """Tell why a consumer group gets nothing from a queue, partition by partition."""
    reasons = await broker.engine.diagnosis.why(
        request.path_parameters["queue"],
        group=request.text("group") or QUEUE_MODE,
        partition=request.text("partition"),
        limit=request.number("limit", PARTITIONS, 1, PARTITIONS_MAX),
    )
    return answer(reasons)


async def ledger(broker: "Broker", request: Request) -> Response:
    """Tell what became of everything pushed, by queue and group."""
    return answer(await broker.engine.diagnosis.ledger(request.text("queue")))


async def unread(broker: "Broker", _request: Request) -> Response:
    """List what no consumer group has asked for: queues, or partitions of them, and their backlogs."""
    return answer(await broker.engine.diagnosis.unread())


async def verify(broker: "Broker", request: Request) -> Response:
    """Check that everything adds up: the ledger of each group, and all consistency checks. It reads everything."""
    return answer(await broker.engine.diagnosis.verify(request.text("queue")))


async def doctor(broker: "Broker", _request: Request) -> Response:
    """Look for what hurts: who has access, PostgreSQL's settings, its clock, old transactions, the disks."""
    checkup = await check_up(broker.engine.database)
    place = Check(name="database", severity="ok", detail=masked(broker.engine.database.dsn))
    spool = [] if broker.spool is None else [disk("disk of the spool", broker.spool.directory)]
    return answer(replace(checkup, checks=[place, examine_access(broker.settings), *checkup.checks, *spool]))
