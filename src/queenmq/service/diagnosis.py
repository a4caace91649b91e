"""What is wrong, if anything."""

from msgspec.structs import replace

from queenmq.api import diagnosis
from queenmq.engine.checkup import check_up as examine
from queenmq.service.host import Host


async def why(host: Host, call: diagnosis.Why) -> list[diagnosis.Reason]:
    """Call queen.why."""
    return await host.engine.diagnosis.why(call.queue, group=call.group, partition=call.partition, limit=call.limit)


async def get_ledger(host: Host, call: diagnosis.GetLedger) -> list[diagnosis.LedgerTotal]:
    """Read queen.ledger."""
    return await host.engine.diagnosis.ledger(call.queue)


async def list_unread(host: Host, call: diagnosis.ListUnread) -> list[diagnosis.Unread]:
    """Read queen.unread."""
    return await host.engine.diagnosis.unread()


async def verify(host: Host, call: diagnosis.Verify) -> diagnosis.Verification:
    """Read queen.ledger and call queen.check_consistency."""
    return await host.engine.diagnosis.verify(call.queue)


async def check_up(host: Host, call: diagnosis.CheckUp) -> diagnosis.Checkup:
    """Examine PostgreSQL and the host."""
    checkup = await examine(host.engine.database)
    before, after = host.own_checks()
    return replace(checkup, checks=[*before, *checkup.checks, *after])
