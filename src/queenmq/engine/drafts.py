"""From messages to segments: what callers hand in, and what one push call will write.

Everything here works on whole columns where it can: at a few microseconds a message there is no time to look at them
one by one. Requests that travel together are put end to end first, and sorted by partition then.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate, chain, pairwise, repeat
from operator import attrgetter, itemgetter
from typing import TypeVar
from uuid import UUID

import msgspec
import numpy as np
from msgspec import Raw, Struct
from numpy.typing import NDArray

from queenmq.engine.headers import encoded
from queenmq.engine.partitions import Name, PartitionInfo, Partitions, check_name
from queenmq.errors import InvalidArgument, InvalidPayload, PayloadTooLarge
from queenmq.model import Outgoing, Payloads, Pushed, PushedRun
from queenmq.model.payloads import NOT_JSON, check_json, cut, json_array

SEGMENT_MESSAGES_MAX = 1_000
SEGMENT_BYTES_MAX = 1 << 20
REQUEST_BYTES_MAX = 256 << 20  # of payloads and headers in one push: PostgreSQL takes a gibibyte, encrypted
TRANSACTION_ID_CHARACTERS_MAX = 255
PRODUCER_CHARACTERS_MAX = 255

T = TypeVar("T")
Address = TypeVar("Address", bound=Hashable)
Places = Sequence[int]  # of messages among those that travel together
Column = Sequence[T | None] | None  # None: no message has such a thing
IdKey = tuple[int, str]  # partition id, transaction id
Keys = NDArray[np.uint64]  # hashes of ids with their partitions

NO_KEYS: Keys = np.zeros(0, dtype=np.uint64)


class PushRequest(Struct):
    """The messages of one caller, checked; or those of several, end to end."""

    queues: Sequence[str]
    partitions: Sequence[str]
    targets: set[Name]  # queues and partitions, each pair once
    payloads: Sequence[bytes | Raw]
    ids: Column[str]
    traces: Column[UUID]
    headers: Column[Raw]
    producers: Column[str]
    byte_count: int
    array: bytes | None = None  # the payloads as one JSON array, where all go to one partition

    @property
    def size(self) -> int:
        """How many messages there are."""
        return len(self.payloads)


class Draft(Struct, gc=False):
    """A segment in the making: messages for one partition from one producer."""

    partition: PartitionInfo
    places: Places
    array: bytes  # the payloads, as one JSON array
    ids: Column[str]
    traces: Column[UUID]
    headers: Column[Raw]
    producer: str | None
    keys: Keys = NO_KEYS  # of the ids, where they have to be new

    @property
    def has_window(self) -> bool:
        """Whether its ids have to be new."""
        return bool(self.partition.queue.dedup_window)

    def answer(self, first_offset: int, created_at: datetime, answers: list[Pushed]) -> None:
        """Say what became of the messages, each at its place."""
        if len(self.places) == 1:
            id = self.ids[0] if self.ids is not None else None
            answers[self.places[0]] = Pushed(self.partition.id, first_offset, created_at, id)
            return
        for place, each in zip(self.places, self.run(first_offset, created_at), strict=True):
            answers[place] = each

    def run(self, first_offset: int, created_at: datetime) -> PushedRun:
        """What became of the messages, in order."""
        offsets = range(first_offset, first_offset + len(self.places))
        return PushedRun(self.partition.id, offsets, created_at, self.ids)


class Original(Struct):
    """Where the first message with an id is."""

    offset: int
    created_at: datetime


class Flush(Struct):
    """One push call: its drafts in partition order, and the duplicates that were left out of them."""

    id: UUID
    done: asyncio.Future[None]
    request: PushRequest
    keys: Keys  # of the ids that have to be new, sorted
    drafts: list[Draft]
    looked_up: set[str]  # queues where a partition may be new: no group could have been waiting for it
    lessons: int  # that the window had when ids were compared with it
    expected: dict[int, int] = {}  # by partition id: up to where we know the partition's ids
    entries: dict[int, object] = {}  # by partition id: who knows them
    beside: set[UUID] = set()  # flushes in flight meanwhile: ours has none of their ids
    duplicates: list[tuple[int, PartitionInfo, str, Original]] = []  # by place
    repeats: list[tuple[int, PartitionInfo, str]] = []  # ids that come twice in this very flush


def check(messages: Sequence[Outgoing], partitions: Partitions, payload_bytes_max: int) -> PushRequest:
    """Refuse what cannot be pushed before it meets other requests."""
    if isinstance(messages, Payloads):
        return _check_payloads(messages, partitions, payload_bytes_max)
    payloads = [message.payload for message in messages]
    lengths = list(map(len, payloads))
    headers = encoded([message.headers for message in messages])
    size = _checked_size(lengths, headers)
    array = _checked_array(payloads, lengths, payload_bytes_max)
    ids = _given([message.transaction_id for message in messages])
    if ids is not None:
        _check_ids(given(ids))
    queues, names = [message.queue for message in messages], [message.partition for message in messages]
    targets = {(queues[0], name) for name in set(names)} if _alike(queues) else set(zip(queues, names, strict=True))
    _check_names(targets, partitions)
    producers = _given([message.producer for message in messages])
    for producer in set(producers or ()):
        if producer is not None:
            _check_producer(producer)
    traces = _given([message.trace_id for message in messages])
    own_array = array if len(targets) == 1 else None
    return PushRequest(queues, names, targets, payloads, ids, traces, headers, producers, size, own_array)


def _check_payloads(messages: Payloads, partitions: Partitions, payload_bytes_max: int) -> PushRequest:
    array, size = messages.array, len(messages)
    if len(array) > payload_bytes_max:
        _check_lengths(list(map(len, messages.elements)), payload_bytes_max)
    _check_request_size(len(array))
    if messages.transaction_ids is not None:
        _check_ids(messages.transaction_ids)
    targets = {(messages.queue, messages.partition)}
    _check_names(targets, partitions)
    producer = messages.producer
    if producer is not None:
        _check_producer(producer)
    return PushRequest(
        [messages.queue] * size,
        [messages.partition] * size,
        targets,
        messages.elements,
        ids=messages.transaction_ids,
        traces=None,
        headers=None,
        producers=None if producer is None else [producer] * size,
        byte_count=len(array),
        array=array,
    )


def _check_names(targets: set[Name], partitions: Partitions) -> None:
    for queue, partition in partitions.unknown(targets):
        check_name(queue, "queue")
        check_name(partition, "partition")


def _alike(values: Sequence[object]) -> bool:
    return not values or values.count(values[0]) == len(values)


def end_to_end(requests: Sequence[PushRequest]) -> PushRequest:
    """Several requests as one, in their order."""
    if len(requests) == 1:
        return requests[0]
    sizes = [request.size for request in requests]
    return PushRequest(
        list(chain.from_iterable(request.queues for request in requests)),
        list(chain.from_iterable(request.partitions for request in requests)),
        set().union(*(request.targets for request in requests)),
        list(chain.from_iterable(request.payloads for request in requests)),
        _column([request.ids for request in requests], sizes),
        _column([request.traces for request in requests], sizes),
        _column([request.headers for request in requests], sizes),
        _column([request.producers for request in requests], sizes),
        sum(request.byte_count for request in requests),
    )


def apart(answers: list[T], requests: Sequence[PushRequest]) -> list[list[T]]:
    """What belongs to each of the requests that were put end to end."""
    if len(requests) == 1:
        return [answers]
    return [answers[start:end] for start, end in pairwise(accumulate((each.size for each in requests), initial=0))]


def segmented(
    request: PushRequest, partitions: Mapping[Name, PartitionInfo], left_out: Collection[int] = ()
) -> list[Draft]:
    """The segments of a request in the order of their partitions, without the messages at some places."""
    found: list[Draft] = []
    cut = request.size > SEGMENT_MESSAGES_MAX or request.byte_count > SEGMENT_BYTES_MAX
    for name, places in _by_partition(request):
        own = [place for place in places if place not in left_out] if left_out else places
        if cut:
            found += [_draft(request, partitions[name], piece) for piece in _pieces(request, own)]
        elif own:
            found.append(_draft(request, partitions[name], own))
    found.sort(key=attrgetter("partition.id"))
    return found


def _by_partition(request: PushRequest) -> Iterable[tuple[Name, Places]]:
    """Where the messages of each partition are; where producers take turns in one, those of each turn."""
    if request.producers is not None:
        return _by_turn(request, request.producers)
    if len(request.targets) == 1:
        return [(name, range(request.size)) for name in request.targets]
    if _alike(request.queues):
        return [((request.queues[0], partition), places) for partition, places in _places(request.partitions)]
    return _places(zip(request.queues, request.partitions, strict=True))


def _by_turn(request: PushRequest, producers: Sequence[str | None]) -> Iterable[tuple[Name, Places]]:
    turns: dict[Name, tuple[str | None, int]] = {}  # by partition: who was last, and how often that changed
    addresses: list[tuple[Name, int]] = []
    for name, producer in zip(zip(request.queues, request.partitions, strict=True), producers, strict=True):
        last, turn = turns.get(name, (producer, 0))
        turn += producer != last
        turns[name] = producer, turn
        addresses.append((name, turn))
    return [(name, places) for (name, _), places in _places(addresses)]


def _places(addresses: Iterable[Address]) -> Iterable[tuple[Address, Places]]:
    """Where each address is found."""
    places: dict[Address, list[int]] = defaultdict(list)
    for place, address in enumerate(addresses):
        places[address].append(place)
    return places.items()


def _pieces(request: PushRequest, places: Places) -> Iterator[Places]:
    """As many pieces as it takes for no segment to be too large; any one message fits."""
    start = size = 0
    for end, place in enumerate(places):
        more = len(request.payloads[place])
        if end > start and (size + more > SEGMENT_BYTES_MAX or end - start == SEGMENT_MESSAGES_MAX):
            yield places[start:end]
            start, size = end, 0
        size += more
    if start < len(places):
        yield places[start:]


def _draft(request: PushRequest, partition: PartitionInfo, places: Places) -> Draft:
    """The segment of the messages at some places."""
    ids, traces, headers, producers = request.ids, request.traces, request.headers, request.producers
    if len(places) == request.size:
        return Draft(
            partition,
            places,
            request.array or json_array(request.payloads),
            ids,
            traces,
            headers,
            producers[0] if producers is not None else None,
        )
    if len(places) == 1:
        [place] = places
        return Draft(
            partition,
            places,
            b"[%b]" % request.payloads[place],
            (ids[place],) if ids is not None and ids[place] is not None else None,
            (traces[place],) if traces is not None and traces[place] is not None else None,
            (headers[place],) if headers is not None and headers[place] is not None else None,
            producers[place] if producers is not None else None,
        )
    pick = itemgetter(*places)
    return Draft(
        partition,
        places,
        json_array(pick(request.payloads)),
        ids and _given(pick(ids)),
        traces and _given(pick(traces)),
        headers and _given(pick(headers)),
        producers[places[0]] if producers is not None else None,
    )


def _column(columns: Sequence[Column[T]], sizes: Sequence[int]) -> Column[T]:
    """Columns end to end; where some are missing, there is nothing for so many messages."""
    if columns.count(None) == len(columns):
        return None
    return list(
        chain.from_iterable(
            repeat(None, size) if column is None else column for column, size in zip(columns, sizes, strict=True)
        )
    )


def _checked_size(lengths: list[int], headers: Sequence[Raw | None] | None) -> int:
    """The bytes of a request; refuses more than one call can carry."""
    size = sum(lengths)
    if headers is not None:
        size += sum(map(len, filter(None, headers)))
    _check_request_size(size)
    return size


def _check_request_size(size: int) -> None:
    if size > REQUEST_BYTES_MAX:
        raise PayloadTooLarge(f"the messages have {size} bytes together; {REQUEST_BYTES_MAX} is the most")


def _check_lengths(lengths: list[int], bytes_max: int) -> None:
    if max(lengths) > bytes_max:
        place = next(place for place, length in enumerate(lengths) if length > bytes_max)
        raise PayloadTooLarge(f"message {place} has {lengths[place]} bytes; {bytes_max} is the most")


def _checked_array(payloads: list[bytes], lengths: list[int], bytes_max: int) -> bytes:
    """The payloads as an array, known to be JSON; refuses the first that is not."""
    _check_lengths(lengths, bytes_max)
    joined = json_array(payloads)
    try:
        if not joined.isascii():
            joined.decode()
        if _same(cut(joined), payloads, lengths):
            return joined
    except NOT_JSON:
        pass
    for place, payload in enumerate(payloads):
        check_json(payload, place)
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


def given(ids: Sequence[str | None]) -> Sequence[str]:
    """The ids without the gaps."""
    return list(filter(None, ids)) if None in ids else ids  # type: ignore[return-value]


def texts(values: Iterable[object] | None) -> str | None:
    """A JSON array, or nothing where there is nothing to say."""
    return None if values is None else msgspec.json.encode(values).decode()
