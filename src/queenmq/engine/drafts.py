"""From messages to segments: what callers hand in, and what one push call will write.

Everything here works on whole lists where it can: at a few microseconds a message there is no time to look at them
one by one.
"""

import asyncio
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from copy import copy
from datetime import datetime
from itertools import islice, repeat
from operator import attrgetter, itemgetter
from typing import Any, TypeVar
from uuid import UUID

import msgspec
import numpy as np
from msgspec import Raw, Struct
from numpy.typing import NDArray

from queenmq.engine.headers import encoded
from queenmq.engine.partitions import NOWHERE, Name, PartitionInfo, Partitions, check_name
from queenmq.engine.segments import cut
from queenmq.errors import InvalidArgument, InvalidPayload, PayloadTooLarge
from queenmq.model import Outgoing, Pushed

SEGMENT_MESSAGES_MAX = 1_000
SEGMENT_BYTES_MAX = 1 << 20
REQUEST_BYTES_MAX = 256 << 20  # of payloads and headers in one push: PostgreSQL takes a gibibyte, encrypted
TRANSACTION_ID_CHARACTERS_MAX = 255
PRODUCER_CHARACTERS_MAX = 255

NOT_JSON = (UnicodeDecodeError, msgspec.DecodeError, RecursionError)

_queues = attrgetter("queue")
_partitions = attrgetter("partition")
_producers = attrgetter("producer")
_payloads = attrgetter("payload")
_transaction_ids = attrgetter("transaction_id")
_trace_ids = attrgetter("trace_id")
_headers = attrgetter("headers")

T = TypeVar("T")
Positions = Sequence[int]  # of messages in their request
Place = tuple[int, Positions]  # request, positions
IdKey = tuple[int, str]  # partition id, transaction id


class Draft(Struct, gc=False):
    """A segment in the making: messages for one partition from one producer, of one request or of several."""

    name: Name
    producer: str | None
    positions: Positions  # in the request they came with
    payloads: Sequence[Raw]
    ids: Sequence[str | None] | None
    traces: Sequence[UUID | None] | None
    headers: Sequence[Raw | None] | None
    size: int  # in bytes
    array: bytes | None = None  # the payloads as one JSON array, where that is at hand
    partition: PartitionInfo = NOWHERE
    places: list[Place] = []  # who gets the answers
    joins: bool = False  # several requests, in lists that may be changed

    def without(self, left_out: set[int]) -> "Draft":
        """The draft less the messages at some indices (of the draft's own lists)."""
        kept = [index for index in range(len(self.payloads)) if index not in left_out]
        payloads = [self.payloads[index] for index in kept]
        return Draft(
            self.name,
            self.producer,
            [self.positions[index] for index in kept],
            payloads,
            [self.ids[index] for index in kept] if self.ids is not None else None,
            [self.traces[index] for index in kept] if self.traces is not None else None,
            [self.headers[index] for index in kept] if self.headers is not None else None,
            sum(map(len, payloads)),
        )

    def has_room(self, more: "Draft") -> bool:
        """Whether another draft for the same partition fits in behind; another producer begins a new segment."""
        return (
            self.producer == more.producer
            and len(self.payloads) + len(more.payloads) <= SEGMENT_MESSAGES_MAX
            and self.size + more.size <= SEGMENT_BYTES_MAX
        )

    def joined(self, request: int, more: "Draft") -> "Draft":
        """This draft with another behind it. Drafts of one request stay as they are: it may have to be tried again."""
        joint = self
        if not self.joins:
            joint = copy(self)
            joint.payloads, joint.places, joint.array, joint.joins = list(self.payloads), [*self.places], None, True
            joint.ids, joint.traces, joint.headers = map(_listed, (self.ids, self.traces, self.headers))
        sizes = len(joint.payloads), len(more.payloads)
        joint.payloads += more.payloads  # type: ignore[operator]
        joint.size += more.size
        joint.places.append((request, more.positions))
        joint.ids = _joined(joint.ids, more.ids, *sizes)
        joint.traces = _joined(joint.traces, more.traces, *sizes)
        joint.headers = _joined(joint.headers, more.headers, *sizes)
        return joint

    def answers(self, first_offset: int, created_at: datetime, answers: list[list[Pushed]]) -> None:
        """Put the answer of every message where its caller will find it."""
        count = len(self.payloads)
        if count == 1:
            [(request, [position])] = self.places
            id = self.ids[0] if self.ids is not None else None
            answers[request][position] = Pushed(self.partition.id, first_offset, created_at, id)
            return
        offsets = range(first_offset, first_offset + count)
        ids = self.ids or repeat(None, count)
        pushed = map(Pushed, repeat(self.partition.id), offsets, repeat(created_at), ids)
        for request, positions in self.places:
            own = answers[request]
            if len(positions) == len(own):  # all that was asked for, in order
                own[:] = islice(pushed, len(own))
            else:
                for position, each in zip(positions, pushed, strict=False):  # the next place goes on from here
                    own[position] = each


