"""From requests to segments: what one push call will write.

Everything here works on whole columns where it can: at a few microseconds a message there is no time to look at them
one by one.
"""

import asyncio
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import chain, groupby, repeat
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

import numpy as np
from msgspec import Raw, Struct
from numpy.typing import NDArray

from queenmq.engine.arrays import Texts, lines
from queenmq.engine.partitions import Name, PartitionInfo
from queenmq.engine.requests import (
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

if TYPE_CHECKING:
    from queenmq.engine.memory import Memory

T = TypeVar("T")
Address = TypeVar("Address", bound=Hashable)
Places = Sequence[int]  # of messages among those that travel together
IdKey = tuple[int, str]  # partition id, transaction id
Keys = NDArray[np.uint64]  # hashes of ids with their partitions

NO_KEYS: Keys = np.zeros(0, dtype=np.uint64)


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
    kept_ids: Column[str] = None  # the ids, for those who keep them

    @property
    def has_window(self) -> bool:
        """Whether its ids have to be new."""
        return bool(self.partition.queue.dedup_window)

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
    memory: "Memory"  # all that it relies on, and what it adds to
    done: asyncio.Future[None]
    request: PushRequest
    keys: Keys  # of the ids that have to be new, sorted
    drafts: list[Draft]
    looked_up: set[str]  # queues where a partition may be new: no group could have been waiting for it
    lessons: int  # that the window had when ids were compared with it
    id_lines: str | None = None  # the ids of all drafts, as they travel
    expected: dict[int, int] = {}  # by partition id: up to where we know the partition's ids
    entries: dict[int, object] = {}  # by partition id: who knows them
    beside: set[UUID] = set()  # flushes in flight meanwhile: ours has none of their ids
    duplicates: list[tuple[int, PartitionInfo, str, Original]] = []  # by place
    repeats: list[tuple[int, PartitionInfo, str]] = []  # ids that come twice in this very flush

    def encode_ids(self) -> None:
        """From now on nobody has to keep the ids themselves."""
        self.id_lines = lines([draft.ids for draft in self.drafts])
        for draft, line in zip(self.drafts, self.id_lines.split("\n"), strict=True):
            draft.kept_ids = draft.ids if draft.ids is None or len(draft.ids) == 1 else Texts(line, len(draft.ids))


def segmented(
    request: PushRequest, partitions: Mapping[Name, PartitionInfo], left_out: Collection[int] = ()
) -> list[Draft]:
    """The segments of a request in the order of their partitions, without the messages at some places."""
    if len(request.targets) == request.size and not left_out:
        return sorted(_singles(request, partitions), key=attrgetter("partition.id"))
    wholes = () if left_out else request.wholes
    found = [_whole_draft(request, partitions[whole.name], whole) for whole in wholes]
    if wholes:
        left_out = set(chain.from_iterable(whole.places for whole in wholes))
    if len(left_out) < request.size:
        found += _gathered(request, partitions, left_out, wholes)
    if wholes:
        found.sort(key=lambda draft: draft.places[0])  # as they came, also among those of one partition
    found.sort(key=attrgetter("partition.id"))
    return found


def _singles(request: PushRequest, partitions: Mapping[Name, PartitionInfo]) -> Iterable[Draft]:
    """A segment of its own for each message."""
    names = zip(request.queues, request.partitions, strict=True)
    arrays = map(b"[%b]".__mod__, request.payloads)
    columns = map(_each_alone, (request.ids, request.traces, request.headers))
    producers = repeat(None) if request.producers is None else request.producers
    return map(Draft, map(partitions.__getitem__, names), zip(range(request.size)), arrays, *columns, producers)


def _each_alone(column: Column[T]) -> Iterable[Column[T]]:
    return repeat(None) if column is None else [None if value is None else (value,) for value in column]


def _whole_draft(request: PushRequest, partition: PartitionInfo, whole: Whole) -> Draft:
    start, stop = whole.places.start, whole.places.stop
    ids, traces, headers, producers = request.ids, request.traces, request.headers, request.producers
    return Draft(
        partition,
        whole.places,
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
        starts[whole.name].append(whole.places.start)
    for name, places in _by_partition(request):
        own = [place for place in places if place not in left_out] if left_out else places
        for stretch in _between(own, starts[name]) if name in starts else (own,):
            if cut:
                yield from (_draft(request, partitions[name], piece) for piece in _pieces(request, stretch))
            elif stretch:
                yield _draft(request, partitions[name], stretch)


def _between(places: Places, starts: Sequence[int]) -> Iterator[Places]:
    """What comes before, between and after others, as far as there is something."""
    return (list(stretch) for _, stretch in groupby(places, key=partial(bisect_right, starts)))


def _by_partition(request: PushRequest) -> Iterable[tuple[Name, Places]]:
    """Where the messages of each partition are; where producers take turns in one, those of each turn."""
    if request.producers is not None:
        return _by_turn(request, request.producers)
    if len(request.targets) == 1:
        return [(name, range(request.size)) for name in request.targets]
    if alike(request.queues):
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
        ids and given_any(pick(ids)),
        traces and given_any(pick(traces)),
        headers and given_any(pick(headers)),
        producers[places[0]] if producers is not None else None,
    )
