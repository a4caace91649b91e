"""Rows on their way into a queue: checked, sorted by partition, staged as segments that nobody sees yet.

Many megabytes at a time, as whole columns: a row is never an object here, unless it brings an id or a trace of its own.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, pairwise
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from queenmq.engine.crypto import Cipher
from queenmq.engine.partitions import check_name
from queenmq.engine.push.push_request import SEGMENT_BYTES_MAX, SEGMENT_MESSAGES_MAX, TRANSACTION_ID_CHARACTERS_MAX
from queenmq.errors import InvalidArgument, InvalidPayload, InvalidTraceId, PayloadTooLarge
from queenmq.model.payload_limits import DIGITS_MAX, check_limits
from queenmq.model.payloads import NOT_JSON, cut, json_array
from queenmq.spark.connection import Connection

STAGE_BYTES_MAX = 32 << 20  # in memory, of one task
DEFAULT_PARTITION = "Default"
STAGE_COLUMNS = ["stage_id", "n", "write_id", "partition_name"]
SEGMENT_COLUMNS = [
    "partition_id", "first_offset", "message_count", "queue_id", "epoch", "encrypted", "created_at",
    "transaction_ids", "trace_ids", "payloads",
]  # fmt: skip

Numbers = npt.NDArray[Any]


class Stage:
    """What one attempt of one task writes; `segments` counts what is staged so far."""

    def __init__(
        self, connection: Connection, write_id: str, id_prefix: str, cipher: Cipher | None, payload_bytes_max: int
    ) -> None:
        self.id: int = connection.value("select nextval('queen.stage_ids')")
        self.segments = 0
        self._connection = connection
        self._write_id = write_id
        self._id_prefix = id_prefix
        self._cipher = cipher
        self._payload_bytes_max = payload_bytes_max
        self._row = 0  # the first that waits
        self._bytes = 0
        self._waiting: list[tuple[pa.Array | None, ...]] = []

    def add(
        self, payloads: pa.Array, partitions: pa.Array | None, ids: pa.Array | None, traces: pa.Array | None
    ) -> None:
        """Take over rows, in order."""
        columns = (_cast(payloads, pa.binary()), *(_cast(each, pa.string()) for each in (partitions, ids, traces)))
        self._waiting.append(columns)
        self._bytes += sum(column.nbytes for column in columns if column is not None)
        if self._bytes > STAGE_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """Hand everything to PostgreSQL."""
        if not self._waiting:
            return
        columns = zip(*self._waiting, strict=True)
        payloads, partitions, ids, traces = (None if own[0] is None else pa.concat_arrays(own) for own in columns)
        assert payloads is not None
        self._check(payloads, ids)
        names, codes = _partitions(partitions, len(payloads))
        order = np.argsort(codes, kind="stable")
        cuts = _cuts(codes[order], pc.binary_length(payloads).to_numpy()[order])
        own_names = [names[code] for code in codes[order][cuts[:-1]].tolist()]
        own_columns = (self._ids(ids, order, cuts), _traces(traces, order, cuts), self._payloads(payloads, order, cuts))
        counts = np.diff(cuts).tolist()
        encrypted, now = self._cipher is not None, datetime.now(UTC)
        with self._connection.transaction():
            self._connection.copy("staged_segments", STAGE_COLUMNS, [
                (self.id, n, self._write_id, name) for n, name in enumerate(own_names, self.segments)
            ])  # fmt: skip
            self._connection.copy("segments", SEGMENT_COLUMNS, [
                (-self.id, n, count, 0, 0, encrypted, now, *own)
                for n, (count, *own) in enumerate(zip(counts, *own_columns, strict=True), self.segments)
            ])  # fmt: skip
        self.segments += len(own_names)
        self._row += len(payloads)
        self._waiting = []
        self._bytes = 0

    def discard(self) -> None:
        """Leave nothing behind."""
        self._connection.value("select queen.discard_staged(array[$1::bigint])", self.id)

    def _check(self, payloads: pa.Array, ids: pa.Array | None) -> None:
        """What can be said about rows without looking into payloads."""
        if payloads.null_count:
            place = self._row + payloads.is_null().to_pylist().index(True)
            raise InvalidPayload(f"row {place} of this task has no payload; write null as text for a JSON null")
        if len(payloads) and pc.max(pc.binary_length(payloads)).as_py() > self._payload_bytes_max:
            raise PayloadTooLarge(f"a payload has more than {self._payload_bytes_max} bytes")
        if ids is not None:
            lengths = pc.fill_null(pc.utf8_length(ids), 0).to_numpy()
            ended = pc.fill_null(pc.match_substring(ids, "\x00"), fill_value=False).to_numpy(zero_copy_only=False)
            wrong = np.flatnonzero((lengths < 1) | (lengths > TRANSACTION_ID_CHARACTERS_MAX) | ended)
            if wrong.size:
                row = self._row + int(wrong[0])
                raise InvalidArgument(f"the transaction id in row {row} of this task has not 1 to 255 characters")

    def _payloads(self, payloads: pa.Array, order: Numbers, cuts: Numbers) -> list[memoryview]:
        """The JSON array of each segment, known to hold what was given and no more."""
        sorted_payloads = payloads.take(pa.array(order))
        arrays = _joined(sorted_payloads, cuts)
        if not _hold(arrays, sorted_payloads):
            pieces = [self._piece(place, payload) for place, payload in enumerate(payloads.to_pylist(), self._row)]
            sorted_payloads = pa.array(pieces, pa.binary()).take(pa.array(order))
            arrays = _joined(sorted_payloads, cuts)
        if len(payloads) and pc.max(pc.binary_length(payloads)).as_py() > DIGITS_MAX:
            values = payloads.to_pylist()
            check_limits(json_array(values), values, self._row)
        if self._cipher is not None:
            encrypted = [self._cipher.encrypt(payload) for payload in sorted_payloads.to_pylist()]
            arrays = _joined(pa.array(encrypted, pa.binary()), cuts)
        return arrays

    def _piece(self, place: int, payload: bytes) -> bytes:
        """One payload without the spaces around it."""
        try:
            [piece] = cut(b"[%b]" % payload)
        except (*NOT_JSON, ValueError) as error:
            raise InvalidPayload(f"the payload in row {place} of this task is not JSON: {error}") from None
        return bytes(piece)

    def _ids(self, ids: pa.Array | None, order: Numbers, cuts: Numbers) -> list[Any]:
        """The transaction ids of each segment: those given, or the place of each row in what its task writes."""
        if ids is not None:
            given = ids.take(pa.array(order)).to_pylist()
            return [_text(given[start:end]) for start, end in pairwise(cuts.tolist())]
        opened = msgspec.json.encode(f"{self._id_prefix}:")[:-1]
        rows = pa.array(order + self._row).cast(pa.string()).cast(pa.binary())
        quoted = pc.binary_join_element_wise(_bytes(opened), rows, _bytes(b'"'), _bytes(b""))
        return [str(text, "ascii") for text in _joined(quoted, cuts)]


def _cast(column: pa.Array | None, kind: pa.DataType) -> pa.Array | None:
    return None if column is None else column.cast(kind)


def _bytes(value: bytes) -> pa.Scalar:
    return pa.scalar(value, pa.binary())


def _joined(values: pa.Array, cuts: Numbers) -> list[memoryview]:
    """JSON arrays of JSON texts, a segment's each: views of one buffer."""
    firsts, lasts = np.zeros(len(values), bool), np.zeros(len(values), bool)
    firsts[cuts[:-1]] = lasts[cuts[1:] - 1] = True
    opening = pc.if_else(pa.array(firsts), _bytes(b"["), _bytes(b""))
    ending = pc.if_else(pa.array(lasts), _bytes(b"]"), _bytes(b","))
    joined = pc.binary_join_element_wise(opening, values, ending, _bytes(b""))
    _, places, texts = joined.buffers()
    ends = np.frombuffer(places, np.int32)[cuts].tolist()
    view = memoryview(texts)
    return [view[start:end] for start, end in pairwise(ends)]


