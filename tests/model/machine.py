"""The game as a whole."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize

from tests.model.board import PARTITIONS
from tests.model.postgres import Ack
from tests.model.traffic import IDS, POPS, TWO, Traffic
from tests.model.upkeep import Upkeep

ROUNDS_MAX = 20


class QueueMachine(Traffic, Upkeep):
    """PostgreSQL must agree with a queue a child could draw: a list and a bookmark."""

    # A move that has several names is made more often.
    push_2 = push_3 = push_4 = Traffic.push
    pop_2 = pop_3 = pop_plainly_2 = Traffic.pop
    pop_together_2 = pop_together_3 = Traffic.pop_together
    ack_2 = ack_3 = ack_4 = ack_5 = ack_6 = Traffic.ack
    ack_together_2 = Traffic.ack_together
    wait_2 = Traffic.wait
    wait_for_the_next_expiry_2 = Traffic.wait_for_the_next_expiry
    configure_2 = Upkeep.configure
    redrive_2 = redrive_3 = Upkeep.redrive

    @initialize(
        pushes=st.lists(st.tuples(TWO, st.sampled_from(PARTITIONS), IDS), max_size=6), pops=st.lists(POPS, max_size=3)
    )
    def some_traffic(self, pushes: list[Any], pops: list[Any]) -> None:
        """A game on an empty board takes long to become interesting."""
        if pushes:
            self.push(pushes)
        for pop in pops:
            self.compare()
            self.pop(pop)

    def teardown(self) -> None:
        try:
            if self.agreed:
                self._drain()
        finally:
            for queue in self.queue_names:
                self.postgres.call("delete_queue", queue)
            for group in self.groups:
                self.postgres.call("delete_group", group)

    def _drain(self) -> None:
        """In the end every group gets all it has not finished, and nothing else."""
        for number, name in enumerate(self.queue_names):
            if name in self.world.queues:
                self.pause(number, None, paused=False)
                for each in range(len(self.groups)):
                    self.pause(number, each, paused=False)
        for _ in range(ROUNDS_MAX):
            self.advance(4000)
            for number, name in enumerate(self.queue_names):
                for each, group in enumerate(self.groups):
                    self._finish(number, name, each, group)
            self.compare()
            if not any(place.todo for place in self.world.all_places()):
                return
        raise AssertionError("there is always more to read")

    def _finish(self, number: int, name: str, each: int, group: str) -> None:
        queue = self.world.queues.get(name)
        if queue is None or group not in queue.groups:
            return
        for what in ("queue",) if queue.groups[group].queue_wide else PARTITIONS:
            if what == "queue" or what in queue.groups[group].places:
                request = self.request(kind=(number, what, each), batch=1000, partitions=len(PARTITIONS))
                self.take([request])
                mine = [handle for handle in self.handles if handle.lease_id == request.lease_id]
                self.compare()
                if mine:
                    self.say([Ack(handle, frozenset(handle.offsets)) for handle in mine])
