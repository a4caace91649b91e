"""What is wrong, asked without a server."""

from typing import TYPE_CHECKING

from queenmq.client import diagnosis
from queenmq.client.transports.postgres_table import HandlerTable
from queenmq.diagnosis import Checkup, LedgerTotal, Reason, Unread, Verification
from queenmq.engine.checkup import check_up as look_at

if TYPE_CHECKING:
    from queenmq.client.transports.postgres import PostgresTransport


async def why(transport: "PostgresTransport", call: diagnosis.Why) -> list[Reason]:
    """Ask queen.why."""
    return await transport.engine.diagnosis.why(
        call.queue, group=call.group, partition=call.partition, limit=call.limit
    )


async def ledger(transport: "PostgresTransport", call: diagnosis.GetLedger) -> list[LedgerTotal]:
    """Ask the ledger."""
    return await transport.engine.diagnosis.ledger(call.queue)


async def unread(transport: "PostgresTransport", _call: diagnosis.ListUnread) -> list[Unread]:
    """Ask queen.unread."""
    return await transport.engine.diagnosis.unread()


async def verify(transport: "PostgresTransport", call: diagnosis.Verify) -> Verification:
    """Ask the ledger and queen.check_consistency."""
    return await transport.engine.diagnosis.verify(call.queue)


async def check_up(transport: "PostgresTransport", _call: diagnosis.CheckUp) -> Checkup:
    """Look at PostgreSQL."""
    return await look_at(transport.engine.database)


DIAGNOSIS: HandlerTable = {
    diagnosis.Why: why,
    diagnosis.GetLedger: ledger,
    diagnosis.ListUnread: unread,
    diagnosis.Verify: verify,
    diagnosis.CheckUp: check_up,
}
