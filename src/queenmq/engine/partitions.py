"""Names of partitions to their ids, which never change. So each is looked up once."""

from collections import OrderedDict
from collections.abc import Collection, Iterable
from datetime import timedelta
from functools import lru_cache

from queenmq.engine.postgres.database import Database
from queenmq.errors import InvalidName

PARTITIONS_MAX = 1_000_000  # names that are cached; others are looked up again
NAME_CHARACTERS_MAX = 255
RESERVED_PREFIX = "__system_"

ENSURE = "select * from queen.ensure_partitions($1, $2, $3)"
QUEUES = """
select id, encryption_enabled, dedup_window_seconds from queen.queues
 where id = any ($1) and queen.check_incarnation($2)
"""

Name = tuple[str, str]  # queue, partition


class QueueInfo:
    """What a push needs to know of a queue. It is read again from time to time."""

    __slots__ = ("dedup_window", "encrypted", "id", "name")

    def __init__(self, id: int, name: str) -> None:
        self.id = id
        self.name = name
        self.encrypted = False
        self.dedup_window = timedelta(0)


class PartitionInfo:
    """A partition, and an offset that its log had reached at the last call."""

    __slots__ = ("id", "name", "queue", "seen_offset")

    def __init__(self, id: int, name: Name, queue: QueueInfo, seen_offset: int) -> None:
        self.id = id
        self.name = name
        self.queue = queue
        self.seen_offset = seen_offset


class Partitions:
    """The partitions this process has pushed to."""

    def __init__(self, database: Database, incarnation: str) -> None:
        self._database = database
        self._incarnation = incarnation
        self._known: OrderedDict[Name, PartitionInfo] = OrderedDict()
        self._queues: dict[int, QueueInfo] = {}

    def unknown(self, names: set[Name]) -> set[Name]:
        """The names that were not resolved yet."""
        known = self._known
        if known.keys() >= names:  # mostly
            return set()
        return {name for name in names if name not in known}  # a set less the keys would look at every key

    def of(self, names: Collection[Name]) -> dict[Name, PartitionInfo]:
        """Partitions that were resolved, by name."""
        return dict(zip(names, map(self._known.__getitem__, names), strict=True))

    async def resolve(self, wanted: set[Name]) -> set[str]:
        """Look up unknown partitions, and create those that do not exist. Returns the queues of what was looked up."""
        looked_up: set[str] = set()
        while missing := sorted(self.unknown(wanted)):  # again, because other calls may forget some
            queues, partitions = [name[0] for name in missing], [name[1] for name in missing]
            for row in await self._database.rows(ENSURE, queues, partitions, self._incarnation):
                name = missing[row["item"] - 1]
                queue = self._queues.setdefault(row["queue_id"], QueueInfo(row["queue_id"], name[0]))
                _update(queue, row)
                self._known[name] = PartitionInfo(row["partition_id"], name, queue, row["next_offset"])
            if len(self._known) > PARTITIONS_MAX:
                self._shrink(wanted)
            looked_up.update(queues)
        return looked_up

    async def refresh(self) -> None:
        """Read the settings of the known queues again, and forget queues that do not exist any more."""
        rows = await self._database.rows(QUEUES, list(self._queues), self._incarnation)
        found = {row["id"]: row for row in rows}
        for queue in list(self._queues.values()):
            if queue.id in found:
                _update(queue, found[queue.id])
            else:
                self.forget(queue.name)

    def forget(self, queue: str) -> None:
        """Look up a queue's partitions again when they are next needed."""
        self.drop([name for name in self._known if name[0] == queue])
        self._queues = {id: info for id, info in self._queues.items() if info.name != queue}

    def drop(self, names: Iterable[Name]) -> None:
        """Look up these partitions again when they are next needed."""
        for name in names:
            self._known.pop(name, None)

    def _shrink(self, wanted: set[Name]) -> None:
        """Forget the partitions that were looked up longest ago, but none that is wanted now."""
        for name in wanted - self.unknown(wanted):
            self._known.move_to_end(name)
        while len(self._known) > max(PARTITIONS_MAX, len(wanted)):
            self._known.popitem(last=False)


@lru_cache(maxsize=10_000)  # consumers send the same names again and again
def check_name(name: str, what: str) -> None:
    """Refuse what queen.check_name would refuse, before the name shares a call with others."""
    if not name or len(name) > NAME_CHARACTERS_MAX or any(c < " " or c == "\x7f" for c in name):
        raise InvalidName(f"the {what} name must have 1 to {NAME_CHARACTERS_MAX} characters and no control characters")
    _check_encodable(name, what)
    if what == "queue" and name.startswith(RESERVED_PREFIX):
        raise InvalidName(
            f'the queue name "{name}" begins with {RESERVED_PREFIX}, which is reserved; choose another name'
        )


def _check_encodable(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidName(f"the {what} name cannot be written in UTF-8") from None


def _update(queue: QueueInfo, row: object) -> None:
    queue.encrypted = row["encryption_enabled"]  # type: ignore[index]
    queue.dedup_window = timedelta(seconds=row["dedup_window_seconds"])  # type: ignore[index]
