"""What crosses the engine's border: messages out, messages in, and what was said about them.

Payloads are JSON text as bytes; nobody here looks inside. Structs are frozen where they are answers, and a
message's id is computed when somebody asks for it: it is made of where the message lives. What exists by the
thousand is hidden from the garbage collector (gc=False): it cannot be part of a cycle.
"""

from queenmq.model.deliveries import (
    QUEUE_MODE,
    Ack,
    Acked,
    AckStatus,
    Lease,
    Message,
    PopKind,
    PopRequest,
    SubscriptionMode,
)
from queenmq.model.headers import Headers, read_headers
from queenmq.model.ids import OFFSET_DIGITS, id_prefix, message_id, message_text, message_texts, milliseconds
from queenmq.model.outgoing import (
    DEFAULT_PARTITION,
    FlushMark,
    NumberedIds,
    Outgoing,
    Payloads,
    Pushed,
    PushedRun,
    PushedRuns,
)
from queenmq.model.records import (
    DeadLetter,
    Depth,
    EventName,
    GroupLine,
    GroupPlace,
    LedgerLine,
    Located,
    QueueSettings,
    StoredMessage,
    TraceEvent,
    TraceStep,
)

__all__ = [
    "DEFAULT_PARTITION",
    "OFFSET_DIGITS",
    "QUEUE_MODE",
    "Ack",
    "AckStatus",
    "Acked",
    "DeadLetter",
    "Depth",
    "EventName",
    "FlushMark",
    "GroupLine",
    "GroupPlace",
    "Headers",
    "Lease",
    "LedgerLine",
    "Located",
    "Message",
    "NumberedIds",
    "Outgoing",
    "Payloads",
    "PopKind",
    "PopRequest",
    "Pushed",
    "PushedRun",
    "PushedRuns",
    "QueueSettings",
    "StoredMessage",
    "SubscriptionMode",
    "TraceEvent",
    "TraceStep",
    "id_prefix",
    "message_id",
    "message_text",
    "message_texts",
    "milliseconds",
    "read_headers",
]
