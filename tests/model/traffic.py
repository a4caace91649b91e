"""The moves of producers and consumers: push, pop, ack, renew, release, transact, and time that passes."""

import copy
import json
import uuid
from contextlib import suppress
from datetime import datetime
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from queenmq.errors import LeaseGone, NotInLease, QueueFull
from tests.model.board import HANDLES_MAX, PARTITIONS, Board, same
from tests.model.paper import Answer, Message, Queue, seconds
from tests.model.postgres import Ack, Handle, Segment
from tests.model.serving import Delivered, Kind, Request, outcomes
from tests.model.world import Full, World

TWO = st.sampled_from((0, 1))
IDS = st.lists(st.sampled_from((None, "a", "b", "c", "d")), min_size=1, max_size=4)
PUSHES = st.lists(st.tuples(TWO, st.sampled_from(PARTITIONS), IDS), min_size=1, max_size=4)
KINDS = st.tuples(TWO, st.sampled_from(("queue", "queue", "namespace", *PARTITIONS)), TWO)
POPS = st.fixed_dictionaries(
    {"kind": KINDS, "batch": st.sampled_from((1, 2, 3, 50))},
    optional={
        "partitions": st.sampled_from((1, 2, 3)),
        "lease_seconds": st.sampled_from((None, 7)),
        "auto_ack": st.booleans(),
        "mode": st.sampled_from((None, "all", "new", "timestamp")),
        "hint": st.booleans(),
    },
)
HANDLES = st.integers(0, HANDLES_MAX - 1)
SHAPES = st.sampled_from(("all", "all", "first", "last", "odd", "even", "too many", "foreign"))
STATUSES = st.sampled_from(("completed", "completed", "completed", "failed", "retry", "dlq", "mixed"))
ACKS = st.tuples(HANDLES, SHAPES, STATUSES)

Push = tuple[Queue, str, list[Message]]


