"""What calls answer. A struct is decoded straight from the server's JSON; the direct transport builds the same one.

Ids are strings, opaque and shaped like UUIDs. Payloads stay JSON text until somebody looks at them.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import count, repeat
from typing import Literal

from msgspec import Raw, Struct

from queenmq.api.payload import HasPayload
from queenmq.errors import BY_CODE
from queenmq.model import OFFSET_DIGITS, Headers, Lease
from queenmq.model.lazily import Lazily

PushStatus = Literal["queued", "duplicate", "buffered"]


class Pushed(
    Struct,
    frozen=True,
    gc=False,
    rename={
        "id": "message_id",
        "queue": "queueName",
        "queue_depth": "queueDepth",
        "remaining_capacity": "remainingCapacity",
    },
):
    """What became of a pushed message.

    `duplicate`: its transaction id was there before, and `id` is the first message's. `buffered`: PostgreSQL is away
    or in maintenance; the server keeps the message on disk, stores it later, and nobody knows its `id` yet.

    If the push asked for the capacity, `queue_depth` is how many messages of the queue some group has yet to finish.
    `remaining_capacity` is how many more the queue takes (None if it has no limit).
    """

    status: PushStatus
    queue: str
    transaction_id: str | None
    id: str | None = None
    partition_id: str | None = None
    queue_depth: int | None = None
    remaining_capacity: int | None = None

    @property
    def duplicate(self) -> bool:
        """Whether the message had been pushed before."""
        return self.status == "duplicate"


class Receipts(Lazily[Pushed]):
    """What became of messages that were stored one behind the other; their ids count up from the first."""

    def __init__(
        self,
        status: PushStatus,
        queue: str,
        partition_id: str | None,
        first_id: str | None,
        length: int,
        transaction_ids: Sequence[str | None] | None,
    ) -> None:
        self._status = status
        self._queue = queue
        self._partition_id = partition_id
        self._first_id = first_id
        self._length = length
        self._transaction_ids = transaction_ids

    def __len__(self) -> int:
        return self._length

    def _make(self) -> Iterable[Pushed]:
        given = repeat(None, self._length) if self._transaction_ids is None else self._transaction_ids
        for transaction_id, id in zip(given, self._ids(), strict=False):
            yield Pushed(self._status, self._queue, transaction_id or id, id, self._partition_id)

    def _ids(self) -> Iterator[str | None]:
        if self._first_id is None:  # nobody knows them yet
            yield from repeat(None)
        else:
            prefix, first = self._first_id[:-OFFSET_DIGITS], int(self._first_id[-OFFSET_DIGITS:], 16)
            yield from (f"{prefix}{offset:0{OFFSET_DIGITS}x}" for offset in count(first))


class Delivery(
    HasPayload,
    Struct,
    frozen=True,
    gc=False,
    rename={
        "transaction_id": "transactionId",
        "created_at": "createdAt",
        "partition_id": "partitionId",
        "raw": "data",
        "lease_id": "leaseId",
        "group": "consumerGroup",
        "trace_id": "traceId",
        "producer": "producerSub",
        "retry_count": "retryCount",
    },
):
    """A delivered message as it came; `lease_id` is empty where the pop acknowledged it itself."""

    id: str
    transaction_id: str
    queue: str
    partition: str
    partition_id: str
    offset: int
    raw: Raw
    created_at: datetime
    lease_id: str
    group: str
    trace_id: str | None = None
    producer: str | None = None
    retry_count: int = 0
    headers: Headers = {}
    lease: Lease | None = None  # known without a server only

    @property
    def attempt(self) -> int:
        """Which delivery to its group this is: 1 is the first."""
        return self.retry_count + 1

    @property
    def location(self) -> dict[str, object]:
        """Its queue, partition, offset and attempt: the fields of a log line about it."""
        return {"queue": self.queue, "partition": self.partition, "offset": self.offset, "attempt": self.attempt}

    def __str__(self) -> str:
        """The same, for the text of that line."""
        return ", ".join(f"{name} {value}" for name, value in self.location.items())


class Acked(Struct, frozen=True, gc=False, rename={"released": "leaseReleased", "dead_lettered": "dlq"}):
    """The answer to one acknowledgement.

    `released`: its lease has ended, everything in it was answered. `dead_lettered`: it failed too often, or was to be
    given up. `error` says why it does not count.
    """

    success: bool
    error: str | None = None
    released: bool = False
    dead_lettered: bool = False


class Record(HasPayload, Struct, frozen=True, gc=False):
    """A stored message, read by its offset."""

    queue: str
    partition: str
    offset: int
    transaction_id: str
    created_at: datetime
    raw: Raw
    headers: Headers = {}


class Fetched(Struct, frozen=True):
    """What one position gave: the oldest offset that is kept is `start_offset`, `next_offset` is not written yet.

    `error`: OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, or POSITION_LOST if the message before is another one.
    """

    records: Sequence[Record]
    start_offset: int
    next_offset: int
    error: str | None = None

    def read_on(self, offset: int) -> int | None:
        """Where to read on after having asked for an offset; None when there is nothing more, for now."""
        if self.records:
            return self.records[-1].offset + 1
        if self.error in BY_CODE:
            raise BY_CODE[self.error]()
        return self.start_offset if offset < self.start_offset else None  # what was there has been deleted


class ChangedPartition(
    Struct,
    frozen=True,
    rename={
        "partition": "name",
        "partition_id": "id",
        "last_offset": "lastOffset",
        "start_offset": "logStart",
        "last_message_at": "lastWriteAt",
    },
):
    """A partition that was written."""

    partition: str
    partition_id: str
    last_offset: int
    start_offset: int
    last_message_at: datetime


class Changes(Struct, frozen=True):
    """A page of partitions; before `safe_time`, nothing more will turn out to have been written."""

    safe_time: datetime
    partitions: Sequence[ChangedPartition]
    cursor: str | None = None
