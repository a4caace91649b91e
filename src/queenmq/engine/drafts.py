"""From messages to segments: what callers hand in, and what one push call will write.

Everything here works on whole lists where it can: at a few microseconds a message there is no time to look at them
one by one.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice, repeat
from operator import attrgetter, itemgetter
from typing import Any, TypeVar
from uuid import UUID

import msgspec
from msgspec import Raw, Struct

from queenmq.engine.headers import encoded
from queenmq.engine.partitions import Name, PartitionInfo, Partitions, check_name
from queenmq.engine.segments import cut
from queenmq.errors import InvalidArgument, InvalidPayload, PayloadTooLarge
from queenmq.model import Outgoing, Pushed

SEGMENT_MESSAGES_MAX = 1_000
SEGMENT_BYTES_MAX = 1 << 20
REQUEST_BYTES_MAX = 256 << 20  # of payloads and headers in one push: PostgreSQL takes a gibibyte, encrypted
TRANSACTION_ID_CHARACTERS_MAX = 255
PRODUCER_CHARACTERS_MAX = 255

NOT_JSON = (UnicodeDecodeError, msgspec.DecodeError, RecursionError)

_addresses = attrgetter("queue", "partition", "producer")
_payloads = attrgetter("payload")
_transaction_ids = attrgetter("transaction_id")
_trace_ids = attrgetter("trace_id")
_headers = attrgetter("headers")

T = TypeVar("T")
Positions = Sequence[int]  # of messages in their request
Address = tuple[str, str, str | None]  # queue, partition, producer


class Part(Struct, gc=False):
    """The messages of one request for one partition from one producer."""

    name: Name
    producer: str | None
    positions: Positions
    payloads: Sequence[Raw]
    ids: Sequence[str | None] | None
    traces: Sequence[UUID | None] | None
    headers: Sequence[Raw | None] | None
    array: bytes | None = None  # the payloads as one JSON array, where that is at hand

    def without(self, left_out: set[int]) -> "Part":
        """The part less the messages at some indices (of the part's own lists)."""
        kept = [index for index in range(len(self.positions)) if index not in left_out]
        return Part(
            self.name,
            self.producer,
            [self.positions[index] for index in kept],
            [self.payloads[index] for index in kept],
            [self.ids[index] for index in kept] if self.ids is not None else None,
            [self.traces[index] for index in kept] if self.traces is not None else None,
            [self.headers[index] for index in kept] if self.headers is not None else None,
        )


class PushRequest(Struct):
    """The messages of one caller, checked and sorted into parts."""

    size: int
    bytes: int
    parts: list[Part]
    has_ids: bool


class Draft(Struct, gc=False):
    """A segment in the making."""

    partition: PartitionInfo
    producer: str | None
    payloads: Sequence[Raw]
    ids: Sequence[str | None] | None
    traces: Sequence[UUID | None] | None
    headers: Sequence[Raw | None] | None
    places: list[tuple[int, Positions]]  # request, positions: who gets the answers
    size: int  # in bytes
    array: bytes | None = None
    owned: bool = False  # whether the lists may be changed

    def has_room(self, size: int) -> bool:
        """Whether a message of so many bytes fits; any one fits into an empty draft."""
        fits = len(self.payloads) < SEGMENT_MESSAGES_MAX and self.size + size <= SEGMENT_BYTES_MAX
        return fits or not self.payloads

    def add(self, request: int, part: Part, start: int, end: int, size: int) -> None:
        """Take over messages start .. end of a part, `size` bytes."""
        before = len(self.payloads)
        if not self.owned:  # until now these were the part's own lists
            self.payloads = list(self.payloads)
            self.owned = True
            self.array = None
        self.payloads += part.payloads[start:end]  # type: ignore[operator]
        self.size += size
        self.places.append((request, part.positions[start:end]))
        self.ids = _joined(self.ids, before, part.ids, start, end)
        self.traces = _joined(self.traces, before, part.traces, start, end)
        self.headers = _joined(self.headers, before, part.headers, start, end)

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


class Original(Struct):
    """Where the first message with an id is."""

    offset: int
    created_at: datetime


class Flush(Struct):
    """One push call: its drafts in partition order, and the duplicates that were left out of them."""

    id: UUID
    done: asyncio.Future[None]
    drafts: list[Draft] = []
    ids: dict[int, set[str]] = {}  # by partition id
    expected: dict[int, int] = {}  # by partition id: up to where we know the partition's ids
    entries: dict[int, object] = {}  # by partition id: who knows them
    beside: set[UUID] = set()  # flushes in flight meanwhile: ours has none of their ids
    duplicates: list[tuple[int, int, PartitionInfo, str, Original]] = []  # request, position, …
    repeats: list[tuple[int, int, PartitionInfo, str]] = []  # ids that come twice in this very flush
    looked_up: set[str] = set()  # queues where a partition may be new: no group could have been waiting for it
    has_ids: bool = False  # whether any message carries a transaction id,
    has_traces: bool = False  # a trace id,
    has_headers: bool = False  # headers,
    has_producers: bool = False  # a producer
    _open: dict[int, Draft] = {}  # the last one, by partition id

    def add(self, request: int, part: Part, partition: PartitionInfo) -> None:
        """Distribute a part over drafts of bounded size; another producer begins a new one, so order is kept."""
        count = len(part.payloads)
        if not count:
            return
        size = sum(map(len, part.payloads))
        draft = self._open.get(partition.id)
        if draft is None or draft.producer != part.producer:
            if count <= SEGMENT_MESSAGES_MAX and size <= SEGMENT_BYTES_MAX:
                self._start(partition, part, [(request, part.positions)], size)
                return
            draft = None
        elif len(draft.payloads) + count <= SEGMENT_MESSAGES_MAX and draft.size + size <= SEGMENT_BYTES_MAX:
            self._extend(draft, request, part, 0, count, size)
            return
        start = 0
        while start < count:
            if draft is None or not draft.has_room(len(part.payloads[start])):
                draft = self._start(partition, part.without(set(range(count))), [], 0)
            room = SEGMENT_MESSAGES_MAX - len(draft.payloads), SEGMENT_BYTES_MAX - draft.size
            end, size = _bounded(part.payloads, start, *room)
            self._extend(draft, request, part, start, end, size)
            start = end

    def _extend(self, draft: Draft, request: int, part: Part, start: int, end: int, size: int) -> None:
        draft.add(request, part, start, end, size)
        self._note(part)

    def _start(self, partition: PartitionInfo, part: Part, places: list[tuple[int, Positions]], size: int) -> Draft:
        draft = Draft(
            partition, part.producer, part.payloads, part.ids, part.traces, part.headers, places, size, part.array
        )
        self._open[partition.id] = draft
        self.drafts.append(draft)
        self._note(part)
        return draft

    def _note(self, part: Part) -> None:
        """What none of the messages has is not even sent as a list of nothing."""
        self.has_ids = self.has_ids or part.ids is not None
        self.has_traces = self.has_traces or part.traces is not None
        self.has_headers = self.has_headers or part.headers is not None
        self.has_producers = self.has_producers or part.producer is not None


def check(messages: Sequence[Outgoing], partitions: Partitions, payload_bytes_max: int) -> PushRequest:
    """Refuse what cannot be pushed before it meets other requests; sort the rest into parts."""
    addresses = list(map(_addresses, messages))
    names = set(addresses)
    for queue, partition, producer in names:
        if partitions.get((queue, partition)) is None:
            check_name(queue, "queue")
            check_name(partition, "partition")
        if producer is not None:
            _check_producer(producer)
    given = list(map(_payloads, messages))
    lengths = list(map(len, given))
    headers = encoded(list(map(_headers, messages)))
    size = _checked_size(lengths, headers)
    array, payloads = _cut_payloads(given, lengths, payload_bytes_max)
    ids = _given(list(map(_transaction_ids, messages)))
    if ids is not None:
        _check_ids([id for id in ids if id is not None])
    traces = _given(list(map(_trace_ids, messages)))
    if len(names) == 1:
        [(queue, partition, producer)] = names
        parts = [Part((queue, partition), producer, range(len(messages)), payloads, ids, traces, headers, array)]
    else:
        parts = [
            Part(
                (queue, partition),
                producer,
                places,
                _picked(payloads, places),
                _given(_picked(ids, places)) if ids is not None else None,
                _given(_picked(traces, places)) if traces is not None else None,
                _given(_picked(headers, places)) if headers is not None else None,
            )
            for (queue, partition, producer, *_), places in _runs(addresses, names).items()
        ]
    return PushRequest(len(messages), size, parts, ids is not None)


def _runs(addresses: list[Address], names: set[Address]) -> dict[tuple[Any, ...], list[int]]:
    """The positions of messages by partition and producer; where producers take turns, by turn."""
    runs: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    if len({(queue, partition) for queue, partition, _ in names}) == len(names):
        for position, address in enumerate(addresses):
            runs[address].append(position)
        return runs
    turns: dict[Name, tuple[str | None, int]] = {}  # by partition: who was last, and how often that changed
    for position, (queue, partition, producer) in enumerate(addresses):
        last, turn = turns.get((queue, partition), (producer, 0))
        turn += producer != last
        turns[queue, partition] = producer, turn
        runs[queue, partition, producer, turn].append(position)
    return runs


def _picked(values: Sequence[T], places: list[int]) -> Sequence[T]:
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


def _joined(
    have: Sequence[T | None] | None, before: int, more: Sequence[T | None] | None, start: int, end: int
) -> Sequence[T | None] | None:
    """A list with another behind it, where either may be missing; `before` is how long it should be."""
    if have is None and more is None:
        return None
    joined: list[T | None] = list(have) if have is not None else [None] * before
    joined += more[start:end] if more is not None else [None] * (end - start)
    return joined


def _bounded(payloads: Sequence[Raw], start: int, messages_max: int, bytes_max: int) -> tuple[int, int]:
    """How far a draft can take over payloads from `start`, and their bytes: at least one, then up to both limits."""
    size = 0
    end = start
    while end < len(payloads) and end - start < messages_max:
        more = len(payloads[end])
        if end > start and size + more > bytes_max:
            break
        size += more
        end += 1
    return end, size


def ids_by_partition(
    requests: Sequence[PushRequest], places: dict[Name, PartitionInfo]
) -> dict[PartitionInfo, list[str]]:
    """The ids that have to be new; where the window is zero, none has."""
    ids: dict[PartitionInfo, list[str]] = {}
    for request in requests:
        for part in request.parts:
            if part.ids is not None and (partition := places[part.name]).queue.dedup_window:
                ids.setdefault(partition, []).extend(filter(None, part.ids))
    return ids


def json_array(payloads: Sequence[Raw] | Sequence[bytes]) -> bytes:
    """The JSON array of some JSON texts, with one allocation: they can be large."""
    if len(payloads) == 1:
        return b"[%b]" % payloads[0]
    return b",".join((b"[%b" % payloads[0], *payloads[1:-1], b"%b]" % payloads[-1]))


def texts(values: Iterable[object] | None) -> str | None:
    """A JSON array, or nothing where there is nothing to say."""
    return None if values is None else msgspec.json.encode(values).decode()
