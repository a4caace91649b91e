"""What this process delivered, so that an ack by transaction id finds its message without asking the database.

Leases, partitions and messages are known by the texts that clients were told, and say again: nothing has to be parsed.
Whoever acknowledges elsewhere, much later, or spells an id in another way is served by queen.locate_messages instead.

All of it is found by the lease, whose id is random. If PostgreSQL loses the lease, it refuses the ack; if it has the
lease, it also has all that was written before it. So nothing here has to be forgotten when history changes.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from uuid import UUID

from msgspec import Struct

from queenmq.engine.pop.popper import Run
from queenmq.service.ids import id_text

MESSAGES_MAX = 200_000  # remembered


class Part(Struct):
    """What a lease holds of one partition."""

    partition_id: int
    group_id: int
    lease_id: UUID
    queue: str
    partition: str
    names: list[str]  # transaction ids
    offsets: list[int]
    _by_name: dict[str, int] | None = None

    def offset(self, name: str) -> int | None:
        """Where one of its messages is."""
        if self._by_name is None:
            self._by_name = dict(zip(self.names, self.offsets, strict=True))
        return self._by_name.get(name)

    def offsets_of(self, names: list[str]) -> list[int] | None:
        """Where some of its messages are, mostly all of them in order; None if one of them is not here."""
        if names == self.names:
            return self.offsets
        found = [offset for name in names if (offset := self.offset(name)) is not None]
        return found if len(found) == len(names) else None


class Deliveries:
    """Messages by lease and partition, the oldest leases forgotten first."""

    def __init__(self, messages_max: int = MESSAGES_MAX) -> None:
        self._messages_max = messages_max
        self._messages = 0
        self._leases: OrderedDict[str, dict[str, Part]] = OrderedDict()  # lease, partition

    def remember(self, runs: Iterable[tuple[Run, Sequence[str]]]) -> None:
        """Keep where the messages of a pop are, known by the names that come with each run."""
        for run, names in runs:
            held = run.lease
            parts = self._leases.setdefault(str(held.id), {})
            partition = id_text(held.partition_id)
            part = parts.get(partition)
            if part is None:
                assert held.id is not None
                part = parts[partition] = Part(
                    held.partition_id, held.group_id, held.id, held.queue, held.partition, [], []
                )
            part.names += names
            part.offsets += run.offsets
            self._messages += len(run.offsets)
        while self._messages > self._messages_max and len(self._leases) > 1:
            self._messages -= _count(self._leases.popitem(last=False)[1])

    def find(self, lease: str | None, partition: str) -> Part | None:
        """What was delivered of a partition under a lease."""
        parts = self._leases.get(lease) if lease is not None else None
        return None if parts is None else parts.get(partition)

    def forget(self, leases: Iterable[UUID]) -> None:
        """Leases have ended."""
        for lease in leases:
            self._messages -= _count(self._leases.pop(str(lease), {}))


def _count(parts: dict[str, Part]) -> int:
    return sum(len(part.offsets) for part in parts.values())
