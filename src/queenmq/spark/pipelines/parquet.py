"""From sorted messages to Parquet files whose bytes depend on nothing but the messages.

Runs in Spark's tasks: rows come sorted by day, a file begins where the day or the number of the file changes.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from urllib.parse import quote

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from queenmq.spark.pipelines.manifest import File
from queenmq.spark.pipelines.store import Store

GROUP_ROWS = 65_536  # always so many, however the rows arrive
UNIQUE = {"offset", "message_id", "transaction_id", "payload"}  # a dictionary of these is as large as they are
KEYS = ["day", "file"]
HEADERS = pa.map_(pa.string(), pa.string())
Key = tuple[str, int]  # day, number of the file
WRITTEN = pa.schema([("path", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64())])

_object = msgspec.json.Decoder(dict[str, str])


class Writer:
    """Writes one file, in row groups of one size."""

    def __init__(self, store: Store, path: str, schema: pa.Schema) -> None:
        self._store, self._path = store, path
        self._stack = ExitStack()
        stream = self._stack.enter_context(store.create(path))
        self._parquet = pq.ParquetWriter(stream, schema, compression="zstd", use_dictionary=_repeated(schema))
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._written = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        self._waiting.append(batch)
        self._rows += batch.num_rows
        if self._rows - self._written >= GROUP_ROWS:
            self._flush(full=True)

    def close(self) -> File:
        """Finish the file, which is then there."""
        self._flush(full=False)
        self._parquet.close()
        self._stack.close()
        return File(self._path, self._rows, self._store.size(self._path) or 0)

    def abandon(self, error: BaseException) -> None:
        """Leave nothing behind."""
        self._stack.__exit__(type(error), error, None)

    def _flush(self, *, full: bool) -> None:
        table = pa.Table.from_batches(self._waiting).combine_chunks() if self._waiting else None
        while table is not None and table.num_rows >= (GROUP_ROWS if full else 1):
            self._parquet.write_table(table.slice(0, GROUP_ROWS), row_group_size=GROUP_ROWS)
            self._written += min(GROUP_ROWS, table.num_rows)
            table = table.slice(GROUP_ROWS)
        self._waiting = [] if table is None else table.to_batches()


def _repeated(schema: pa.Schema) -> list[str]:
    """The columns that repeat themselves, by their paths in the file; fields of a payload may well."""
    return [path for field in schema for path in _paths(field) if path not in UNIQUE]


def _paths(field: pa.Field, above: str = "") -> Iterator[str]:
    path, kind = above + field.name, field.type
    if pa.types.is_struct(kind):
        for own in kind:
            yield from _paths(own, f"{path}.")
    elif pa.types.is_map(kind):
        yield from _paths(kind.key_field, f"{path}.key_value.")
        yield from _paths(kind.item_field, f"{path}.key_value.")
    elif pa.types.is_list(kind):
        yield from _paths(kind.value_field.with_name("element"), f"{path}.list.")
    else:
        yield path


def write_files(runs: Iterable[tuple[Key, pa.RecordBatch]], location: str, queue: str, step: str) -> pa.RecordBatch:
    """Write sorted rows, a file for each day and number; answers what was written."""
    store = Store(location)
    files: list[File] = []
    writer: Writer | None = None
    current: Key | None = None
    try:
        for key, rows in runs:
            if key != current:
                files += [writer.close()] if writer else []
                writer, current = None, key
                path = f"queue={quote(queue, safe='')}/day={key[0]}/{step}-{key[1]:04}.parquet"
                writer = Writer(store, path, rows.schema)
            assert writer is not None
            writer.add(rows)
        files += [writer.close()] if writer else []
    except BaseException as error:
        if writer is not None:
            writer.abandon(error)
        raise
    columns = [[file.path for file in files], [file.rows for file in files], [file.bytes for file in files]]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, kind) for column, kind in zip(columns, WRITTEN.types, strict=True)], schema=WRITTEN
    )


def keyed(run: Key, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of a file with columns that say which one, for their way through Spark."""
    return pa.RecordBatch.from_arrays(
        [*rows.columns, *(pa.repeat(value, rows.num_rows) for value in run)], names=[*rows.schema.names, *KEYS]
    )


def runs(batch: pa.RecordBatch) -> Iterator[tuple[Key, pa.RecordBatch]]:
    """The rows of a batch, cut where their file changes, without the columns that say so."""
    days, files = (batch.column(name) for name in KEYS)
    changes = np.diff(days.dictionary_encode().indices.to_numpy()) | np.diff(files.to_numpy())
    cuts = [0, *(np.flatnonzero(changes) + 1).tolist(), batch.num_rows]
    names = [name for name in batch.schema.names if name not in KEYS]
    rows = pa.RecordBatch.from_arrays([_stored(name, batch.column(name)) for name in names], names=names)
    for start, end in pairwise(cuts):
        if end > start:
            yield (days[start].as_py(), files[start].as_py()), rows.slice(start, end - start)


def _stored(name: str, column: pa.Array) -> pa.Array:
    """A column as it is kept: headers as a map again, times without the zone of Spark's session."""
    if name == "headers":
        return _headers(column)
    return column.cast(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(column.type) else column


def _headers(texts: pa.Array) -> pa.Array:
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), HEADERS)
    return pa.array([text and list(_object.decode(text).items()) for text in texts.to_pylist()], HEADERS)
