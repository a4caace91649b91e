"""Messages of a pop as they travel.

Groups that read one stream get the same texts, but for the lease's own fields: a text is made once, with holes for
these, and kept for a while.
"""

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from msgspec import UNSET, Raw, Struct

from queenmq.broker import wire
from queenmq.broker.http import encode
from queenmq.engine.pop.popper import Run
from queenmq.model import message_texts
from queenmq.service.ids import id_text

KEPT_BYTES_MAX = 4 << 20
HOLE = b"\0"  # where the lease's fields go: no JSON text has this byte


class Told(NamedTuple):
    """What a client is told of a run: the texts of its messages, separated by commas, and the names it acks them by."""

    text: bytes
    names: Sequence[str]


class _Message(Struct, gc=False, rename="camel"):
    """What messages of a segment do not share; the last field is text that brings all others with it."""

    id: str
    transaction_id: str
    trace_id: UUID | None
    data: Raw
    offset: int
    headers: wire.StoredHeaders
    created_at: Raw


class _Shared(Struct, rename="camel"):
    """What messages of a segment share."""

    created_at: datetime
    queue: str
    partition: str
    partition_id: str
    producer_sub: str | None


class _Own(Struct, rename="camel"):
    """What a lease knows of a message."""

    lease_id: str
    consumer_group: str
    retry_count: int


class RunTexts:
    """Texts of runs, the latest ones kept. They are forgotten when the database's incarnation is another one."""

    def __init__(self, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self.bytes = 0  # of the texts that are kept
        self._incarnation = ""  # of the database, to which they belong
        self._kept: OrderedDict[tuple[int, int, int], Told] = OrderedDict()  # partition, from, to

    def told(self, incarnation: str, run: Run, lease_id: str) -> Told:
        """A run's messages under a lease."""
        if incarnation != self._incarnation:
            self._incarnation, self.bytes = incarnation, 0
            self._kept.clear()
        common = self._common(run.offsets, run) if isinstance(run.offsets, range) else _made(run)
        return Told(_filled(common.text, run, lease_id), common.names)

    def _common(self, offsets: range, run: Run) -> Told:
        key = run.lease.partition_id, offsets.start, offsets.stop
        common = self._kept.get(key)
        if common is None:
            common = self._kept[key] = _made(run)
            self.bytes += len(common.text)
            while self.bytes > self._bytes_max:
                self.bytes -= len(self._kept.popitem(last=False)[1].text)
        return common


def _made(run: Run) -> Told:
    """What all groups are told, with holes."""
    held, lease = run.segment, run.lease
    ids = message_texts(held.created_at, lease.partition_id, run.offsets)
    nothing = [None] * len(ids)
    given = run.picked(held.transaction_ids) if held.transaction_ids is not None else nothing
    names = [name or id for name, id in zip(given, ids, strict=True)] if None in given else given
    shared = _Shared(held.created_at, lease.queue, lease.partition, id_text(lease.partition_id), held.producer)
    rest = Raw(_value(_fields(shared)) + b"," + HOLE)
    messages = map(
        _Message,
        ids,
        names,
        run.picked(held.trace_ids) if held.trace_ids is not None else nothing,
        run.picked(held.payloads),
        run.offsets,
        [each or UNSET for each in run.picked(held.headers)] if held.headers is not None else [UNSET] * len(ids),
        [rest] * len(ids),
    )
    return Told(encode(list(messages))[1:-1], names)  # type: ignore[arg-type]


def _filled(text: bytes, run: Run, lease_id: str) -> bytes:
    """A text with what the lease knows of each message."""
    group, counts = run.lease.group, run.retry_counts
    if counts.count(counts[0]) == len(counts):
        return text.replace(HOLE, _own(lease_id, group, counts[0]))
    *pieces, end = text.split(HOLE)
    return b"".join(piece + _own(lease_id, group, count) for piece, count in zip(pieces, counts, strict=True)) + end


@lru_cache(maxsize=1_000)  # mostly the same for all of a pop
def _own(lease_id: str, group: str, retry_count: int) -> bytes:
    return _fields(_Own(lease_id, group, retry_count))


def _fields(struct: Struct) -> bytes:
    """A struct's fields, to be written among others."""
    return encode(struct)[1:-1]


def _value(fields: bytes) -> bytes:
    """The same, to be written as the value of a field of the first one's name."""
    return fields.partition(b":")[2]
