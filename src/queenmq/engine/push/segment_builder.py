"""Build segments from a push request: what one push call will write.

The code works on whole columns where it can. At a few microseconds for a message there is no time for each one alone.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import chain, groupby, repeat
from operator import attrgetter, itemgetter
from typing import TypeVar
from uuid import UUID

from msgspec import Raw, Struct

from queenmq.engine.dedup.id_filter import NO_KEYS, Keys
from queenmq.engine.partitions import Name, PartitionInfo
from queenmq.engine.push.push_request import (
    SEGMENT_BYTES_MAX,
    SEGMENT_MESSAGES_MAX,
    Column,
    PushRequest,
    Whole,
    alike,
    given_any,
)
from queenmq.model import PushedRun
from queenmq.model.payloads import json_array

T = TypeVar("T")
Address = TypeVar("Address", bound=Hashable)
Indexes = Sequence[int]  # of messages in a request


class Draft(Struct, gc=False):
    """A segment that is not written yet: messages of one producer for one partition."""

    partition: PartitionInfo
    indexes: Indexes
    array: bytes  # the payloads, as one JSON array
    ids: Column[str]
    traces: Column[UUID]
    headers: Column[Raw]
    producer: str | None
    keys: Keys = NO_KEYS  # of the ids, if the queue has a dedup window
    kept_ids: Column[str] = None  # the ids as they are cached after the write

    @property
    def has_window(self) -> bool:
        """Whether the queue has a dedup window."""
        return bool(self.partition.queue.dedup_window)

    def run(self, first_offset: int, created_at: datetime) -> PushedRun:
        """Where the messages were stored, in order."""
        offsets = range(first_offset, first_offset + len(self.indexes))
        return PushedRun(self.partition.id, offsets, created_at, self.ids)


def build_segments(
    request: PushRequest, partitions: Mapping[Name, PartitionInfo], left_out: Collection[int] = ()
) -> list[Draft]:
    """The segments of a request by partition id, without the messages at the indexes `left_out`."""
    if len(request.targets) == request.size and not left_out:
        return sorted(_singles(request, partitions), key=attrgetter("partition.id"))
    wholes = () if left_out else request.wholes
    found = [_whole_draft(request, partitions[whole.name], whole) for whole in wholes]
    if wholes:
        left_out = set(chain.from_iterable(whole.indexes for whole in wholes))
    if len(left_out) < request.size:
        found += _gathered(request, partitions, left_out, wholes)
    if wholes:
        found.sort(key=lambda draft: draft.indexes[0])  # in the order of the request, also inside a partition
    found.sort(key=attrgetter("partition.id"))
    return found


def _singles(request: PushRequest, partitions: Mapping[Name, PartitionInfo]) -> Iterable[Draft]:
    """One segment for each message."""
    names = zip(request.queues, request.partitions, strict=True)
    arrays = map(b"[%b]".__mod__, request.payloads)
    columns = map(_each_alone, (request.ids, request.traces, request.headers))
    producers = repeat(None) if request.producers is None else request.producers
    return map(Draft, map(partitions.__getitem__, names), zip(range(request.size)), arrays, *columns, producers)


def _each_alone(column: Column[T]) -> Iterable[Column[T]]:
    return repeat(None) if column is None else [None if value is None else (value,) for value in column]


def _whole_draft(request: PushRequest, partition: PartitionInfo, whole: Whole) -> Draft:
    start, stop = whole.indexes.start, whole.indexes.stop
    ids, traces, headers, producers = request.ids, request.traces, request.headers, request.producers
    return Draft(
        partition,
        whole.indexes,
        whole.array,
        ids and given_any(ids[start:stop]),
        traces and given_any(traces[start:stop]),
        headers and given_any(headers[start:stop]),
        producers[start] if producers is not None else None,
    )


def _gathered(
    request: PushRequest, partitions: Mapping[Name, PartitionInfo], left_out: Collection[int], wholes: Sequence[Whole]
) -> Iterator[Draft]:
    cut = request.size > SEGMENT_MESSAGES_MAX or request.byte_count > SEGMENT_BYTES_MAX
    starts: dict[Name, list[int]] = defaultdict(list)  # of whole arrays, by partition
    for whole in wholes:
        starts[whole.name].append(whole.indexes.start)
    for name, indexes in _by_partition(request):
        own = [index for index in indexes if index not in left_out] if left_out else indexes
        for stretch in _between(own, starts[name]) if name in starts else (own,):
            if cut:
                yield from (_draft(request, partitions[name], piece) for piece in _pieces(request, stretch))
            elif stretch:
                yield _draft(request, partitions[name], stretch)


def _between(indexes: Indexes, starts: Sequence[int]) -> Iterator[Indexes]:
    """The indexes before, between and after whole arrays, which begin at `starts`; no empty parts."""
    return (list(stretch) for _, stretch in groupby(indexes, key=partial(bisect_right, starts)))


def _by_partition(request: PushRequest) -> Iterable[tuple[Name, Indexes]]:
    """The indexes of the messages of each partition. If producers take turns in a partition, those of each turn."""
    if request.producers is not None:
        return _by_turn(request, request.producers)
    if len(request.targets) == 1:
        return [(name, range(request.size)) for name in request.targets]
    if alike(request.queues):
        return [((request.queues[0], partition), indexes) for partition, indexes in _indexes(request.partitions)]
    return _indexes(zip(request.queues, request.partitions, strict=True))


def _by_turn(request: PushRequest, producers: Sequence[str | None]) -> Iterable[tuple[Name, Indexes]]:
    turns: dict[Name, tuple[str | None, int]] = {}  # by partition: the last producer, and how often it changed
    addresses: list[tuple[Name, int]] = []
    for name, producer in zip(zip(request.queues, request.partitions, strict=True), producers, strict=True):
        last, turn = turns.get(name, (producer, 0))
        turn += producer != last
        turns[name] = producer, turn
        addresses.append((name, turn))
    return [(name, indexes) for (name, _), indexes in _indexes(addresses)]


def _indexes(addresses: Iterable[Address]) -> Iterable[tuple[Address, Indexes]]:
    """The indexes of each address."""
    indexes: dict[Address, list[int]] = defaultdict(list)
    for index, address in enumerate(addresses):
        indexes[address].append(index)
    return indexes.items()


def _pieces(request: PushRequest, indexes: Indexes) -> Iterator[Indexes]:
    """Cut the indexes into pieces, so that no segment is too large. Any single message fits."""
    start = size = 0
    for end, index in enumerate(indexes):
        more = len(request.payloads[index])
        if end > start and (size + more > SEGMENT_BYTES_MAX or end - start == SEGMENT_MESSAGES_MAX):
            yield indexes[start:end]
            start, size = end, 0
        size += more
    if start < len(indexes):
        yield indexes[start:]


def _draft(request: PushRequest, partition: PartitionInfo, indexes: Indexes) -> Draft:
    """The segment of the messages at these indexes."""
    ids, traces, headers, producers = request.ids, request.traces, request.headers, request.producers
    if len(indexes) == request.size:
        return Draft(
            partition,
            indexes,
            request.array or json_array(request.payloads),
            ids,
            traces,
            headers,
            producers[0] if producers is not None else None,
        )
    if len(indexes) == 1:
        [index] = indexes
        return Draft(
            partition,
            indexes,
            b"[%b]" % request.payloads[index],
            (ids[index],) if ids is not None and ids[index] is not None else None,
            (traces[index],) if traces is not None and traces[index] is not None else None,
            (headers[index],) if headers is not None and headers[index] is not None else None,
            producers[index] if producers is not None else None,
        )
    pick = itemgetter(*indexes)
    return Draft(
        partition,
        indexes,
        json_array(pick(request.payloads)),
        ids and given_any(pick(ids)),
        traces and given_any(pick(traces)),
        headers and given_any(pick(headers)),
        producers[indexes[0]] if producers is not None else None,
    )
