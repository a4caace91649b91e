"""The moves of operators: settings, subscriptions, seeks, deletions, retention, dead letters."""

import copy
import json
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from queenmq.errors import GroupNotFound, PartitionNotFound, QueueFull, QueueNotFound
from tests.model.board import PARTITIONS, Board
from tests.model.paper import Letter, Queue, seconds
from tests.model.traffic import TWO
from tests.model.world import Full

PARTITION = st.sampled_from(PARTITIONS)
ANY_PARTITION = st.sampled_from((None, None, *PARTITIONS))
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "lease_seconds": st.sampled_from((5, 30)),
        "retry_limit": st.sampled_from((0, 1, 2)),
        "retry_delay_ms": st.sampled_from((0, 1000)),
        "retry_backoff": st.sampled_from((1, 2, 3)),
        "delayed_processing_seconds": st.sampled_from((0, 0, 10)),
        "window_buffer_seconds": st.sampled_from((0, 0, 8)),
        "max_wait_seconds": st.sampled_from((0, 0, 60)),
        "ttl_seconds": st.sampled_from((0, 0, 40)),
        "max_queue_size": st.sampled_from((0, 0, 6)),
        "retention_seconds": st.sampled_from((0, 50)),
        "completed_retention_seconds": st.sampled_from((0, 20)),
        "dedup_window_seconds": st.sampled_from((20, 3600)),
        "dead_letter_enabled": st.booleans(),
        "priority": st.sampled_from((0, 1)),
    },
)


