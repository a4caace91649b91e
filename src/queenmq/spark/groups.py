"""A group whose consumer is a Spark query: lag shows it, and retention waits for it."""

from collections.abc import Mapping

from queenmq.errors import NotInLease
from queenmq.spark.connection import Connection
from queenmq.spark.positions import Position

LOCK_CLASS = 20_815

LOCK_KEY = "select hashtext($1)"
SUBSCRIBE = "select queen.subscribe($1, $2, null, null, null, 'all', null)"
GROUP = "select id, position is not null as started from queen.queue_groups where queue_id = $1 and name = $2"
EXTEND = "select queen.extend_group($1)"
ADVANCE = "select queen.advance_group($1, $2, $3, $4, $5, p_tick => $6, p_mark => $7)"


class SparkGroup:
    """One query at a time, as long as its connection lives; its cursors move when Spark commits."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._name = name
        self._held: set[int] = set()

    def hold(self, queues: Mapping[int, str], position: Position) -> None:
        """Be the only query of this group on these queues, and be known to them.

        A queue may join a namespace at any time. Where the group has never been, what lies before the position is not
        its to read.
        """
        new = {queue_id: queue for queue_id, queue in queues.items() if queue_id not in self._held}
        for queue in new.values():
            self._lock(queue)
        for queue_id, queue in new.items():
            self._connection.rows(SUBSCRIBE, self._name, queue)
            group = self._connection.row(GROUP, queue_id, self._name)
            while self._connection.value(EXTEND, group["id"]):
                pass
            if not group["started"]:
                self._move(queue, position, skip=True)
        self._held |= new.keys()

    def advance(self, queues: Mapping[int, str], position: Position) -> None:
        """Everything up to a position is done."""
        for queue in queues.values():
            self._move(queue, position, skip=False)

    def _move(self, queue: str, position: Position, *, skip: bool) -> None:
        self._connection.value(
            ADVANCE, self._name, queue, position.epoch, position.snapshot, skip, position.tick, position.mark
        )

    def _lock(self, queue: str) -> None:
        key = self._connection.value(LOCK_KEY, f"{queue}\n{self._name}")
        if not self._connection.lock(LOCK_CLASS, key):
            raise NotInLease(f'another query reads queue "{queue}" as the group "{self._name}"')
