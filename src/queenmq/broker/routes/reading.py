"""POST /fetch and /partitions/changed: reads by offset, without a lease and without a group."""

from datetime import UTC, datetime
from typing import Annotated, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, Struct

from queenmq.broker import wire
from queenmq.broker.broker import Broker
from queenmq.broker.http import Request, Response, answer, decode, moment
from queenmq.engine.reading import UNKNOWN, ChangedPartition, ChangesAsked, OffsetRead, Records
from queenmq.errors import InvalidArgument
from queenmq.service.ids import id_text

T = TypeVar("T")

ENTRIES_MAX = 1_024
CHANGED_ENTRIES_MAX = 100
BYTES_MAX = 8 * 1024 * 1024  # of payload in an answer, unless the client names another number

Offset = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Bytes = Annotated[int, Meta(ge=1, le=2**62)]
Limit = Annotated[int, Meta(ge=1, le=1_000)]


class FetchEntry(Struct, rename="camel"):
    """A partition, and the offset to begin at; `previousTs`: the `ts` of the record before it, if you have read it."""

    queue: str
    partition: str
    offset: Offset
    max_bytes: Bytes = BYTES_MAX
    previous_ts: Annotated[datetime, Meta(tz=True)] | None = None


class FetchBody(Struct, rename="camel"):
    """What to read, and how many bytes of payload the answer may have in all."""

    entries: list[FetchEntry]
    max_bytes: Bytes = BYTES_MAX


class FetchedRecord(Struct, rename="camel"):
    """A stored message."""

    offset: int
    transaction_id: str
    payload: Raw
    ts: datetime
    headers: wire.StoredHeaders = UNSET


class FetchedEntry(Struct, rename="camel", omit_defaults=True):
    """What was read; `highWatermark` is the offset that the next message will get."""

    records: list[FetchedRecord]
    high_watermark: int
    log_start_offset: int
    error: str | None = None


class FetchAnswer(Struct):
    """One answer per entry, in order."""

    entries: list[FetchedEntry]


class ChangedEntry(Struct):
    """A queue; `since`: partitions written at or after a moment; `after`: what `next` of the page before said."""

    queue: str
    since: str | None = None
    after: str | None = None
    limit: Limit = 1_000


class ChangedBody(Struct):
    """Which queues to look at."""

    entries: list[ChangedEntry]


class WrittenPartition(Struct, rename="camel"):
    """A partition that was written."""

    name: str
    id: str
    last_offset: int
    log_start: int
    last_write_at: str


class ChangedPage(Struct, omit_defaults=True):
    """A page of partitions; without `next` it is the last."""

    partitions: list[WrittenPartition]
    next: str | None = None
    error: str | None = None


class ChangedAnswer(Struct, rename="camel"):
    """One page per entry; nothing written before `safeTime` can still turn up: ask with it next time."""

    safe_time: str
    entries: list[ChangedPage]


_fetch = msgspec.json.Decoder(FetchBody)
_changed = msgspec.json.Decoder(ChangedBody)


async def fetch(broker: Broker, request: Request) -> Response:
    """Read partitions by offset."""
    body = await _decoded(request, _fetch, ENTRIES_MAX)
    reads = [
        OffsetRead(each.queue, each.partition, each.offset, each.max_bytes, each.previous_ts) for each in body.entries
    ]
    room = broker.engine.room
    async with room.reading(room.fetches):
        found = await broker.engine.reader.read(reads, body.max_bytes)
        return answer(FetchAnswer([_fetched(each) for each in found]))


async def changed(broker: Broker, request: Request) -> Response:
    """Find the partitions that were written since a moment."""
    body = await _decoded(request, _changed, CHANGED_ENTRIES_MAX)
    asked = [
        ChangesAsked(
            queue=each.queue,
            since=None if each.since is None else moment(each.since, "since"),
            cursor=each.after,
            limit=each.limit,
        )
        for each in body.entries
    ]
    changes = await broker.engine.reader.changes(asked)
    pages = [
        ChangedPage([], error=UNKNOWN)
        if found is None
        else ChangedPage([_partition(each) for each in found], found[-1].cursor if len(found) == each.limit else None)
        for each, found in zip(asked, changes.partitions, strict=True)
    ]
    return answer(ChangedAnswer(_time(changes.safe_time), pages))


async def _decoded(request: Request, decoder: "msgspec.json.Decoder[T]", most: int) -> T:
    """The body, unless it has too many entries."""
    text = await request.body()
    if wire.is_longer(text, "entries", most):
        raise InvalidArgument(f"the request has more than {most} entries")
    return decode(text, decoder)


def _fetched(found: Records) -> FetchedEntry:
    return FetchedEntry(
        [
            FetchedRecord(each.offset, each.transaction_id, each.payload, each.created_at, each.given_headers or UNSET)
            for each in found.records
        ],
        found.next_offset,
        found.start_offset,
        found.error,
    )


def _partition(each: ChangedPartition) -> WrittenPartition:
    return WrittenPartition(
        each.partition,
        id_text(each.partition_id),
        each.next_offset - 1,
        each.start_offset,
        _time(each.last_message_at),
    )


def _time(moment: datetime) -> str:
    """With all six digits, always: clients compare these as text."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
