"""Every order in which the steps of several sessions can happen.

A scene has actors; each has a session of its own and a list of steps: calls, alone or in a transaction that
ends with a commit or a rollback. `every_order` plays the scene once for each way to shuffle the steps that keeps
each actor's own order, on a queue of its own. (BEGIN is part of a transaction's first step: alone it sees nothing
and locks nothing, so its place does not matter.) A step that waits for a lock stays where it is until another
actor's step lets it go; what its actor was to do next waits with it. A deadlock fails the test.

After each order the queue is emptied by ordinary pops. Whatever happened before: the log holds what was
committed, each pusher's messages in his order, and each group has completed each message once, having seen
them first in order.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from queenmq.errors import Refused
from tests.queue_in_sql import NOON, Clock, Delivery, Queue
from tests.waits import until

Step = Callable[[], Awaitable[Any]]
GROUP = "workers"


@dataclass
class Actor:
    """Someone with a session, and what he is going to do in it."""

    name: str
    queue: Queue
    scene: "Scene"
    steps: list[Step] = field(default_factory=list)
    heard: list[Any] = field(default_factory=list)  # the answer to each call, or the refusal
    effects: list[Callable[[], None]] = field(default_factory=list)  # of the open transaction
    open: bool = False
    task: asyncio.Task[Any] | None = None

    def will(self, *steps: Step) -> None:
        """What this actor does; a step that is a partial reads best: partial(alice.push, "ann", 1)."""
        self.steps += steps

    def will_in_transaction(self, first: Step, *steps: Step, end: str = "commit") -> None:
        async def begin_and_first() -> Any:
            await self.begin()
            return await first()

        self.will(begin_and_first, *steps, self.commit if end == "commit" else self.rollback)

    # Steps.

    async def begin(self) -> None:
        await self.queue.connection.execute("begin")
        self.open = True

    async def commit(self) -> None:
        done = await self.queue.connection.execute("commit")
        self.open = False
        if done == "COMMIT":  # and not ROLLBACK, because of an error before
            for effect in self.effects:
                effect()
        self.effects.clear()

    async def rollback(self) -> None:
        await self.queue.connection.execute("rollback")
        self.open = False
        self.effects.clear()

    async def push(self, partition: str, *values: Any, ids: Sequence[str | None] = ()) -> list[int]:
        offsets = await self.queue.push(self.scene.name, partition, *values, ids=ids)
        self._effect(partial(self.scene.note_push, self.name, partition, list(values)))
        return offsets

    async def push_many(self, *batches: tuple[str, list[Any]]) -> None:
        await self.queue.push_many(*((self.scene.name, partition, values) for partition, values in batches))
        for partition, values in batches:
            self._effect(partial(self.scene.note_push, self.name, partition, values))

    async def push_in_transaction(self, partition: str, *values: Any) -> None:
        await self.queue.push_in_transaction(self.scene.name, partition, *values)
        self._effect(partial(self.scene.note_push, self.name, partition, list(values)))

    async def pop(self, partition: str | None = None, group: str = GROUP, **options: Any) -> list[Delivery]:
        deliveries = await self.queue.pop(group, self.scene.name, partition, **options)
        for delivery in deliveries:
            self._effect(partial(self.scene.note_delivery, group, delivery))
            if options.get("auto_ack"):
                self._effect(partial(self.scene.note_done, group, delivery, delivery.offsets))
        return deliveries

    async def ack(self, delivery: Delivery, offsets: Sequence[int] | None = None, group: str = GROUP) -> Any:
        answer = await self.queue.ack(delivery, offsets)
        if answer.held:
            self._effect(partial(self.scene.note_done, group, delivery, answer.accepted))
        return answer

    async def transact(
        self, delivery: Delivery, partition: str, *values: Any, group: str = GROUP, ids: Sequence[str | None] = ()
    ) -> None:
        """Acknowledge a delivery and push, together."""
        await self.queue.transact(
            [(delivery, delivery.offsets, "completed")], [(self.scene.name, partition, values, ids)]
        )
        self._effect(partial(self.scene.note_done, group, delivery, delivery.offsets))
        self._effect(partial(self.scene.note_push, self.name, partition, list(values)))

    async def retain(self) -> Any:
        [queue] = await self.queue.call("find_queue", self.scene.name)
        return await self.queue.call("retain", queue[0], p_now=self.queue.clock.now)

    async def do(self, function: str, *arguments: Any, **named: Any) -> Any:
        """Any other function; what it does is for the test to check."""
        return await self.queue.call(function, *arguments, **named)

    def _effect(self, effect: Callable[[], None]) -> None:
        """Remember what a call did: now, or when its transaction commits."""
        if self.open:
            self.effects.append(effect)
        else:
            effect()

    # The scheduler's side.

    def start(self, step: Step) -> None:
        async def run() -> None:
            try:
                answer = await step()
            except Refused as refused:
                answer = refused
            if step not in (self.commit, self.rollback):
                self.heard.append(answer)

        self.task = asyncio.ensure_future(run())

    @property
    def busy(self) -> bool:
        return self.task is not None and not self.task.done()

    @property
    def pid(self) -> int:
        pid: int = self.queue.connection.get_server_pid()
        return pid


@dataclass
class Scene:
    """One order being played, on a queue of its own; the director prepares and inspects it."""

    name: str
    director: Actor = field(init=False)
    actors: dict[str, Actor] = field(default_factory=dict)
    pushed: dict[tuple[str, str], list[Any]] = field(default_factory=lambda: defaultdict(list))
    first_seen: dict[tuple[str, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    done: dict[tuple[str, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    once: bool = False  # values are the same messages, pushed several times with their ids
    perishable: set[Any] = field(default_factory=set)  # values that may leave the log during the scene

    async def stock(self, *batches: tuple[str, list[Any]]) -> None:
        """Messages that wait for a group which has been here before, so that its pops wait for nobody."""
        await self.director.push_many(*batches)
        deliveries = await self.director.pop(partitions=9)
        await self.director.queue.release(deliveries[0])

    def note_push(self, who: str, partition: str, values: list[Any]) -> None:
        self.pushed[who, partition] += values

    def note_delivery(self, group: str, delivery: Delivery) -> None:
        seen = self.first_seen[group, delivery.partition_id]
        seen += [offset for offset in delivery.offsets if offset not in seen]

    def note_done(self, group: str, delivery: Delivery, offsets: Sequence[int]) -> None:
        self.done[group, delivery.partition_id] += offsets

    async def perform(self, order: Sequence[str]) -> None:
        """Play the steps in this order, as far as locks allow."""
        waiting = {name: list(actor.steps) for name, actor in self.actors.items()}
        due = dict.fromkeys(self.actors, 0)  # steps that the order has called for and that have not begun
        for name in order:
            due[name] += 1
            await self._go_on(waiting, due)
        # PostgreSQL ends what is left: a deadlock, or waiting that only looked like one (it reorders queues).
        while running := [actor.task for actor in self.actors.values() if actor.task is not None and actor.busy]:
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            await self._go_on(waiting, due)

    async def _go_on(self, waiting: dict[str, list[Step]], due: dict[str, int]) -> None:
        while ready := [actor for name, actor in self.actors.items() if due[name] and not actor.busy]:
            actor = ready[0]
            due[actor.name] -= 1
            actor.start(waiting[actor.name].pop(0))
            await self._until_all_wait()
        for actor in self.actors.values():
            if actor.task is not None and actor.task.done():
                actor.task.result()

    async def _until_all_wait(self) -> None:
        """Until every step has ended or waits for a lock that another actor has."""
        everyone = [actor.pid for actor in self.actors.values()]
        while running := [actor.pid for actor in self.actors.values() if actor.busy]:
            blocked = await self.director.queue.connection.fetchval(
                "select count(*) from unnest($1::int[]) as pid where pg_blocking_pids(pid) && $2::int[]",
                running, everyone,
            )  # fmt: skip
            if blocked == len(running):
                return

    # What must be true in the end.

    async def finish(self, groups: Sequence[str]) -> None:
        director = self.director
        director.queue.clock.now = max(actor.queue.clock.now for actor in [director, *self.actors.values()])
        await until("the inbox is empty", self._inbox_is_empty)
        for group in groups:
            await self._drain(group)
            if await self._leases():
                director.queue.clock.advance(10_000)
                await self._drain(group)
        await self._assert_the_log_is_what_was_committed()
        await self._assert_everything_was_done_once_and_in_order(groups)

    async def _inbox_is_empty(self) -> bool:
        return not (await self.director.queue.sequence())["moved"]

    async def _drain(self, group: str) -> None:
        while deliveries := await self.director.pop(group=group, partitions=10):
            for delivery in deliveries:
                await self.director.ack(delivery, group=group)

    async def _leases(self) -> bool:
        held = await self.director.queue.connection.fetchval(
            "select count(*) from queen.partition_consumers c join queen.partition_lookup l using (partition_id) "
            "join queen.queues q on q.id = l.queue_id where q.name = $1 and c.lease_id is not null",
            self.name,
        )
        return bool(held)

    async def _assert_the_log_is_what_was_committed(self) -> None:
        rows = await self.director.queue.connection.fetch(
            'select partition, payload from queen.messages where queue = $1 order by partition, "offset"', self.name
        )
        stored = defaultdict(list)
        for row in rows:
            stored[row["partition"]] += [value for value in [int(row["payload"])] if value not in self.perishable]
        for partition in {place for _, place in self.pushed} | set(stored):
            pushed = [
                [value for value in values if value not in self.perishable]
                for (_, place), values in self.pushed.items()
                if place == partition
            ]
            expected = sorted({value for values in pushed for value in values})
            assert sorted(stored[partition]) == expected, f"{partition}: stored {stored[partition]}, pushed {pushed}"
            for values in pushed if not self.once else []:
                assert [value for value in stored[partition] if value in values] == values, "a pusher's order is lost"

    async def _assert_everything_was_done_once_and_in_order(self, groups: Sequence[str]) -> None:
        rows = await self.director.queue.connection.fetch(
            "select g.name, l.partition_id, c.origin, l.next_offset, c.dead_lettered + c.expired as given_up "
            "from queen.queues q join queen.partition_lookup l on l.queue_id = q.id "
            "join queen.queue_groups g on g.queue_id = q.id "
            "left join queen.partition_consumers c on c.partition_id = l.partition_id and c.group_id = g.id "
            "where q.name = $1 and g.name = any ($2)",
            self.name, list(groups),
        )  # fmt: skip
        for row in rows:
            key = row["name"], row["partition_id"]
            assert row["origin"] is not None, f"group {key} has no place in its partition"
            expected = set(range(row["origin"], row["next_offset"]))
            missing = sorted(expected - set(self.done[key]))
            assert sorted(self.done[key]) == sorted(expected - set(missing)), f"done {self.done[key]} of {expected}"
            assert len(missing) == row["given_up"], f"never delivered: {missing}; given up: {row['given_up']}"
            assert self.first_seen[key] == sorted(self.first_seen[key]), f"seen out of order: {self.first_seen[key]}"


Prepare = Callable[[Scene, dict[str, Actor]], Awaitable[None]]
Check = Callable[[Scene, dict[str, Actor]], Awaitable[None]]


@dataclass
class Stage:
    """Sessions that scenes are played on, one after the other."""

    sessions: dict[str, Any]
    observer: Any
    played: int = 0

    async def every_order(
        self, prepare: Prepare, check: Check | None = None, groups: Sequence[str] = (GROUP,), *, drain: bool = True
    ) -> int:
        """Play every order; returns how many there were."""
        first = await self._set(prepare)
        orders = list(shuffles({name: len(actor.steps) for name, actor in first.actors.items()}))
        for number, order in enumerate(orders):
            scene = first if number == 0 else await self._set(prepare)
            try:
                await scene.perform(order)
                if check is not None:
                    await check(scene, scene.actors)
                if drain:
                    await scene.finish(groups)
            except BaseException as error:
                error.add_note(f"order {number + 1} of {len(orders)}: {' '.join(order)}")
                await self._break_off(scene)
                raise
        return len(orders)

    async def _set(self, prepare: Prepare) -> Scene:
        self.played += 1
        scene = Scene(f"orders{self.played}")
        scene.director = Actor("director", Queue(self.observer, Clock(NOON)), scene)
        cast = {name: Actor(name, Queue(session, Clock(NOON)), scene) for name, session in self.sessions.items()}
        await prepare(scene, cast)
        scene.actors = {name: actor for name, actor in cast.items() if actor.steps}
        for actor in scene.actors.values():
            actor.queue.clock.now = max(actor.queue.clock.now, scene.director.queue.clock.now)
        return scene

    async def _break_off(self, scene: Scene) -> None:
        for actor in scene.actors.values():
            if actor.task is not None and actor.busy:
                actor.task.cancel()
                with suppress(BaseException):
                    await actor.task


def shuffles(lengths: dict[str, int]) -> Iterator[tuple[str, ...]]:
    """Every way to shuffle so many steps of each."""
    left = {name: length for name, length in lengths.items() if length}
    if not left:
        yield ()
    for name, steps in left.items():
        for rest in shuffles({**left, name: steps - 1}):
            yield (name, *rest)