class PushRequest(Struct):
    """The messages of one caller, checked and sorted by partition and producer."""

    size: int
    bytes: int
    drafts: list[Draft]
    has_ids: bool  # whether any message carries a transaction id,
    has_traces: bool  # a trace id,
    has_headers: bool  # headers,
    has_producers: bool  # a producer


class Original(Struct):
    """Where the first message with an id is."""

    offset: int
    created_at: datetime


class Flush(Struct):
    """One push call: its drafts in partition order, and the duplicates that were left out of them."""

    id: UUID
    done: asyncio.Future[None]
    keys: NDArray[np.uint64]  # of the ids of the requests, sorted
    drafts: list[Draft] = []
    expected: dict[int, int] = {}  # by partition id: up to where we know the partition's ids
    entries: dict[int, object] = {}  # by partition id: who knows them
    beside: set[UUID] = set()  # flushes in flight meanwhile: ours has none of their ids
    duplicates: list[tuple[int, int, PartitionInfo, str, Original]] = []  # request, position, …
    repeats: list[tuple[int, int, PartitionInfo, str]] = []  # ids that come twice in this very flush
    looked_up: set[str] = set()  # queues where a partition may be new: no group could have been waiting for it
    has_ids: bool = False  # as the requests: what none of the messages has is not even sent as a list of nothing
    has_traces: bool = False
    has_headers: bool = False
    has_producers: bool = False
    _open: dict[int, int] = {}  # by partition id: which of the drafts is its last one

    def note(self, request: PushRequest) -> None:
        """What a request brings along."""
        self.has_ids |= request.has_ids
        self.has_traces |= request.has_traces
        self.has_headers |= request.has_headers
        self.has_producers |= request.has_producers

    def add(self, request: int, draft: Draft, partition: PartitionInfo) -> None:
        """Take in a draft: behind the last one of its partition, or as one of its own."""
        if not draft.payloads:  # all of it was there already
            return
        last = self._open.get(partition.id)
        if last is not None and self.drafts[last].has_room(draft):
            self.drafts[last] = self.drafts[last].joined(request, draft)
            return
        draft.partition = partition
        draft.places = [(request, draft.positions)]
        self._open[partition.id] = len(self.drafts)
        self.drafts.append(draft)


