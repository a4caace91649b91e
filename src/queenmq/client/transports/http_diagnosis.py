"""What is wrong, asked over HTTP."""

import msgspec

from queenmq.client import diagnosis
from queenmq.client.transports.exchange import Exchange, ExchangeTable, path, query
from queenmq.diagnosis import Checkup, LedgerTotal, Reason, Unread, Verification

_reasons = msgspec.json.Decoder(list[Reason])
_ledger = msgspec.json.Decoder(list[LedgerTotal])
_unread = msgspec.json.Decoder(list[Unread])
_verification = msgspec.json.Decoder(Verification)
_checkup = msgspec.json.Decoder(Checkup)


def why(call: diagnosis.Why) -> Exchange[list[Reason]]:
    """GET /why/{queue}."""
    asked = query(group=call.group, partition=call.partition, limit=call.limit)
    return Exchange(path=path("why", call.queue), query=asked, repeatable=True, read=_reasons.decode)


def ledger(call: diagnosis.GetLedger) -> Exchange[list[LedgerTotal]]:
    """GET /ledger."""
    return Exchange(path=path("ledger"), query=query(queue=call.queue), repeatable=True, read=_ledger.decode)


def unread(_call: diagnosis.ListUnread) -> Exchange[list[Unread]]:
    """GET /unread."""
    return Exchange(path=path("unread"), repeatable=True, read=_unread.decode)


def verify(call: diagnosis.Verify) -> Exchange[Verification]:
    """GET /verify."""
    return Exchange(path=path("verify"), query=query(queue=call.queue), repeatable=True, read=_verification.decode)


def check_up(_call: diagnosis.CheckUp) -> Exchange[Checkup]:
    """GET /doctor."""
    return Exchange(path=path("doctor"), repeatable=True, read=_checkup.decode)


DIAGNOSIS: ExchangeTable = {
    diagnosis.Why: why,
    diagnosis.GetLedger: ledger,
    diagnosis.ListUnread: unread,
    diagnosis.Verify: verify,
    diagnosis.CheckUp: check_up,
}
