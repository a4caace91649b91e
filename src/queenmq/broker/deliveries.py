"""What this process delivered, so that an ack by transaction id finds its message without asking the database.

Leases, partitions and messages are known by the texts that clients were told, and say again: nothing has to be parsed.
Whoever acknowledges elsewhere, much later, or spells an id in another way is served by queen.locate_messages instead.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from uuid import UUID

from msgspec import Struct

from queenmq.broker.wire import partition_text
from queenmq.engine import Popped
from queenmq.model import Message

MESSAGES_MAX = 200_000  # remembered

_partition = attrgetter("lease.partition_id")
_offset = attrgetter("offset")


class Part(Struct, frozen=True):
    """What a lease holds of one partition."""

    partition_id: int
    group_id: int
    lease_id: UUID
    offsets: dict[str, int]  # by transaction id


class Deliveries:
    """Messages by lease and partition, the oldest leases forgotten first."""

    def __init__(self, messages_max: int = MESSAGES_MAX) -> None:
        self._messages_max = messages_max
        self._messages = 0
        self._leases: OrderedDict[str, dict[str, Part]] = OrderedDict()  # lease, partition
        self._names: OrderedDict[int, tuple[str, str]] = OrderedDict()  # partition id -> queue, partition

    def remember(self, popped: Popped, lease: str, names: Sequence[str]) -> None:
        """Keep where the messages of a pop are; `names` are their transaction ids."""
        if not lease or not popped.messages:
            return
        if len(popped.leases) == 1:
            parts = [_part(popped.messages, names)]
        else:
            runs = (list(run) for _, run in groupby(popped.messages, _partition))
            rest = iter(names)
            parts = [_part(run, [next(rest) for _ in run]) for run in runs]
        self._leases[lease] = {partition_text(part.partition_id): part for part in parts}
        for each in popped.leases:
            self._names[each.partition_id] = each.queue, each.partition
        if len(self._names) > self._messages_max:
            self._names.popitem(last=False)
        self._messages += sum(len(part.offsets) for part in parts)
        while self._messages > self._messages_max and len(self._leases) > 1:
            self._forgotten(self._leases.popitem(last=False)[1])

    def find(self, lease: str | None, partition: str) -> Part | None:
        """What was delivered of a partition under a lease."""
        parts = self._leases.get(lease) if lease is not None else None
        return None if parts is None else parts.get(partition)

    def names(self, partition_id: int) -> tuple[str | None, str | None]:
        """The queue and the name of a partition that something was delivered from."""
        return self._names.get(partition_id, (None, None))

    def forget(self, leases: Iterable[UUID]) -> None:
        """Leases have ended."""
        for lease in leases:
            self._forgotten(self._leases.pop(str(lease), {}))

    def _forgotten(self, parts: dict[str, Part]) -> None:
        self._messages -= sum(len(part.offsets) for part in parts.values())


def _part(messages: Sequence[Message], names: Sequence[str]) -> Part:
    lease = messages[0].lease
    assert lease.id is not None
    return Part(lease.partition_id, lease.group_id, lease.id, dict(zip(names, map(_offset, messages), strict=True)))
