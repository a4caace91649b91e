"""What this process delivered, so that an ack by transaction id finds its message without asking the database.

Whoever acknowledges elsewhere, or much later, is served by queen.locate_messages instead.
"""

from collections import OrderedDict
from collections.abc import Iterable
from uuid import UUID

from queenmq.engine import Popped

MESSAGES_MAX = 200_000  # remembered

Place = tuple[int, int]  # group id, offset


class Deliveries:
    """Messages by lease and partition, the oldest leases forgotten first."""

    def __init__(self, messages_max: int = MESSAGES_MAX) -> None:
        self._messages_max = messages_max
        self._messages = 0
        self._leases: OrderedDict[UUID, dict[tuple[int, str], Place]] = OrderedDict()
        self._names: OrderedDict[int, tuple[str, str]] = OrderedDict()  # partition id -> queue, partition

    def remember(self, popped: Popped, names: Iterable[str]) -> None:
        """Keep where the messages of a pop are; `names` are their transaction ids."""
        if not popped.messages or (lease_id := popped.leases[0].id) is None:
            return
        self._leases[lease_id] = {
            (message.lease.partition_id, name): (message.lease.group_id, message.offset)
            for message, name in zip(popped.messages, names, strict=True)
        }
        for lease in popped.leases:
            self._names[lease.partition_id] = lease.queue, lease.partition
        if len(self._names) > self._messages_max:
            self._names.popitem(last=False)
        self._messages += len(popped.messages)
        while self._messages > self._messages_max and len(self._leases) > 1:
            _, forgotten = self._leases.popitem(last=False)
            self._messages -= len(forgotten)

    def find(self, lease_id: UUID, partition_id: int, name: str) -> Place | None:
        """Where a message is that was delivered under a lease."""
        places = self._leases.get(lease_id)
        return None if places is None else places.get((partition_id, name))

    def names(self, partition_id: int) -> tuple[str | None, str | None]:
        """The queue and the name of a partition that something was delivered from."""
        return self._names.get(partition_id, (None, None))

    def forget(self, lease_id: UUID) -> None:
        """The lease has ended."""
        self._messages -= len(self._leases.pop(lease_id, ()))
