"""From segments to Arrow: fixed columns by repetition, payloads by cutting the JSON array once.

Whole columns at a time: what is done here for each message is done in C, by msgspec, numpy or Arrow.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import chain, repeat
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from queenmq.engine.crypto import Cipher
from queenmq.engine.segments import cut
from queenmq.spark.columns import ERROR_COLUMN
from queenmq.spark.payloads import Payloads

MICROSECONDS_TO_1970 = 946_684_800_000_000  # PostgreSQL counts from 2000

Numbers = npt.NDArray[np.int64]

_texts = msgspec.json.Decoder(list[str | None])
_objects = msgspec.json.Decoder(list[dict[str, str] | None])
_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint8).reshape(256, 2)
_UUID_PLACES = [place for place in range(36) if place not in (8, 13, 18, 23)]


class Assembler:
    """Makes record batches of one schema out of rows that are segments."""

    def __init__(self, schema: StructType, queues: dict[int, str], cipher: Cipher, *, failfast: bool) -> None:
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._queues = queues
        self._cipher = cipher
        self._wants_errors = ERROR_COLUMN in self._schema.names
        self._payloads = Payloads(schema, self._schema, failfast=failfast)

    def batch(self, rows: Sequence[Any]) -> pa.RecordBatch:
        """One record batch with the messages of some segments, in order."""
        messages = Messages(rows, self._queues)
        arrays: dict[str, pa.Array] = {}
        if "payload" in self._schema.names or self._wants_errors:
            pieces = [self._cut(row) for row in rows]
            arrays["payload"], arrays[ERROR_COLUMN] = self._payloads.array(list(chain.from_iterable(pieces)))
        for field in self._schema:
            if field.name not in arrays:
                arrays[field.name] = messages.column(field.name)
        ordered = [_fitted(arrays[field.name], field.type) for field in self._schema]
        batch = pa.RecordBatch.from_arrays(ordered, schema=self._schema)
        kept = messages.kept()
        return batch if kept is None else batch.filter(pa.array(kept))

    def _cut(self, row: Any) -> Sequence[Any]:
        pieces = cut(row["payloads"])
        return [self._cipher.decrypt(bytes(piece)) for piece in pieces] if row["encrypted"] else pieces


class Messages:
    """The messages of some segments as columns."""

    def __init__(self, rows: Sequence[Any], queues: dict[int, str]) -> None:
        self._rows = rows
        self._queues = queues
        self._counts: Numbers = self._numbers("message_count")
        self._index: Numbers = np.repeat(np.arange(len(rows)), self._counts)
        starts = np.cumsum(self._counts) - self._counts
        first = self._numbers("first_offset")
        self._offsets: Numbers = np.arange(len(self._index)) + np.repeat(first - starts, self._counts)

    def column(self, name: str) -> pa.Array:
        """One column that is not the payload's."""
        match name:
            case "offset":
                found = pa.array(self._offsets)
            case "message_id":
                found = self._message_ids
            case "transaction_id":
                found = self._flat("transaction_ids", _texts, pa.string())
                found = pc.coalesce(found, self._message_ids) if found.null_count else found
            case "trace_id":
                found = self._flat("trace_ids", _texts, pa.string())
            case "headers":
                found = self._flat("headers", _objects, pa.map_(pa.string(), pa.string()))
            case "queue":
                found = self._repeated([self._queues[row["queue_id"]] for row in self._rows])
            case "created_at" | "failed_at":
                found = self._repeated([_unix(row[name]) for row in self._rows], pa.int64())
            case _:
                found = self._repeated([row[name] for row in self._rows])
        return found

    def kept(self) -> npt.NDArray[np.bool_] | None:
        """Which messages lie inside the bounds of their partitions; None when all do."""
        if not self._rows or "low" not in self._rows[0]:
            return None
        low, high = self._numbers("low"), self._numbers("high")
        kept: npt.NDArray[np.bool_] = (self._offsets >= low[self._index]) & (self._offsets < high[self._index])
        return kept

    def _numbers(self, name: str) -> Numbers:
        return np.fromiter((row[name] for row in self._rows), np.int64, len(self._rows))

    def _repeated(self, values: list[Any], kind: pa.DataType | None = None) -> pa.Array:
        return pa.array(values, kind).take(pa.array(self._index))

    def _flat(self, name: str, decoder: "msgspec.json.Decoder[list[Any]]", kind: pa.DataType) -> pa.Array:
        """A JSON array per segment, one value per message; null stands for as many nulls."""
        given = [row[name] for row in self._rows]
        if given.count(None) == len(given):
            return pa.nulls(len(self._index), kind)
        counts = self._counts.tolist()
        lists = (
            repeat(None, count) if text is None else decoder.decode(text)
            for text, count in zip(given, counts, strict=True)
        )
        values = chain.from_iterable(lists)
        return pa.array([each and list(each.items()) for each in values] if decoder is _objects else list(values), kind)

    @cached_property
    def _message_ids(self) -> pa.Array:
        """UUIDv7 of time, partition and offset, as queen.message_id makes them."""
        milliseconds = (self._numbers("created_at") + MICROSECONDS_TO_1970) // 1000
        partitions = self._numbers("partition_id")
        high = (milliseconds << 16) | 0x7000 | (partitions >> 22)
        low = (partitions & 0x3FFFFF) << 40
        halves = np.empty((len(self._index), 2), ">u8")
        halves[:, 0] = high[self._index]
        halves[:, 1] = (low[self._index] | self._offsets).astype(np.uint64) | np.uint64(1 << 63)
        digits = _HEX[halves.view(np.uint8)].reshape(-1, 32)
        text = np.full((len(digits), 36), ord("-"), np.uint8)
        text[:, _UUID_PLACES] = digits
        offsets = np.arange(len(digits) + 1, dtype=np.int32) * 36
        return pa.StringArray.from_buffers(len(digits), pa.py_buffer(offsets), pa.py_buffer(text))


def _unix(microseconds: int | None) -> int | None:
    return None if microseconds is None else microseconds + MICROSECONDS_TO_1970


def _fitted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type == kind else array.cast(kind)
