"""Push requests: the messages of a caller, checked, and joined with those of other callers.

A request is columns, not messages, because thousands of messages are handled a list at a time.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, pairwise, repeat
from typing import TypeVar
from uuid import UUID

from msgspec import Raw, Struct

from queenmq.engine.dedup.partition_ids import without_gaps
from queenmq.engine.partitions import Name, Partitions, check_name
from queenmq.engine.push.headers import encoded
from queenmq.errors import InvalidArgument, InvalidPayload, PayloadTooLarge
from queenmq.model import Outgoing, Payloads
from queenmq.model.lazily import Lazily
from queenmq.model.payload_limits import check_limits
from queenmq.model.payloads import NOT_JSON, check_json, cut, json_array

SEGMENT_MESSAGES_MAX = 1_000
SEGMENT_BYTES_MAX = 1 << 20
WHOLE_MESSAGES_MIN = 500  # from here on, a caller's array becomes a segment of its own
REQUEST_BYTES_MAX = 256 << 20  # of payloads and headers in one push: PostgreSQL takes a gibibyte, encrypted
TRANSACTION_ID_CHARACTERS_MAX = 255
PRODUCER_CHARACTERS_MAX = 255

T = TypeVar("T")
Column = Sequence[T | None] | None  # None: no message has such a value


class Whole(Struct):
    """All messages of one caller, for one partition."""

    indexes: range
    name: Name
    array: bytes


class PushRequest(Struct):
    """The messages of one caller, checked; or those of several callers, joined."""

    queues: Sequence[str]
    partitions: Sequence[str]
    targets: set[Name]  # queues and partitions, each pair once
    payloads: Sequence[bytes | Raw]
    ids: Column[str]
    traces: Column[UUID]
    headers: Column[Raw]
    producers: Column[str]
    byte_count: int
    array: bytes | None = None  # the payloads as one JSON array, if all go to one partition
    wholes: Sequence[Whole] = ()  # the arrays of callers that become a segment as they are

    @property
    def size(self) -> int:
        """How many messages there are."""
        return len(self.payloads)


class Joined(Lazily[bytes | Raw]):
    """The payloads of several callers, joined. Whole arrays are cut only if a single payload is needed."""

    def __init__(self, parts: Sequence[Sequence[bytes | Raw]]) -> None:
        self._parts = parts
        self._length = sum(map(len, parts))

    def __len__(self) -> int:
        return self._length

    def _make(self) -> Iterable[bytes | Raw]:
        return chain.from_iterable(self._parts)


def check(messages: Sequence[Outgoing], partitions: Partitions, payload_bytes_max: int) -> PushRequest:
    """Check the messages of one caller, so that a bad one fails no other caller."""
    if isinstance(messages, Payloads):
        return _check_payloads(messages, partitions, payload_bytes_max)
    payloads = [message.payload for message in messages]
    lengths = list(map(len, payloads))
    headers = encoded([message.headers for message in messages])
    size = _checked_size(lengths, headers)
    _check_lengths(lengths, payload_bytes_max)
    array = None  # a larger one is cut up anyway
    for start, end in _stretches(lengths):
        array = _checked_array(payloads[start:end], lengths[start:end], start)
    if size > SEGMENT_BYTES_MAX:
        array = None
    ids = given_any([message.transaction_id for message in messages])
    if ids is not None:
        _check_ids(ids)
    queues, names = [message.queue for message in messages], [message.partition for message in messages]
    targets = {(queues[0], name) for name in set(names)} if alike(queues) else set(zip(queues, names, strict=True))
    _check_names(targets, partitions)
    producers = given_any([message.producer for message in messages])
    for producer in set(producers or ()):
        if producer is not None:
            _check_producer(producer)
    traces = given_any([message.trace_id for message in messages])
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


def alike(values: Sequence[object]) -> bool:
    """Whether all of them are the same."""
    return not values or values.count(values[0]) == len(values)


def joined(requests: Sequence[PushRequest]) -> PushRequest:
    """Several requests as one, in their order."""
    if len(requests) == 1:
        return requests[0]
    sizes = [request.size for request in requests]
    wholes = list(_wholes(requests))
    payloads = Joined([request.payloads for request in requests])
    return PushRequest(
        list(chain.from_iterable(request.queues for request in requests)),
        list(chain.from_iterable(request.partitions for request in requests)),
        set().union(*(request.targets for request in requests)),
        payloads if wholes else list(payloads),
        _column([request.ids for request in requests], sizes),
        _column([request.traces for request in requests], sizes),
        _column([request.headers for request in requests], sizes),
        _column([request.producers for request in requests], sizes),
        sum(request.byte_count for request in requests),
        wholes=wholes,
    )


def _wholes(requests: Sequence[PushRequest]) -> Iterator[Whole]:
    """The large arrays, which stay as they are. Small ones share a segment."""
    for (start, end), request in zip(_spans(requests), requests, strict=True):
        fits = request.size <= SEGMENT_MESSAGES_MAX and request.byte_count <= SEGMENT_BYTES_MAX
        if request.array is not None and fits and request.size >= WHOLE_MESSAGES_MIN:
            [name] = request.targets
            yield Whole(range(start, end), name, request.array)


def _spans(requests: Sequence[PushRequest]) -> Iterable[tuple[int, int]]:
    """The start and the end of each request in the joined one."""
    return pairwise(accumulate((each.size for each in requests), initial=0))


def sizes(requests: Sequence[PushRequest]) -> dict[int, int]:
    """How many messages each request has, by its start in the joined one."""
    return {start: end - start for start, end in _spans(requests)}


def _column(columns: Sequence[Column[T]], sizes: Sequence[int]) -> Column[T]:
    """Columns joined. A request without this column has None for each message."""
    if columns.count(None) == len(columns):
        return None
    return list(
        chain.from_iterable(
            repeat(None, size) if column is None else column for column, size in zip(columns, sizes, strict=True)
        )
    )


def _checked_size(lengths: list[int], headers: Sequence[Raw | None] | None) -> int:
    """The bytes of a request. Refuses a request that is too large for one call."""
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
        index = next(index for index, length in enumerate(lengths) if length > bytes_max)
        raise PayloadTooLarge(f"message {index} has {lengths[index]} bytes; {bytes_max} is the most")


def _stretches(lengths: list[int]) -> Iterator[tuple[int, int]]:
    """Ranges of payloads that are checked together. All at once would take too much memory."""
    start = size = 0
    for end, length in enumerate(lengths) if sum(lengths) > SEGMENT_BYTES_MAX else ():
        if size + length > SEGMENT_BYTES_MAX and end > start:
            yield start, end
            start, size = end, 0
        size += length
    yield start, len(lengths)


def _checked_array(payloads: list[bytes], lengths: list[int], first: int) -> bytes:
    """The payloads as one JSON array. Refuses the first payload that is not JSON; the first one has index `first`."""
    joined = json_array(payloads)
    try:
        if not joined.isascii():
            joined.decode()
        if _same(cut(joined), payloads, lengths):
            check_limits(joined, payloads, first)
            return joined
    except NOT_JSON:
        pass
    for index, payload in enumerate(payloads, first):
        check_json(payload, index)
    raise InvalidPayload("the payloads are not JSON")


def _same(pieces: Sequence[Raw], payloads: Sequence[bytes], lengths: list[int]) -> bool:
    """Whether the array was cut at the commas between the payloads, not at commas inside them."""
    found = list(map(len, pieces))
    return found == lengths or found == [len(payload.strip(b" \t\n\r")) for payload in payloads]


def _check_producer(producer: str) -> None:
    try:
        producer.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("the producer cannot be written in UTF-8") from None
    if len(producer) > PRODUCER_CHARACTERS_MAX or "\x00" in producer:
        raise InvalidArgument(f"a producer has at most {PRODUCER_CHARACTERS_MAX} characters, none of them U+0000")


def _check_ids(ids: Sequence[str | None]) -> None:
    known = without_gaps(ids)
    joined = "".join(known)
    is_empty = len(known) < len(ids) and "" in ids
    if is_empty or max(map(len, known)) > TRANSACTION_ID_CHARACTERS_MAX or "\x00" in joined:
        raise InvalidArgument(
            f"a transaction id has 1 to {TRANSACTION_ID_CHARACTERS_MAX} characters, none of them U+0000"
        )
    try:
        joined.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("a transaction id cannot be written in UTF-8") from None


def given_any(values: Sequence[T | None]) -> Sequence[T | None] | None:
    """The values, or None if all of them are None."""
    return None if values[0] is None and values.count(None) == len(values) else values
