# Generated from client/tail.py by `make sync-client`: edit that file, not this one.
"""Live reading: messages as they are written, without a group."""

import time
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Literal, Self

from queenmq.client.answers import ChangedPartition, Record
from queenmq.client.calls import Changed, Fetch, Position
from queenmq.errors import PositionLost, QueueNotFound

if TYPE_CHECKING:
    from datetime import datetime

    from queenmq.client.sync.queen import Queen

BYTES_MAX = 8 * 1024 * 1024  # of payload in one answer
POSITIONS_MAX = 100  # partitions in one question
PAUSE_SECONDS = 0.02  # when nothing was written; doubles
PAUSE_SECONDS_MAX = 0.5


class Tail:
    """Messages of a queue as they are written: `for record in queue.tail()`.

    Nobody is leased anything and nothing is acknowledged; any number of readers see everything, each partition in
    order. Where it begins is settled by the first step of the iteration, or before it by `settle`. If PostgreSQL has
    lost messages that were read, the iteration ends with PositionLost.
    """

    def __init__(self, queen: "Queen", queue: str, partition: str | None, start: Literal["beginning", "end"]) -> None:
        self._queen = queen
        self._queue = queue
        self._partition = partition
        self._start = start
        self._since: datetime | None = None  # what was written before is known
        self._next: dict[str, int] = {}  # the offset to read next, by partition
        self._previous: dict[str, datetime] = {}  # when the message before it was written
        self._ids: dict[str, str] = {}  # of the partitions
        self._settled: dict[str, int] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} queue={self._queue!r} partition={self._partition!r} start={self._start!r}>"

    def settle(self) -> Self:
        """Begin here and now: all that is written from now on will be read, whenever the iteration starts."""
        self._settled = self._begin()
        return self

    def __iter__(self) -> Iterator[Record]:
        behind = self._begin() if self._settled is None else self._settled
        pause = PAUSE_SECONDS
        while True:
            if not behind:
                behind |= self._behind()
            records = self._read(behind) if behind else []
            for record in records:
                yield record
            if records:
                pause = PAUSE_SECONDS
            else:
                time.sleep(pause)
                pause = min(2 * pause, PAUSE_SECONDS_MAX)

    def _begin(self) -> dict[str, int]:
        """Settle where to begin; what there is to read from there on."""
        written = self._written()
        for partition, (start, end) in written.items():
            self._next[partition] = start if self._start == "beginning" else end
        return {name: end for name, (_, end) in written.items() if self._next[name] < end}

    def _behind(self) -> Mapping[str, int]:
        """Partitions that have something to read, and up to where."""
        written = self._written()
        for partition, (start, _) in written.items():
            self._next.setdefault(partition, start)  # it is new: all of it was written after we began
        # A partition that ends before the next offset is read too, to find out what became of it.
        return {name: end for name, (_, end) in written.items() if self._next[name] != end}

    def _written(self) -> Mapping[str, tuple[int, int]]:
        """The ends of the partitions that were written since the last look; a queue may begin to exist later."""
        if self._partition is not None:
            position = Position(self._queue, self._partition, self._next.get(self._partition, 0))
            [found] = self._queen.call(Fetch([position], 1))
            return {self._partition: (found.start_offset, found.next_offset)} if found.next_offset else {}
        written: dict[str, tuple[int, int]] = {}
        cursor, safe_time = None, None
        while True:
            try:
                page = self._queen.call(Changed(self._queue, self._since, cursor))
            except QueueNotFound:
                return {}
            safe_time = safe_time or page.safe_time
            for each in page.partitions:
                self._recognise(each)
                written[each.partition] = (each.start_offset, each.last_offset + 1)
            if (cursor := page.cursor) is None:
                self._since = safe_time
                return written

    def _recognise(self, found: ChangedPartition) -> None:
        """Begin anew with a partition that was deleted and made again: its id is another one."""
        if self._ids.setdefault(found.partition, found.partition_id) != found.partition_id:
            self._ids[found.partition] = found.partition_id
            self._next.pop(found.partition, None)
            self._previous.pop(found.partition, None)

    def _read(self, behind: dict[str, int]) -> list[Record]:
        """The next messages of some partitions; those that are read up to their ends are behind no more."""
        names = list(islice(behind, POSITIONS_MAX))
        positions = [Position(self._queue, name, self._next[name], self._previous.get(name)) for name in names]
        records: list[Record] = []
        fetched = self._queen.call(Fetch(positions, BYTES_MAX))
        for position, found in zip(positions, fetched, strict=True):
            name = position.partition
            if found.error == PositionLost.code:
                raise PositionLost(
                    f'PostgreSQL has lost the message before offset {position.offset} of partition "{name}" of queue '
                    f'"{self._queue}", which was read: another one is there now'
                )
            if not found.records and found.next_offset <= position.offset:
                del self._next[name], behind[name]  # it was deleted; written again it is a new one
                self._previous.pop(name, None)
                continue
            records += found.records
            if found.records:
                self._previous[name] = found.records[-1].created_at
            offset = found.read_on(position.offset)
            if offset is not None:  # else the answer was full before its turn came: it is asked for again
                self._next[name] = offset
            if self._next[name] >= behind[name]:
                del behind[name]
        return records