class Upkeep(Board):
    def on_paper(self, number: int) -> Queue | None:
        return self.world.queues.get(self.queue_names[number])

    @initialize(options=OPTIONS)
    def begin(self, options: dict[str, Any]) -> None:
        self.configure(0, options, move=True)

    @rule(queue=TWO, options=OPTIONS, move=st.booleans())
    def configure(self, queue: int, options: dict[str, Any], move: bool) -> None:  # noqa: FBT001
        name, namespace = self.queue_names[queue], self.namespace if move else None
        self.postgres.call("configure_queue", name, namespace, None, json.dumps(options), self.world.now)
        on_paper = self.on_paper(queue) or self.world.add_queue(name)
        self.world.configure(on_paper, namespace, options)

    # Groups.

    @rule(group=TWO, queue=TWO, partition=ANY_PARTITION, mode=st.sampled_from(("all", "new", "timestamp")))
    def subscribe(self, group: int, queue: int, partition: str | None, mode: str) -> None:
        since = None if mode == "all" else self.world.now - seconds(20)
        name, now = self.groups[group], self.world.now
        self.postgres.call("subscribe", name, self.queue_names[queue], partition, None, None, mode, since, now)
        self.world.subscribe(name, self.queue_names[queue], partition or "", "", mode, since)

    @rule(queue=TWO, group=st.sampled_from((None, 0, 1)), paused=st.booleans())
    def pause(self, queue: int, group: int | None, paused: bool) -> None:  # noqa: FBT001
        """Deliveries of a queue, or of one group on it, stop or go on."""
        on_paper = self.on_paper(queue)
        name = None if group is None else self.groups[group]
        function = "pause" if paused else "resume"
        if on_paper is None or (name is not None and name not in on_paper.groups):
            with pytest.raises(QueueNotFound if on_paper is None else GroupNotFound):
                self.postgres.call(function, self.queue_names[queue], name)
            return
        switched = on_paper if name is None else on_paper.groups[name]
        [[changed]] = self.postgres.call(function, self.queue_names[queue], name)
        assert changed == (switched.paused != paused)
        switched.paused = paused

    @rule(group=TWO, queue=TWO, limit=st.sampled_from((1, 2)))
    def extend(self, group: int, queue: int, limit: int) -> None:
        """A group takes its first steps on a queue that was there before."""
        on_paper = self.on_paper(queue)
        if on_paper and (found := on_paper.groups.get(self.groups[group])):
            [[count]] = self.postgres.call("extend_group", found.id, limit, None, self.world.now)
            assert count == self.world.extend(on_paper, self.groups[group], limit)

    @rule(
        group=TWO,
        queue=TWO,
        partition=ANY_PARTITION,
        to=st.one_of(st.sampled_from(("beginning", "end")), st.integers(0, 9), st.sampled_from((0.0, 10.0, 60.0))),
    )
    def seek(self, group: int, queue: int, partition: str | None, to: str | float) -> None:
        """To an end, an offset (int), or a moment so many seconds ago (float)."""
        now, name, on_paper = self.world.now, self.groups[group], self.on_paper(queue)
        moment = now - seconds(to) if isinstance(to, float) else None
        arguments = (
            name,
            self.queue_names[queue],
            partition,
            to if isinstance(to, int) else None,
            moment,
            to if isinstance(to, str) else None,
            now,
        )
        missing = None
        if on_paper is None:
            missing = QueueNotFound
        elif name not in on_paper.groups:
            missing = GroupNotFound
        elif partition and partition not in on_paper.partitions:
            missing = PartitionNotFound
        if missing or on_paper is None:
            with pytest.raises(missing or QueueNotFound):
                self.postgres.call("seek_group", *arguments)
            return
        if partition:
            self.world.reach(on_paper, name, on_paper.partitions[partition])
        if not partition and not on_paper.groups[name].queue_wide:
            for each in on_paper.partitions.values():
                self.world.reach(on_paper, name, each)
        more = not partition
        while more:
            more = self.world.extend(on_paper, name, limit=1000)
        places = on_paper.groups[name].places
        moved = [places[partition]] if partition else list(places.values())
        for place in moved:
            log = place.partition
            if moment:
                origin = log.first_since(moment)
            elif isinstance(to, str):
                origin = log.start if to == "beginning" else log.end
            else:
                origin = min(max(int(to), log.start), log.end)
            place.move(origin, now)
        [[count]] = self.postgres.call("seek_group", *arguments)
        assert count == len(moved)

    @rule(group=TWO, queue=st.sampled_from((0, 1, None)), with_subscription=st.booleans())
    def delete_group(self, group: int, queue: int | None, with_subscription: bool) -> None:  # noqa: FBT001
        name = self.groups[group]
        if queue is not None and self.on_paper(queue) is None:
            with pytest.raises(QueueNotFound):
                self.postgres.call("delete_group", name, self.queue_names[queue], with_subscription)
            return
        queues = list(self.world.queues.values())
        if queue is not None:
            queues = [each for each in queues if each.name == self.queue_names[queue]]
        count = self.world.remove_group(name, queues, everywhere=queue is None, with_subscription=with_subscription)
        named = None if queue is None else self.queue_names[queue]
        assert self.postgres.call("delete_group", name, named, with_subscription) == [(count,)]

    # Deletions.

    @rule(queue=TWO, partition=PARTITION)
    def delete_partition(self, queue: int, partition: str) -> None:
        on_paper = self.on_paper(queue)
        there = on_paper is not None and partition in on_paper.partitions
        assert self.postgres.call("delete_partition", self.queue_names[queue], partition) == [(there,)]
        if on_paper and there:
            self.world.remove_partition(on_paper, partition)

    @rule(queue=TWO)
    def delete_queue(self, queue: int) -> None:
        on_paper = self.on_paper(queue)
        assert self.postgres.call("delete_queue", self.queue_names[queue]) == [(on_paper is not None,)]
        if on_paper:
            self.world.remove_queue(on_paper)

    @rule(queue=TWO)
    def clear_queue(self, queue: int) -> None:
        if on_paper := self.on_paper(queue):
            dropped = self.world.clear(on_paper)
            assert self.postgres.call("clear_queue", on_paper.name, self.world.now) == [(dropped,)]

    @rule(queue=TWO, limit=st.sampled_from((1, 2, 1000)))
    def retain(self, queue: int, limit: int) -> None:
        """From the beginning to the end, in small batches."""
        if on_paper := self.on_paper(queue):
            [[queue_id]] = self.postgres.call("find_queue", on_paper.name)
            dropped, cursor, done = 0, None, False
            while not done:
                [row] = self.postgres.call("retain", queue_id, cursor, limit, self.world.now)
                dropped, cursor, done = dropped + row["messages"], row["cursor"], row["done"]
            assert dropped == self.world.retain(on_paper)
            self.seen["retained away"] += dropped

    @rule(idle_seconds=st.sampled_from((0, 30)))
    def remove_idle_partitions(self, idle_seconds: int) -> None:
        idle = [
            (queue, name)
            for queue in self.world.queues.values()
            for name, partition in queue.partitions.items()
            if self.world.is_idle(partition, queue.places(name), idle_seconds)
        ]
        for queue, name in idle:
            self.world.remove_partition(queue, name)
        assert self.postgres.call("remove_idle_partitions", idle_seconds, 1000, self.world.now) == [(len(idle),)]

    @rule()
    def resync(self) -> None:
        """There is nothing to repair."""
        assert self.postgres.call("resync_partition_lookup", None, self.world.now) == [(0,)]

    # Dead letters.

    def letters(self, which: tuple[str, int]) -> tuple[list[Letter], tuple[Any, ...]]:
        """Some dead letters, and the arguments that name them."""
        by, number = which
        if by == "queue":
            name = self.queue_names[number % 2]
            return [letter for letter in self.world.letters if letter.queue == name], (None, name, None)
        if by == "group":
            name = self.groups[number % 2]
            return [letter for letter in self.world.letters if letter.group == name], (None, None, name)
        chosen = self.world.letters[number::2]
        return chosen, ([letter.id for letter in chosen], None, None)

    @precondition(lambda self: self.world.letters)
    @rule(which=st.tuples(st.sampled_from(("queue", "group", "ids")), st.integers(0, 3)))
    def redrive(self, which: tuple[str, int]) -> None:
        chosen, arguments = self.letters(which)
        if which[0] == "queue" and arguments[1] not in self.world.queues:
            with pytest.raises(QueueNotFound):
                self.postgres.call("redrive_dead_letters", *arguments, None, self.world.now)
            return
        before = copy.deepcopy(self.world)
        try:
            self.world.redrive(chosen)
        except Full:
            self.world = before
            with pytest.raises(QueueFull):
                self.postgres.call("redrive_dead_letters", *arguments, None, self.world.now)
            return
        assert self.postgres.call("redrive_dead_letters", *arguments, None, self.world.now) == [(len(chosen),)]
        self.seen["redriven"] += len(chosen)

    @precondition(lambda self: self.world.letters)
    @rule(which=st.tuples(st.sampled_from(("group", "ids")), st.integers(0, 3)))
    def purge(self, which: tuple[str, int]) -> None:
        chosen, arguments = self.letters(which)
        assert self.postgres.call("purge_dead_letters", *arguments) == [(len(chosen),)]
        self.world.letters = [letter for letter in self.world.letters if letter not in chosen]