def check(messages: Sequence[Outgoing], partitions: Partitions, payload_bytes_max: int) -> PushRequest:
    """Refuse what cannot be pushed before it meets other requests; sort the rest."""
    received = list(map(_payloads, messages))
    lengths = list(map(len, received))
    headers = encoded(list(map(_headers, messages)))
    size = _checked_size(lengths, headers)
    array, payloads = _cut_payloads(received, lengths, payload_bytes_max)
    ids = _given(list(map(_transaction_ids, messages)))
    if ids is not None:
        _check_ids(given(ids))
    traces = _given(list(map(_trace_ids, messages)))
    queues = list(map(_queues, messages))
    names = list(map(_partitions, messages))
    producers = list(map(_producers, messages))
    drafts: list[Draft] = []
    for places in _runs(queues, names, producers):
        picked = _picked(payloads, places)
        draft = Draft(
            (queues[places[0]], names[places[0]]),
            producers[places[0]],
            places,
            picked,
            ids and _given(_picked(ids, places)),
            traces and _given(_picked(traces, places)),
            headers and _given(_picked(headers, places)),
            sum(map(len, picked)),
            array if picked is payloads else None,
        )
        drafts += _bounded(draft)
    for queue, partition in partitions.unknown(draft.name for draft in drafts):
        check_name(queue, "queue")
        check_name(partition, "partition")
    for producer in set(producers):
        if producer is not None:
            _check_producer(producer)
    given_at_all = [each is not None for each in (ids, traces, headers, _given(producers))]
    return PushRequest(len(messages), size, drafts, *given_at_all)


def _alike(values: list[Any]) -> bool:
    return values.count(values[0]) == len(values)


def _runs(queues: list[str], names: list[str], producers: list[str | None]) -> Iterable[Positions]:
    """The positions of messages by partition and producer; where producers take turns, by turn."""
    if _alike(producers):
        if _alike(queues):
            return (range(len(names)),) if _alike(names) else _places(names)
        return _places(zip(queues, names, strict=True))
    addresses: list[tuple[str, str, int]] = []
    turns: dict[Name, tuple[str | None, int]] = {}  # by partition: who was last, and how often that changed
    for queue, name, producer in zip(queues, names, producers, strict=True):
        last, turn = turns.get((queue, name), (producer, 0))
        turn += producer != last
        turns[queue, name] = producer, turn
        addresses.append((queue, name, turn))
    return _places(addresses)


def _places(addresses: Iterable[Hashable]) -> Iterable[Positions]:
    """Where each address is found."""
    places: dict[Hashable, list[int]] = defaultdict(list)
    for position, address in enumerate(addresses):
        places[address].append(position)
    return places.values()


def _picked(values: Sequence[T], places: Positions) -> Sequence[T]:
    if len(places) == len(values):
        return values
    return itemgetter(*places)(values) if len(places) > 1 else (values[places[0]],)


def _checked_size(lengths: list[int], headers: Sequence[Raw | None] | None) -> int:
    """The bytes of a request; refuses more than one call can carry."""
    size = sum(lengths)
    if headers is not None:
        size += sum(map(len, filter(None, headers)))
    if size > REQUEST_BYTES_MAX:
        raise PayloadTooLarge(f"the messages have {size} bytes together; {REQUEST_BYTES_MAX} is the most")
    return size


def _cut_payloads(payloads: list[bytes], lengths: list[int], bytes_max: int) -> tuple[bytes, list[Raw]]:
    """The payloads as an array, and cut out of it, known to be JSON; refuses the first that is not."""
    if max(lengths) > bytes_max:
        place = next(place for place, length in enumerate(lengths) if length > bytes_max)
        raise PayloadTooLarge(f"message {place} has {lengths[place]} bytes; {bytes_max} is the most")
    joined = json_array(payloads)
    try:
        if not joined.isascii():
            joined.decode()
        pieces = cut(joined)
        if _same(pieces, payloads, lengths):
            return joined, pieces
    except NOT_JSON:
        pass
    for place, payload in enumerate(payloads):
        try:
            payload.decode()
            if len(cut(b"[" + payload + b"]")) != 1:
                raise InvalidPayload(f"the payload of message {place} is not one JSON value")
        except NOT_JSON as error:
            raise InvalidPayload(f"the payload of message {place} is not JSON: {error}") from None
    raise InvalidPayload("the payloads are not JSON")


