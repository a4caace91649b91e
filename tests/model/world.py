"""All queues on paper, and what can be done to them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tests.model.paper import Group, Letter, Message, Partition, Place, Queue, seconds

if TYPE_CHECKING:
    from tests.model.postgres import Handle

Subscription = tuple[str, str, str, str]  # group, queue, partition, namespace; "" where it names none


class Full(Exception):
    """The push does not fit into its queue."""


@dataclass
class World:
    now: datetime
    queues: dict[str, Queue] = field(default_factory=dict)
    subscriptions: dict[Subscription, datetime | None] = field(default_factory=dict)  # None: from the beginning
    letters: list[Letter] = field(default_factory=list)

    def all_places(self) -> Iterable[Place]:
        for queue in self.queues.values():
            for group in queue.groups.values():
                yield from group.places.values()

    def find_place(self, partition_id: int, group_id: int) -> Place | None:
        """By ids: a group or partition that was deleted is not the next one of that name."""
        for queue in self.queues.values():
            for group in queue.groups.values():
                for place in group.places.values():
                    if place.partition.id == partition_id and group.id == group_id:
                        return place
        return None

    def is_lent(self, handle: "Handle") -> bool:
        """Whether a partition is still lent under a lease, be it over."""
        place = self.find_place(handle.partition_id, handle.group_id)
        return place is not None and place.lease is not None and place.lease.id == handle.lease_id

    # Queues and partitions.

    def add_queue(self, name: str) -> Queue:
        queue = self.queues.setdefault(name, Queue(name))
        if not queue.partitions:
            self.attach(queue)
        return queue

    def add_partition(self, queue: Queue, name: str, partition_id: int) -> None:
        """A new partition is empty: every group that reads it begins at its first message."""
        partition = queue.partitions[name] = Partition(partition_id, name)
        for group_name, group in queue.groups.items():
            if group.queue_wide or (group_name, queue.name, name, "") in self.subscriptions:
                group.places[name] = Place(queue, group_name, partition, origin=0)

    def remove_partition(self, queue: Queue, name: str) -> None:
        partition = queue.partitions.pop(name)
        self.letters = [letter for letter in self.letters if letter.partition_id != partition.id]
        for group in queue.groups.values():
            group.places.pop(name, None)

    def remove_queue(self, queue: Queue) -> None:
        for name in list(queue.partitions):
            self.remove_partition(queue, name)
        del self.queues[queue.name]
        for key in [key for key in self.subscriptions if key[1] == queue.name]:
            del self.subscriptions[key]

    def is_idle(self, partition: Partition, places: list[Place], idle_seconds: float) -> bool:
        quiet = partition.used_at is None or partition.used_at < self.now - seconds(idle_seconds)
        return (
            quiet
            and not partition.stored
            and not any(place.todo or place.is_held(self.now) for place in places)
            and not any(letter.partition_id == partition.id for letter in self.letters)
        )

    def configure(self, queue: Queue, namespace: str | None, options: dict[str, Any]) -> None:
        if namespace is not None and namespace != queue.namespace:
            queue.namespace = namespace
            self.attach(queue)
        before = queue.settings
        queue.settings = before | options
        if any(queue.settings[k] != before[k] for k in ("delayed_processing_seconds", "window_buffer_seconds")):
            for group in queue.groups.values():
                for place in group.places.values():
                    paused = place.failures.get(place.cursor, 0) > 0
                    if place.lease is None and place.ready and place.ready > self.now and not paused:
                        place.rest(self.now)

    # Groups and subscriptions.

    def covering(self, queue: Queue) -> list[Subscription]:
        return [key for key in self.subscriptions if key[1] == queue.name or (key[3] and key[3] == queue.namespace)]

    def attach(self, queue: Queue) -> None:
        """Give a queue the groups whose subscriptions cover it."""
        for name, _, partition, _ in self.covering(queue):
            group = queue.groups.setdefault(name, Group())
            group.queue_wide = group.queue_wide or not partition

    def subscribe(
        self, group: str, queue: str, partition: str, namespace: str, mode: str | None, since: datetime | None
    ) -> None:
        """The first one counts. Without a mode, one that covers as much decides, and all is read if there is none."""
        key = (group, queue, partition, namespace)
        if key not in self.subscriptions and (mode or not self.is_covered(group, queue)):
            general = self.general_places(group, queue, partition)
            self.subscriptions[key] = None if mode in (None, "all") else since or self.now
            for place in general:
                self.start(place)
        for each in self.queues.values():
            if each.name == queue or (namespace and each.namespace == namespace):
                self.attach(each)

    def is_covered(self, group: str, queue: str) -> bool:
        """Whether the group reads the whole of a queue by its name or by its namespace."""
        namespace = self.queues[queue].namespace if queue in self.queues else ""
        by_name = bool(queue) and (group, queue, "", "") in self.subscriptions
        return by_name or (bool(namespace) and (group, "", "", namespace) in self.subscriptions)

    def general_places(self, group: str, queue: str, partition: str) -> list[Place]:
        """Where the group has not moved from where its subscription put it, and was not served."""
        if queue not in self.queues or group not in self.queues[queue].groups:
            return []
        found = []
        for name, place in self.queues[queue].groups[group].places.items():
            since = self.since(group, place.queue, name)
            log = place.partition
            stays = place.cursor <= log.start if since is None else place.cursor == log.first_since(since)
            untouched = not (place.served or place.fates or place.failures or place.lapses)
            if partition in ("", name) and stays and untouched:
                found.append(place)
        return found

    def start(self, place: Place) -> None:
        """Where the subscription says, ready since the next message was pushed or became due."""
        since = self.since(place.group, place.queue, place.partition.name)
        place.move(place.partition.start if since is None else place.partition.first_since(since), self.now)
        place.ready = place.due_since(self.now)

    def since(self, group: str, queue: Queue, partition: str) -> datetime | None:
        """The most specific subscription says where a group begins."""
        for key in [
            (group, queue.name, partition, ""),
            (group, queue.name, "", ""),
            (group, "", "", queue.namespace),
        ]:
            if key in self.subscriptions:
                return self.subscriptions[key]
        return None

    def reach(self, queue: Queue, group: str, partition: Partition) -> None:
        places = queue.groups[group].places
        if partition.name not in places:
            places[partition.name] = Place(queue, group, partition, origin=0)
            self.start(places[partition.name])

    def extend(self, queue: Queue, name: str, limit: int) -> int:
        """Walk a new group up the partitions, a few at a time."""
        group = queue.groups[name]
        if group.complete or not group.queue_wide:
            return 0
        ahead = sorted((p for p in queue.partitions.values() if p.id > group.reached), key=lambda p: p.id)[:limit]
        for partition in ahead:
            self.reach(queue, name, partition)
            group.reached = partition.id
        group.complete = len(ahead) < limit
        return len(ahead)

    def remove_group(self, name: str, queues: list[Queue], *, everywhere: bool, with_subscription: bool) -> int:
        found = [queue for queue in queues if queue.groups.pop(name, None)]
        if with_subscription:
            names = {queue.name for queue in queues}
            for key in [k for k in self.subscriptions if k[0] == name and (everywhere or k[1] in names)]:
                del self.subscriptions[key]
        return len(found)

    # Push.

    def push(self, pushes: list[tuple[Queue, str, list[Message]]]) -> tuple[list[int], set[int]]:
        """First offsets, and the ids of the partitions where somebody was waiting. All or nothing."""
        for queue in {queue.name: queue for queue, _, _ in pushes}.values():
            added = sum(len(messages) for each, _, messages in pushes if each is queue)
            limit = queue.settings["max_queue_size"]
            if limit and queue.depth() + added > limit:
                raise Full
        firsts = [queue.partitions[name].append(messages) for queue, name, messages in pushes]
        woken = set()
        for queue, name in {(queue.name, name): (queue, name) for queue, name, _ in pushes}.values():
            if sum(place.wake(self.now) for place in queue.places(name)):  # all of them, not up to the first
                woken.add(queue.partitions[name].id)
        return firsts, woken

    # Moving and removing.

    def clear(self, queue: Queue) -> int:
        dropped = 0
        for partition in queue.partitions.values():
            dropped += len(partition.stored)
            partition.segments = []
            partition.start = partition.end
        self.skip_deleted(queue)
        return dropped

    def retain(self, queue: Queue) -> int:
        """Drop whole segments from the front of each partition, as long as they may go."""
        dropped = 0
        for partition in queue.partitions.values():
            while partition.segments and self.may_go(queue, partition, partition.segments[0]):
                dropped += len(partition.segments[0])
                partition.drop_first()
        self.skip_deleted(queue)
        return dropped

    def may_go(self, queue: Queue, partition: Partition, segment: range) -> bool:
        age = self.now - partition.messages[segment.start].created_at
        aged, old = queue.settings["retention_seconds"], queue.settings["completed_retention_seconds"]
        readers = [g for g in queue.groups.values() if g.queue_wide or partition.name in g.places]
        places = [group.places.get(partition.name) for group in readers]
        if any(place and place.is_held(self.now) and set(place.in_lease()) & set(segment) for place in places):
            return False
        if aged and age > seconds(aged):
            return True
        finished = all(place and not set(place.todo) & set(segment) for place in places)
        return bool(old and age > seconds(old) and places and finished)

    def skip_deleted(self, queue: Queue) -> None:
        for group in queue.groups.values():
            for place in group.places.values():
                place.skip_deleted(self.now)

    def redrive(self, letters: list[Letter]) -> None:
        """Back to their places where they are still stored; otherwise pushed anew, for everybody."""
        anew = []
        changed: dict[int, Place] = {}
        for letter in letters:
            group = self.queues[letter.queue].groups.get(letter.group)
            place = self.find_place(letter.partition_id, group.id) if group and group.id else None
            if place is None or letter.offset < max(place.origin, place.partition.start):
                anew.append(letter)
            elif letter.offset in place.fates:
                changed[id(place)] = place
                place.recounted = place.recounted or place.fates[letter.offset] != "dead"
                del place.fates[letter.offset]
                if place.queue.age_limit:
                    place.failures[letter.offset] = 0  # its age is not held against it
                if place.lease is not None:
                    place.lease.given_back.add(letter.offset)
        for place in changed.values():
            if place.lease is None:
                place.rest(self.now)
        anew.sort(key=lambda letter: (letter.partition_id, letter.offset))
        self.push([self._anew(letter) for letter in anew])
        self.letters = [letter for letter in self.letters if letter not in letters]

    def _anew(self, letter: Letter) -> tuple[Queue, str, list[Message]]:
        queue = self.queues[letter.queue]
        name = next(name for name, p in queue.partitions.items() if p.id == letter.partition_id)
        return queue, name, [Message(letter.value, None, self.now)]
