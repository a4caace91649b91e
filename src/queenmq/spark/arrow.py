"""From segments to Arrow: fixed columns by repetition, payloads by cutting the JSON arrays once.

Whole columns of many segments at a time: what is done here for each message is done in C, by numpy or Arrow, and little
is done for each segment, as there may be only a few messages in one.
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
from queenmq.errors import EncryptionRequired
from queenmq.spark.columns import ERROR_COLUMN
from queenmq.spark.cutting import elements, joined
from queenmq.spark.payloads import Payloads

MICROSECONDS_TO_1970 = 946_684_800_000_000  # PostgreSQL counts from 2000

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_texts = msgspec.json.Decoder(list[list[str | None] | None])
_objects = msgspec.json.Decoder(list[list[dict[str, str] | None] | None])
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)[np.indices((16, 16, 16, 16)).reshape(4, -1)]
_HEX = np.ascontiguousarray(_DIGITS.T).view(np.uint32).ravel()  # four digits in one word
_PREFIX = 26  # characters of a message id that are the same in the whole segment


class Assembler:
    """Makes record batches of one schema out of rows that are segments.

    If it is `tolerant`, a payload that cannot be decrypted is null, not an error.
    """

    def __init__(
        self, schema: StructType, queues: dict[int, str], cipher: Cipher, *, failfast: bool, tolerant: bool = False
    ) -> None:
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._queues = queues
        self._cipher = cipher
        self._tolerant = tolerant
        self._wants_errors = ERROR_COLUMN in self._schema.names
        self._payloads = Payloads(schema, self._schema, failfast=failfast)

    def batch(self, rows: Sequence[Any], *, ordered: bool = False) -> pa.RecordBatch:
        """One record batch with the messages of some segments: as they are ordered, or by partition and offset."""
        messages = Messages(rows, self._queues, ordered=ordered)
        arrays: dict[str, pa.Array] = {}
        if "payload" in self._schema.names or self._wants_errors:
            arrays["payload"], arrays[ERROR_COLUMN] = self._payloads.array(
                messages.payloads(self._cipher, tolerant=self._tolerant)
            )
        for field in self._schema:
            if field.name not in arrays:
                arrays[field.name] = messages.column(field.name)
        fitted = [_fitted(arrays[field.name], field.type) for field in self._schema]
        batch = pa.RecordBatch.from_arrays(fitted, schema=self._schema)
        kept = messages.kept()
        return batch if kept is None else batch.filter(pa.array(kept))


class Messages:
    """The messages of some segments as columns."""

    def __init__(self, rows: Sequence[Any], queues: dict[int, str], *, ordered: bool) -> None:
        self._queues = queues
        self._columns: dict[str, Sequence[Any]] = dict(zip(rows[0].keys(), zip(*rows, strict=True), strict=True))
        if not ordered:
            self._sort()
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
            case "partition_id":
                found = pa.array(self._numbers(name)[self._index])
            case "message_id":
                found = self._message_ids
            case "transaction_id":
                found = self._flat("transaction_ids", _texts, pa.string())
                given = len(found) - found.null_count
                found = self._message_ids if not given else pc.coalesce(found, self._message_ids)
            case "trace_id":
                found = self._flat("trace_ids", _texts, pa.string())
            case "headers":
                found = self._flat("headers", _objects, pa.map_(pa.string(), pa.string()))
            case "queue":
                found = self._repeated([self._queues[id] for id in self._columns["queue_id"]])
            case "created_at" | "failed_at":
                found = pc.add(self._repeated(self._columns[name], pa.int64()), MICROSECONDS_TO_1970)
            case _:
                found = self._repeated(self._columns[name])
        return found

    def payloads(self, cipher: Cipher, *, tolerant: bool) -> pa.Array:
        """The JSON text of each message, as bytes; if `tolerant`, null where it cannot be decrypted."""
        found = elements(self._columns["payloads"], self._counts)
        if any(self._columns["encrypted"]):
            pieces = found.to_pylist()
            encrypted = np.array(self._columns["encrypted"], bool)[self._index]
            lost = False
            for place in np.flatnonzero(encrypted).tolist():
                try:
                    pieces[place] = cipher.decrypt(pieces[place])
                except EncryptionRequired:
                    if not tolerant:
                        raise
                    pieces[place], lost = None, True
            found = pa.array(pieces, pa.binary()) if lost else joined(pieces)
        return found

    def kept(self) -> npt.NDArray[np.bool_] | None:
        """Which messages lie inside the bounds of their partitions; None when all do."""
        if "low" not in self._columns:
            return None
        low, high = self._numbers("low"), self._numbers("high")
        kept: npt.NDArray[np.bool_] = (self._offsets >= low[self._index]) & (self._offsets < high[self._index])
        return kept

    def _sort(self) -> None:
        """By partition and offset, which is not always the order of transactions."""
        order = np.lexsort((self._numbers("first_offset"), self._numbers("partition_id")))
        if (np.diff(order) != 1).any():
            places = order.tolist()
            self._columns = {name: [values[at] for at in places] for name, values in self._columns.items()}

    def _numbers(self, name: str) -> Numbers:
        return np.array(self._columns[name], np.int64)

    def _repeated(self, values: Sequence[Any], kind: pa.DataType | None = None) -> pa.Array:
        return pa.array(values, kind).take(pa.array(self._index))

    def _flat(self, name: str, decoder: "msgspec.json.Decoder[list[Any]]", kind: pa.DataType) -> pa.Array:
        """A JSON array per segment, one value per message; null stands for as many nulls."""
        given = self._columns[name]
        if given.count(None) == len(given):
            return pa.nulls(len(self._index), kind)
        arrays = decoder.decode(f"[{','.join(text or 'null' for text in given)}]")
        if None in given:
            lists = zip(arrays, self._counts.tolist(), strict=True)
            arrays = [repeat(None, count) if own is None else own for own, count in lists]
        values = chain.from_iterable(arrays)
        return pa.array([each and list(each.items()) for each in values] if decoder is _objects else list(values), kind)

    @cached_property
    def _message_ids(self) -> pa.Array:
        """UUIDv7 of time, partition and offset, as queen.message_id makes them: the last ten digits are the offset."""
        text = np.empty((len(self._index), 36), np.uint8)
        text[:, :_PREFIX] = self._id_prefixes()[self._index]
        words = text.view(np.uint32)  # of four characters; the offset's first two digits are in half a word
        text[:, _PREFIX : _PREFIX + 2] = _digits(self._offsets >> 32)[:, 2:]
        words[:, 7] = _HEX[(self._offsets >> 16) & 0xFFFF]
        words[:, 8] = _HEX[self._offsets & 0xFFFF]
        ends = np.arange(len(text) + 1, dtype=np.int32) * 36
        return pa.StringArray.from_buffers(len(text), pa.py_buffer(ends), pa.py_buffer(text))

    def _id_prefixes(self) -> Bytes:
        """What the ids of a segment have in common: xxxxxxxx-xxxx-7xxx-8xxx-xx."""
        milliseconds = (self._numbers("created_at") + MICROSECONDS_TO_1970) // 1000
        partitions = self._numbers("partition_id")
        time = [_digits((milliseconds >> bits) & 0xFFFF) for bits in (32, 16, 0)]
        place = [_digits(0x7000 | partitions >> 22), _digits(0x8000 | (partitions >> 8) & 0x3FFF)]
        last = _digits(partitions & 0xFF)[:, 2:]
        dash = np.full((len(partitions), 1), ord("-"), np.uint8)
        return np.hstack((*time[:2], dash, time[2], dash, place[0], dash, place[1], dash, last))


def _digits(numbers: Numbers) -> Bytes:
    """Four hexadecimal digits of each, as characters."""
    return _HEX[numbers].view(np.uint8).reshape(-1, 4)


def _fitted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type == kind else array.cast(kind)
