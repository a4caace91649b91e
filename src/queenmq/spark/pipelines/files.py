"""The messages of an archive's files, each in its order, straight from segments.

A file has the partitions whose ids leave one remainder. Their segments are listed, which is little to read, sorted, and
then fetched in that order: no message is sorted, and none has to pass through Spark.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import chain, groupby
from typing import Any

import pyarrow as pa

from queenmq.config import Settings
from queenmq.engine.crypto import Cipher
from queenmq.spark.connection import EPOCH_2000, Connection, explanations
from queenmq.spark.options import Options
from queenmq.spark.pipelines.parquet import Key, keyed, runs, write_files
from queenmq.spark.planning import SegmentsTask
from queenmq.spark.reading import (
    FETCH_BYTES,
    FETCH_ROWS_MAX,
    PLANS,
    DataLost,
    Reading,
    check_history,
    needed,
    statement,
)
from queenmq.spark.workers import working

LISTED = ("partition", "created_at")
BY_PLACE = """
select {columns}
  from unnest($1::bigint[], $2::bigint[]) as k (partition_id, first_offset)
  join queen.segments s on s.partition_id = k.partition_id and s.first_offset = k.first_offset
  join queen.partitions p on p.id = s.partition_id
"""
LOOKUPS = PLANS | {"enable_hashjoin": "off", "enable_mergejoin": "off"}

Place = tuple[int, int]  # partition id, first offset


@dataclass(frozen=True)
class Files:
    """The files of one step; what Spark sends to its workers, which hand in the numbers of their files."""

    options: Options
    reading: Reading
    columns: Sequence[str]
    task: SegmentsTask  # all of the step
    count: int
    location: str
    step: str

    def write(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write files; answers what was written."""
        yield write_files(self._read_all(numbers), self.location, self._queue, self.step)

    def read(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The messages of files, with the day and the number of the file."""
        for key, rows in self._read_all(numbers):
            yield keyed(key, rows)

    def write_rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write what `read` has read; answers what was written."""
        yield write_files(chain.from_iterable(map(runs, batches)), self.location, self._queue, self.step)

    @property
    def _queue(self) -> str:
        return self.options.queue

    def _read_all(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[tuple[Key, pa.RecordBatch]]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from self._read(number)

    def _read(self, number: int) -> Iterator[tuple[Key, pa.RecordBatch]]:
        settings = Settings.load()
        assembler = self.reading.assembler(self.task.wanted, Cipher(settings.key_ring()))
        at_once = max(1, min(FETCH_ROWS_MAX, FETCH_BYTES // max(self.task.segment_bytes, 1)))
        with (
            explanations(),
            working(self.options.dsn(reading=True), settings, LOOKUPS) as connection,
            connection.transaction(),  # on one server, also behind a pooler
        ):
            check_history(connection, self.task.wanted)
            for day, places in self._listed(connection, number):
                for start in range(0, len(places), at_once):
                    rows = self._fetched(connection, places[start : start + at_once])
                    yield (day, number), assembler.batch(rows, ordered=True)

    def _listed(self, connection: Connection, number: int) -> Iterator[tuple[str, list[Place]]]:
        """The places of a file's segments, by day and in the order of the file."""
        wanted = replace(self.task.wanted, share=(self.count, number))
        found = []
        for part in self.task.slices:
            query, arguments = statement(LISTED, wanted, part)
            for rows in connection.stream(query, *arguments, rows=FETCH_ROWS_MAX):
                found += [(_day(at), name, id, first) for id, first, _, name, at in rows]
        for day, own in groupby(sorted(found), key=lambda each: each[0]):
            yield day, [(id, first) for _, _, id, first in own]

    def _fetched(self, connection: Connection, places: Sequence[Place]) -> list[Any]:
        """Segments, in the order of their places."""
        query = BY_PLACE.format(columns=", ".join(needed(self.columns)))
        rows = connection.rows(query, *map(list, zip(*places, strict=True)))
        found = {(row["partition_id"], row["first_offset"]): row for row in rows}
        if len(found) < len(places):
            lost = len(places) - len(found)
            raise DataLost(f"{lost} segments of {self._queue} were deleted while they were being read")
        return [found[place] for place in places]


def _day(microseconds: int) -> str:
    return (EPOCH_2000 + timedelta(microseconds=microseconds)).date().isoformat()