def _same(pieces: Sequence[Raw], payloads: Sequence[bytes], lengths: list[int]) -> bool:
    """Whether the commas that were found are those between the payloads, not some inside them."""
    found = list(map(len, pieces))
    return found == lengths or found == [len(payload.strip(b" \t\n\r")) for payload in payloads]


def _check_producer(producer: str) -> None:
    try:
        producer.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("the producer cannot be written in UTF-8") from None
    if len(producer) > PRODUCER_CHARACTERS_MAX or "\x00" in producer:
        raise InvalidArgument(f"a producer has at most {PRODUCER_CHARACTERS_MAX} characters, none of them U+0000")


def _check_ids(ids: Sequence[str]) -> None:
    joined = "".join(ids)
    if not all(ids) or max(map(len, ids)) > TRANSACTION_ID_CHARACTERS_MAX or "\x00" in joined:
        raise InvalidArgument(
            f"a transaction id has 1 to {TRANSACTION_ID_CHARACTERS_MAX} characters, none of them U+0000"
        )
    try:
        joined.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("a transaction id cannot be written in UTF-8") from None


def _given(values: Sequence[T | None]) -> Sequence[T | None] | None:
    """The values, or None when there is nothing in it."""
    return None if values.count(None) == len(values) else values


def _listed(values: Sequence[Any] | None) -> list[Any] | None:
    return None if values is None else list(values)


def _joined(have: Any, more: Sequence[T | None] | None, before: int, count: int) -> list[T | None] | None:
    """A list of `before` values, with `count` more behind; either may be missing."""
    if have is None and more is None:
        return None
    joined: list[T | None] = have if have is not None else [None] * before
    joined += more if more is not None else [None] * count
    return joined


def _bounded(draft: Draft) -> list[Draft]:
    """The draft, or as many as it takes for none to be larger than a segment may be; any one message fits."""
    count = len(draft.payloads)
    if count <= SEGMENT_MESSAGES_MAX and draft.size <= SEGMENT_BYTES_MAX:
        return [draft]
    pieces: list[Draft] = []
    start = 0
    while start < count:
        end, size = start + 1, len(draft.payloads[start])
        while (
            end < count
            and end - start < SEGMENT_MESSAGES_MAX
            and size + (more := len(draft.payloads[end])) <= SEGMENT_BYTES_MAX
        ):
            end, size = end + 1, size + more
        pieces.append(
            Draft(
                draft.name,
                draft.producer,
                draft.positions[start:end],
                draft.payloads[start:end],
                draft.ids[start:end] if draft.ids is not None else None,
                draft.traces[start:end] if draft.traces is not None else None,
                draft.headers[start:end] if draft.headers is not None else None,
                size,
            )
        )
        start = end
    return pieces


def ids_by_partition(
    requests: Sequence[PushRequest], places: Sequence[PartitionInfo]
) -> dict[PartitionInfo, list[str]]:
    """The ids that have to be new; where the window is zero, none has."""
    ids: dict[PartitionInfo, list[str]] = {}
    drafts = [draft for request in requests for draft in request.drafts]
    for draft, partition in zip(drafts, places, strict=True):
        if draft.ids is not None and partition.queue.dedup_window:
            ids.setdefault(partition, []).extend(given(draft.ids))
    return ids


def given(ids: Sequence[str | None]) -> Sequence[str]:
    """The ids without the gaps."""
    return list(filter(None, ids)) if None in ids else ids  # type: ignore[return-value]


def json_array(payloads: Sequence[Raw] | Sequence[bytes]) -> bytes:
    """The JSON array of some JSON texts, with one allocation: they can be large."""
    if len(payloads) == 1:
        return b"[%b]" % payloads[0]
    return b",".join((b"[%b" % payloads[0], *payloads[1:-1], b"%b]" % payloads[-1]))


def texts(values: Iterable[object] | None) -> str | None:
    """A JSON array, or nothing where there is nothing to say."""
    return None if values is None else msgspec.json.encode(values).decode()
