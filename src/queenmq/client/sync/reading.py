# Generated from client/reading.py by `make sync-client`: edit that file, not this one.
"""What a queue holds, read by offset: without a group, without a lease, as often as you like."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from queenmq.client import table
from queenmq.client.answers import Record
from queenmq.client.calls import Changed, Fetch, Position
from queenmq.client.moment import aware

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from queenmq.client.sync.queen import Queen

BYTES_MAX = 8 * 1024 * 1024  # of payload in one answer


class Reading:
    """All that is stored at the moment you begin, partition after partition: `for record in queue.read()`."""

    def __init__(
        self,
        queen: "Queen",
        queue: str,
        partition: str | None,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> None:
        self._queen = queen
        self._queue = queue
        self._partition = partition
        self._since = aware(since, "since")
        self._until = aware(until, "until")

    def __repr__(self) -> str:
        moments = f"since={self._since} until={self._until}"
        return f"<{type(self).__name__} queue={self._queue!r} partition={self._partition!r} {moments}>"

    def __iter__(self) -> Iterator[Record]:
        for partition, (start, end) in (self._ends()).items():
            offset: int | None = start
            previous: datetime | None = None
            while offset is not None and offset < end:
                position = Position(self._queue, partition, offset, previous)
                [found] = self._queen.call(Fetch([position], BYTES_MAX))
                for record in found.records:
                    previous = record.created_at
                    if record.offset < end and self._wanted(record):
                        yield record
                offset = found.read_on(offset)

    def to_arrow(self) -> "pa.Table":
        """All of it as an Arrow table; payloads are JSON text. Needs `pip install 'queenmq[arrow]'`."""
        table.pyarrow()  # before anything is read
        return table.arrow([record for record in self])

    def to_pandas(self) -> "pd.DataFrame":
        """All of it as a pandas data frame; payloads are JSON text. Needs `pip install 'queenmq[arrow]'`."""
        table.pandas()
        found: Any = self.to_arrow()
        return found.to_pandas()

    def _wanted(self, record: Record) -> bool:
        return (self._since is None or record.created_at >= self._since) and (
            self._until is None or record.created_at < self._until
        )

    def _ends(self) -> Mapping[str, tuple[int, int]]:
        """From where to where each partition is to be read."""
        if self._partition is not None:
            [found] = self._queen.call(Fetch([Position(self._queue, self._partition)], 1))
            return {self._partition: (found.start_offset, found.next_offset)}
        ends: dict[str, tuple[int, int]] = {}
        cursor = None
        while True:
            page = self._queen.call(Changed(self._queue, self._since, cursor))
            ends |= {each.partition: (each.start_offset, each.last_offset + 1) for each in page.partitions}
            if (cursor := page.cursor) is None:
                return ends