class Traffic(Board):
    # Push.

    @rule(pushes=PUSHES)
    def push(self, pushes: list[Any]) -> None:
        """Several batches in one call; those of one partition follow each other."""
        with suppress(Full):
            self.append(self.world, self._open(pushes))

    @rule(queue=TWO, partition=st.sampled_from(PARTITIONS), ids=IDS, behind=st.integers(0, 3))
    def push_knowing(self, queue: int, partition: str, ids: list[str | None], behind: int) -> None:
        """As a pusher that remembers the ids of all but the newest few segments."""
        [(queue_on_paper, name, messages)] = self._open([(queue, partition, ids)])
        log = queue_on_paper.partitions[name]
        ends = [log.start, *(segment.stop for segment in log.segments)]
        known_to = ends[max(0, len(ends) - 1 - behind)]
        with suppress(Full):
            self.append(self.world, [(queue_on_paper, name, messages)], known_to)

    def _open(self, pushes: list[Any]) -> list[Push]:
        """Names to ids; what is missing is created on both sides."""
        names = [(self.queue_names[queue], partition) for queue, partition, _ in pushes]
        rows = self.postgres.call("ensure_partitions", *zip(*names, strict=True), None, self.world.now)
        missing = {names[row["item"] - 1]: row["partition_id"] for row in rows}
        for queue_name in {name for name, _ in missing}:
            if any(p not in self._partitions(queue_name) for q, p in missing if q == queue_name):
                self.world.add_queue(queue_name)
        for (queue_name, partition), partition_id in sorted(missing.items(), key=lambda item: item[1]):
            if partition not in self._partitions(queue_name):
                self.world.add_partition(self.world.queues[queue_name], partition, partition_id)
        return [
            (
                self.world.queues[self.queue_names[queue]],
                partition,
                [Message(next(self.values), each, self.world.now) for each in ids],
            )
            for queue, partition, ids in pushes
        ]

    def _partitions(self, queue: str) -> dict[str, Any]:
        return self.world.queues[queue].partitions if queue in self.world.queues else {}

    def append(self, world: World, pushes: list[Push], known_to: int | None = None, **transact: Any) -> None:
        """Push what is new; ids that are stored already must be noticed, and nothing written before they are."""
        fresh, found = self._without_duplicates(pushes, known_to)
        if found:
            all_of_it = [(q, n, [m for m in ms if m.value in found or m in fresh]) for q, n, ms in pushes]
            refused = self._send(all_of_it, known_to, **transact)
            assert refused["first_offsets"] is None
            assert refused["missed_offsets"], "the caller learns why"
            for log in [world.queues[q.name].partitions[n] for q, n, messages in all_of_it if messages]:
                log.used_at = log.used_at if log.stored else world.now  # an empty one remembers the attempt
            for queue, name, messages in pushes:
                self._compare_found(queue, name, messages, found)
        left = [(q, n, kept) for q, n, ms in pushes if (kept := [m for m in ms if m in fresh])]
        if not left and not transact:
            return
        missed = self._missed(left, known_to)
        try:
            firsts, woken = world.push([(world.queues[q.name], n, ms) for q, n, ms in left])
        except Full:
            with pytest.raises(QueueFull):
                self._send(left, known_to, **transact)
            raise
        row = self._send(left, known_to, **transact)
        if left:
            assert row["first_offsets"] == firsts
            assert row["created_ats"] == [world.now]  # all at once
            assert set(row["woken"]) == woken
            told = zip(row["missed_segments"] or (), row["missed_offsets"] or (), row["missed_ids"] or (), strict=True)
            assert [(segment, first, json.loads(ids)) for segment, first, ids in told] == missed

    def _without_duplicates(self, pushes: list[Push], known_to: int | None) -> tuple[list[Message], dict[int, int]]:
        """New messages, and those (by value) that PostgreSQL has to recognise, with the offset of the first."""
        fresh, found = [], {}
        seen = set()
        for queue, name, messages in pushes:
            since = self.world.now - seconds(queue.settings["dedup_window_seconds"])
            for message in messages:
                if (each := message.transaction_id) is None:
                    fresh.append(message)
                    continue
                if (queue.name, name, each) in seen:
                    continue  # the pusher sees by itself that it has the id twice
                seen.add((queue.name, name, each))
                offset = queue.partitions[name].find_id(each, since)
                if offset is None:
                    fresh.append(message)
                elif offset >= (known_to or 0):
                    found[message.value] = offset
        return fresh, found

    def _missed(self, pushes: list[Push], known_to: int | None) -> list[tuple[int, int, list[str | None]]]:
        """Segments with ids that the pusher did not know of."""
        missed = []
        ends: dict[int, int] = {}
        for number, (queue, name, messages) in enumerate(pushes, 1):
            log = queue.partitions[name]
            first = ends.get(log.id, log.end)
            ends[log.id] = first + len(messages)
            if known_to == first or not any(message.transaction_id for message in messages):
                continue
            since = self.world.now - seconds(queue.settings["dedup_window_seconds"])
            for segment in log.segments:
                ids = [log.messages[o].transaction_id for o in segment]
                if segment.start >= (known_to or 0) and any(ids) and log.messages[segment.start].created_at >= since:
                    missed.append((number, segment.start, ids))
        return missed

    def _send(self, pushes: list[Push], known_to: int | None, **transact: Any) -> Any:
        segments = [
            Segment(
                queue.partitions[name].id,
                [message.value for message in messages],
                [message.transaction_id for message in messages],
                known_to,
            )
            for queue, name, messages in pushes
            if messages
        ]
        if transact:
            return self.postgres.transact(transact["acks"], transact["required"], segments)
        return self.postgres.push(segments)

    def _compare_found(self, queue: Queue, name: str, messages: list[Message], found: dict[int, int]) -> None:
        doubles = [message for message in messages if message.value in found]
        ids = [message.transaction_id for message in doubles]
        partition_ids, offsets = [queue.partitions[name].id] * len(ids), [found[message.value] for message in doubles]
        rows = self.postgres.call("find_ids", partition_ids, offsets, ids, self.world.now)
        assert sorted(row["item"] for row in rows) == list(range(1, len(ids) + 1))
        others = [f"not {id}" for id in ids]
        assert not self.postgres.call("find_ids", partition_ids, offsets, others, self.world.now)

    # Pop.

    @rule(pop=POPS)
    def pop(self, pop: Any) -> None:
        self.take([self.request(**pop)])

    @rule(kind=KINDS, batch=st.sampled_from((1, 2, 50)))
    def pop_plainly(self, kind: tuple[int, str, int], batch: int) -> None:
        self.take([self.request(kind=kind, batch=batch)])

    @rule(pops=st.lists(POPS, min_size=2, max_size=4))
    def pop_together(self, pops: list[Any]) -> None:
        """Several requests in one call."""
        self.take([self.request(**pop) for pop in pops])

    def request(self, kind: tuple[int, str, int], hint: bool = False, **options: Any) -> Request:  # noqa: FBT001, FBT002
        queue, what, group = self.queue_names[kind[0]], kind[1], self.groups[kind[2]]
        named = Kind(
            group,
            None if what == "namespace" else queue,
            what if what in PARTITIONS else None,
            self.namespace if what == "namespace" else None,
        )
        since = self.world.now - seconds(20) if options.get("mode") == "timestamp" else None
        known = self.ready_since.get(named) if hint else None
        return Request(named, uuid.uuid4(), since=since, ready_since=known, **options)

    def take(self, requests: list[Request]) -> frozenset[Delivered]:
        answer = self.postgres.pop(requests)
        got = frozenset(delivered for delivered, _, _ in answer)
        assert len(got) == len(answer)
        ways = outcomes(self.world, requests, got)
        assert ways, f"nobody could have been served like this: {sorted(got, key=repr)}"
        self._apply(ways)
        self.seen["deliveries"] += len(got)
        self.seen["ambiguous pops"] += len(ways) > 1
        self.handles = [handle for _, handle, _ in answer if handle] + self.handles
        del self.handles[HANDLES_MAX:]
        self._remember_ready_since(requests, [(requests[d.request].kind, moment) for d, _, moment in answer])
        return got

    def _apply(self, ways: list[Any]) -> None:
        """Where the answer leaves several ways open, what is stored now tells which one it was."""
        before = [(group, dict(group.places)) for q in self.world.queues.values() for group in q.groups.values()]
        letters = list(self.world.letters)
        for number, way in enumerate(ways, 1):
            for (queue, group, partition), place in way.places.items():
                self.world.queues[queue].groups[group].places[partition] = place
            self.world.letters = letters + way.letters
            if number == len(ways):
                return
            try:
                self.compare()
            except AssertionError:
                for group, places in before:
                    group.places = dict(places)
            else:
                return

    def _remember_ready_since(self, requests: list[Request], told: list[tuple[Kind, datetime | None]]) -> None:
        for request in requests:
            self.ready_since.pop(request.kind, None)
        for kind, moment in told:
            if moment is not None:
                self.ready_since[kind] = min(moment, self.ready_since.get(kind, moment))

    # Ack.

    @precondition(lambda self: self.handles)
    @rule(ack=ACKS)
    def ack(self, ack: tuple[int, str, str]) -> None:
        self.say([self._ack(*ack)])

    @precondition(lambda self: self.handles)
    @rule(number=HANDLES, status=STATUSES)
    def ack_backwards(self, number: int, status: str) -> None:
        """One call for each message, the last one first."""
        handle = self.handle(number)
        for offset in reversed(handle.offsets):
            self.say([self._ack_of(handle, [offset], status)])

    @precondition(lambda self: self.handles)
    @rule(acks=st.lists(ACKS, min_size=2, max_size=4))
    def ack_together(self, acks: list[tuple[int, str, str]]) -> None:
        made = {}
        for ack in acks:
            each = self._ack(*ack)
            made[each.handle.partition_id, each.handle.group_id, each.handle.lease_id] = each
        self.say(list(made.values()))

    def handle(self, number: int) -> Handle:
        """Those who still hold something come first."""
        live = {p.lease.id for p in self.world.all_places() if p.lease and p.is_held(self.world.now)}
        return sorted(self.handles, key=lambda handle: handle.lease_id not in live)[number % len(self.handles)]

    def _ack(self, number: int, shape: str, status: str) -> Ack:
        handle = self.handle(number)
        mine = list(handle.offsets)
        chosen = {
            "all": mine,
            "first": mine[:1],
            "last": mine[-1:],
            "odd": mine[1::2] or mine,
            "even": mine[::2],
            "too many": [mine[0] - 1, *mine, mine[-1] + 1, mine[-1] + 100],
            "foreign": [mine[0] - 1, mine[-1] + 1],
        }[shape]
        return self._ack_of(handle, [offset for offset in chosen if offset >= 0], status)

    def _ack_of(self, handle: Handle, offsets: list[int], status: str) -> Ack:
        if status == "mixed":
            statuses = dict(zip(offsets, ("failed", "completed", "retry", "dlq") * len(offsets), strict=False))
        else:
            statuses = dict.fromkeys(offsets, status)
        completed = frozenset(o for o, s in statuses.items() if s == "completed")
        others = tuple((o, s, f"{s} at {o}") for o, s in statuses.items() if s != "completed")
        return Ack(handle, completed, others)

    def say(self, acks: list[Ack]) -> None:
        """Those who lost their lease are told how things stand, with or without what others do in the same call."""
        answers = dict(zip(acks, self.postgres.ack(acks), strict=True))
        late = [ack for ack in acks if not self.world.is_lent(ack.handle)]
        on_paper = {ack: self._answer(self.world, ack) for ack in sorted(acks, key=lambda ack: ack not in late)}
        on_paper |= {ack: after for ack in late if (after := self._answer(self.world, ack)) == answers[ack]}
        same("answer to", answers, on_paper)
        self.seen["acks held"] += sum(answer.held for answer in answers.values())
        self.seen["acks refused"] += sum(not answer.held for answer in answers.values())
        self.seen["dead"] += sum(len(answer.dead) for answer in answers.values())

    def _answer(self, world: World, ack: Ack) -> Answer:
        place = world.find_place(ack.handle.partition_id, ack.handle.group_id)
        if place is None:
            return Answer(held=False)
        others = {offset: (status, error) for offset, status, error in ack.others}
        answer, letters = place.answer(ack.handle.lease_id, set(ack.completed), others, world.now)
        world.letters += letters
        return answer

    # Leases.

    @precondition(lambda self: self.handles)
    @rule(number=HANDLES, lease_seconds=st.sampled_from((None, 3, 100)))
    def renew(self, number: int, lease_seconds: int | None) -> None:
        lease_id = self.handle(number).lease_id
        held = [place for place in self.world.all_places() if self._holds(place, lease_id)]
        for place in held:
            place.ready = self.world.now + seconds(lease_seconds or place.queue.settings["lease_seconds"])
        [row] = self.postgres.call("renew_lease", [lease_id], [lease_seconds], self.world.now)
        assert row["expires_at"] == min((place.ready for place in held if place.ready), default=None)

    @precondition(lambda self: self.handles)
    @rule(number=HANDLES)
    def release(self, number: int) -> None:
        lease_id = self.handle(number).lease_id
        held = [place for place in self.world.all_places() if self._holds(place, lease_id)]
        for place in held:
            place.rest(self.world.now)
        [[count]] = self.postgres.call("release_lease", [lease_id], self.world.now)
        assert count == len(held)

    def _holds(self, place: Any, lease_id: uuid.UUID) -> bool:
        return place.is_held(self.world.now) and place.lease.id == lease_id

    @precondition(lambda self: self.handles)
    @rule(number=HANDLES)
    def crash(self, number: int) -> None:
        """A consumer dies: nobody will ever answer this delivery."""
        self.handles.remove(self.handle(number))

    @rule(amount=st.sampled_from((0.5, 6, 40, 400, 4000)))
    def wait(self, amount: float) -> None:
        self.advance(amount)

    @rule(by=st.sampled_from((-0.002, -0.001, 0.5)))
    def wait_for_the_next_expiry(self, by: float) -> None:
        """To just before, to, or past the moment when something becomes ready."""
        moments = [p.ready for p in self.world.all_places() if p.ready and p.ready > self.world.now + seconds(0.01)]
        if moments:
            self.advance((min(moments) - self.world.now).total_seconds() + by)

    # Acks and pushes in one.

    @precondition(lambda self: self.handles)
    @rule(acks=st.lists(ACKS, max_size=2), pushes=PUSHES, required=st.lists(HANDLES, max_size=1))
    def transact(self, acks: list[tuple[int, str, str]], pushes: list[Any], required: list[int]) -> None:
        said = {}
        for ack in acks:
            each = self._ack(*ack)
            said[each.handle.partition_id, each.handle.group_id, each.handle.lease_id] = each
        leases = [self.handle(number).lease_id for number in required]
        opened = self._open(pushes)
        together = {"acks": list(said.values()), "required": leases}
        if errors := self._refusals(opened, **together):
            fresh, _ = self._without_duplicates(opened, None)
            with pytest.raises(errors):
                self._send([(q, n, [m for m in ms if m in fresh]) for q, n, ms in opened], None, **together)
            return
        after = copy.deepcopy(self.world)
        self.append(after, opened, **together)
        for ack in said.values():
            self._answer(after, ack)
        self.world = after
        self.seen["transactions"] += 1

    def _refusals(self, pushes: list[Push], acks: list[Ack], required: list[uuid.UUID]) -> tuple[type[Exception], ...]:
        """Reasons why nothing at all may happen."""
        reasons: list[type[Exception]] = []
        trial = copy.deepcopy(self.world)
        if not all(any(self._holds(place, lease) for place in trial.all_places()) for lease in required):
            reasons.append(LeaseGone)
        fresh, _ = self._without_duplicates(pushes, None)
        left = [(trial.queues[q.name], n, kept) for q, n, ms in pushes if (kept := [m for m in ms if m in fresh])]
        try:
            trial.push(left)
        except Full:
            reasons.append(QueueFull)
        for ack in acks:
            answer = self._answer(trial, ack)
            if reasons:
                break
            if not answer.held:
                reasons.append(LeaseGone)
            elif not answer.accepted >= ack.completed | {offset for offset, _, _ in ack.others}:
                reasons.append(NotInLease)
        return tuple(reasons)