def _hold(arrays: Sequence[memoryview], payloads: pa.Array) -> bool:
    """Whether JSON arrays have these elements: as many, of the same lengths, one after the other."""
    try:
        pieces = list(chain.from_iterable(map(cut, arrays)))
    except NOT_JSON:
        return False
    lengths = np.fromiter(map(len, pieces), np.int32, len(pieces))
    return np.array_equal(lengths, pc.binary_length(payloads).to_numpy())


def _partitions(partitions: pa.Array | None, count: int) -> tuple[list[str], Numbers]:
    """The names of the partitions, and for each row the place of its own among them."""
    if partitions is None:
        return [DEFAULT_PARTITION], np.zeros(count, np.int32)
    if partitions.null_count:
        raise InvalidArgument("a row has no partition")
    encoded = pc.dictionary_encode(partitions)
    names: list[str] = encoded.dictionary.to_pylist()
    for name in names:
        check_name(name, "partition")
    return names, encoded.indices.to_numpy()


def _cuts(codes: Numbers, lengths: Numbers) -> Numbers:
    """Where segments begin among rows sorted by partition, and the end; none holds more than a segment may."""
    if not len(codes):
        return np.zeros(1, np.int32)
    starts = np.concatenate(([0], np.flatnonzero(np.diff(codes)) + 1))
    ends = [*starts[1:].tolist(), len(codes)]
    found: list[int] = []
    for start, end, size in zip(starts.tolist(), ends, np.add.reduceat(lengths, starts).tolist(), strict=True):
        found.append(start)
        if end - start > SEGMENT_MESSAGES_MAX or size > SEGMENT_BYTES_MAX:
            found += _further(start, lengths[start:end].tolist())
    return np.array([*found, len(codes)], np.int32)


def _further(start: int, lengths: Sequence[int]) -> Iterator[int]:
    """Where further segments of one partition begin."""
    count = size = 0
    for place, length in enumerate(lengths, start):
        if count and (count >= SEGMENT_MESSAGES_MAX or size + length > SEGMENT_BYTES_MAX):
            yield place
            count = size = 0
        count += 1
        size += length


def _traces(traces: pa.Array | None, order: Numbers, cuts: Numbers) -> list[str | None]:
    if traces is None:
        return [None] * (len(cuts) - 1)
    try:
        given = msgspec.convert(traces.take(pa.array(order)).to_pylist(), list[UUID | None])
    except msgspec.ValidationError as error:
        raise InvalidTraceId(f"a trace id is not a UUID: {error}") from None
    own = (given[start:end] for start, end in pairwise(cuts.tolist()))
    return [_text(each) if any(trace is not None for trace in each) else None for each in own]


def _text(values: Sequence[object]) -> str:
    """A JSON array."""
    return msgspec.json.encode(values).decode()
