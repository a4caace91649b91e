"""Pops on paper: what PostgreSQL answered must be what the plain rules give for some order of equally ready partitions.

Those who ask alike stand in one line. Partitions come in the order in which they became ready, every request gets one
before any gets a second, and each takes as many messages as it still wants. Who finds a partition with nothing to
deliver, or one that was just given to somebody in another line, stands in line again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby, permutations, product
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from tests.model.paper import Letter, Place, Queue
from tests.model.world import World

PARTITIONS_MAX = 10  # per request, in this game

T = TypeVar("T")
Key = tuple[str, str, str]  # queue, group, partition


class Kind(NamedTuple):
    """What a pop names."""

    group: str
    queue: str | None
    partition: str | None
    namespace: str | None


@dataclass(frozen=True)
class Request:
    kind: Kind
    lease_id: UUID
    batch: int
    partitions: int = 1
    lease_seconds: int | None = None
    auto_ack: bool = False
    mode: str | None = "all"
    since: datetime | None = None
    ready_since: datetime | None = None


class Delivered(NamedTuple):
    """Messages of one partition for one request, in a form that can be compared."""

    request: int
    queue: str
    partition: str
    group: str
    offsets: tuple[int, ...]
    values: tuple[Any, ...]
    expires_at: datetime | None  # the rest is told of leases only
    retry_counts: tuple[int, ...] | None


@dataclass(frozen=True)
class Outcome:
    """One way in which pops may go: what is delivered, and what changes on paper."""

    delivered: set[Delivered]
    places: dict[Key, Place]
    letters: list[Letter]
    allowed: set[Delivered] = field(default_factory=set)  # a way that leads elsewhere need not be followed

    def with_place(self, place: Place) -> Place:
        """A copy of a place that this outcome may change."""
        key = (place.queue.name, place.group, place.partition.name)
        self.places.setdefault(key, place.copy())
        return self.places[key]

    def branch(self) -> "Outcome":
        places = {key: place.copy() for key, place in self.places.items()}
        return Outcome(set(self.delivered), places, list(self.letters), self.allowed)


def targets(world: World, request: Request) -> list[tuple[Queue, list[str]]]:
    """The queues and partitions that a pop may take from; a group's first pop is its subscription."""
    group, name, partition, namespace = request.kind
    queues = [q for q in world.queues.values() if q.name == name or (namespace and q.namespace == namespace)]
    if name is None:
        known = (group, "", "", namespace) in world.subscriptions
        known = known and all(q.groups[group].queue_wide if group in q.groups else False for q in queues)
    elif partition is None:
        known = any(group in q.groups and q.groups[group].queue_wide for q in queues)
    else:
        known = any(group in q.groups and partition in q.groups[group].places for q in queues)
    if name is not None and request.mode is not None:
        known = known and (group, name, partition or "", "") in world.subscriptions
    if not known:
        world.subscribe(group, name or "", partition or "", namespace or "", request.mode, request.since)
    found = []
    for queue in queues:
        if partition is None:
            world.extend(queue, group, limit=1000)
            found.append((queue, list(queue.groups[group].places)))
        elif partition in queue.partitions:
            world.reach(queue, group, queue.partitions[partition])
            found.append((queue, [partition]))
    return found


def outcomes(world: World, requests: list[Request], got: frozenset[Delivered]) -> list[Outcome]:
    """All ways in which the pops may have gone to give exactly this answer."""
    kinds: dict[Kind, list[int]] = {}
    for number, request in enumerate(requests):
        kinds.setdefault(request.kind, []).append(number)
    # A first pop subscribes: by queue, the most specific first, those who name none last.
    found = {kind: targets(world, requests[kinds[kind][0]]) for kind in sorted(kinds, key=_resolved)}
    lines = {
        kind: [(queue, names) for queue, names in line if not (queue.paused or queue.groups[kind.group].paused)]
        for kind, line in found.items()
    }
    # Those who ask differently are served one kind after the other, in any order, or have reached for the same at once.
    ordered = [[(kind, kinds[kind]) for kind in order] for order in permutations(kinds)]
    return _distinct(
        way
        for each, crossed in product(ordered, (False, True) if len(kinds) > 1 else (False,))
        for way in _served(world, requests, each, lines, got, crossed=crossed)
    )


def _served(
    world: World,
    requests: list[Request],
    kinds: list[tuple[Kind, list[int]]],
    lines: dict[Kind, list[tuple[Queue, list[str]]]],
    got: frozenset[Delivered],
    *,
    crossed: bool,
) -> list[Outcome]:
    """The ways to serve one kind after the other; `crossed`: they may have reached for the same partitions."""
    found = [Outcome(set(), {}, [])]
    for kind, numbers in kinds:
        theirs = {row for row in got if row.request in numbers}
        found = _distinct(
            after
            for before in found
            for after in _ways(
                world.now,
                requests,
                numbers,
                lines[kind],
                replace(before, allowed=before.delivered | theirs),
                crossed=crossed,
            )
            if after.delivered == before.delivered | theirs
        )
    return found


def _resolved(kind: Kind) -> tuple[Any, ...]:
    names = (kind.queue, kind.namespace, kind.partition, kind.group)
    return tuple((name is None, name or "") for name in names)


def _ways(
    now: datetime,
    requests: list[Request],
    numbers: list[int],
    line: list[tuple[Queue, list[str]]],
    before: Outcome,
    *,
    crossed: bool,
) -> Iterator[Outcome]:
    """Serve those who ask alike, once for each order in which their partitions may come."""
    group = requests[numbers[0]].kind.group
    ranked = []
    given: set[int] = set()
    for queue, names in line:
        places = [queue.groups[group].places[name] for name in names]
        current = [before.places.get((queue.name, group, p.partition.name), p) for p in places]
        if crossed:
            given |= {id(p) for p, c in zip(places, current, strict=True) if p.is_ready(now) and not c.is_ready(now)}
        oldest = [p.ready for p in current if p.ready and p.ready <= now]
        ranked.append(((-queue.settings["priority"], min(oldest, default=now)), places))
    slots = [n for slot in range(PARTITIONS_MAX) for n in numbers if requests[n].partitions > slot]
    left = {n: requests[n].batch for n in numbers}
    for queues in _orders(ranked):
        yield from _serve(now, requests, queues, Line(slots, left, before), given)


@dataclass(frozen=True)
class Line:
    """Who waits for a partition (numbers of requests), how much each still wants, and what happened so far."""

    slots: list[int]
    left: dict[int, int]
    outcome: Outcome


def _serve(
    now: datetime, requests: list[Request], queues: list[list[Place]], line: Line, given: set[int]
) -> Iterator[Outcome]:
    """One queue after the other."""
    if not queues:
        yield line.outcome
        return
    for after in _serve_queue(now, requests, queues[0], line, given):
        yield from _serve(now, requests, queues[1:], after, given)


def _serve_queue(
    now: datetime, requests: list[Request], places: list[Place], line: Line, given: set[int]
) -> Iterator[Line]:
    """The first in the line get the partitions that are ready; who finds nothing to read queues up again.

    `given`: places that somebody else has just got, and for which one may reach nevertheless, once.
    """
    current = [p if id(p) in given else line.outcome.with_place(p) for p in places]
    ready = [p for p in current if p.is_ready(now)]
    tried = []
    for order in _orders([(p.ready, p) for p in ready]):
        taken = [p.partition.name for p in order[: len(line.slots)]]
        if taken in tried:
            continue
        tried.append(taken)
        pairs = list(zip(line.slots, order, strict=False))
        for way in _hand_round(now, requests, pairs, line, given):
            after = replace(way, slots=line.slots[len(taken) :] + way.slots)
            if not way.outcome.delivered <= way.outcome.allowed:
                continue
            if way.slots:
                yield from _serve_queue(now, requests, places, after, set())
            else:
                yield after


def _hand_round(
    now: datetime, requests: list[Request], pairs: list[tuple[int, Place]], line: Line, given: set[int]
) -> list[Line]:
    """Each request looks at its partition; `slots` of an answer are the requests that stand in line again.

    A request that is already full may leave a partition as it is, although nothing in it is due. The next pop
    settles it.
    """
    ways = [Line([], dict(line.left), line.outcome.branch())]
    for number, original in pairs:
        if id(original) in given:
            for way in ways:
                way.slots.append(number)
            continue
        full = [Line(list(way.slots), dict(way.left), way.outcome.branch()) for way in ways if not way.left[number]]
        for way in ways:
            place = way.outcome.with_place(original)
            way.outcome.letters.extend(place.give_up(now))
            offsets = place.deliverable(now)[: way.left[number]]
            way.left[number] -= len(offsets)
            if offsets:
                way.outcome.delivered.add(_deliver(now, number, requests[number], place, offsets))
            elif place.put_back(now):
                way.slots.append(number)
        ways += full
    return ways


def _orders(ranked: list[tuple[Any, T]]) -> Iterator[list[T]]:
    """Every order that puts smaller ranks first."""
    ranked = sorted(ranked, key=lambda pair: pair[0])
    ties = [[item for _, item in pairs] for _, pairs in groupby(ranked, key=lambda pair: pair[0])]
    for order in product(*(permutations(tie) for tie in ties)):
        yield [item for tie in order for item in tie]


def _deliver(now: datetime, number: int, request: Request, place: Place, offsets: list[int]) -> Delivered:
    place.served = True
    if request.auto_ack:
        place.lapse()
        place.finish(offsets, "completed")
        place.rest(now)
    else:
        place.lend(offsets, request.lease_id, request.lease_seconds, now)
    return Delivered(
        number,
        place.queue.name,
        place.partition.name,
        place.group,
        tuple(offsets),
        tuple(place.partition.messages[o].value for o in offsets),
        None if request.auto_ack else place.ready,
        None if request.auto_ack else tuple(place.lapse_count(o) + place.failures.get(o, 0) for o in offsets),
    )


def _distinct(found: Iterator[Outcome]) -> list[Outcome]:
    """Orders often make no difference."""
    seen: list[dict[Key, dict[str, Any]]] = []
    distinct = []
    for outcome in found:
        facts = {key: place.facts() for key, place in outcome.places.items()}
        if facts not in seen:
            seen.append(facts)
            distinct.append(outcome)
    return distinct
