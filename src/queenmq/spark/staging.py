"""Rows on their way into a queue: checked, sorted by partition, staged as segments that nobody sees yet."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from queenmq.engine.crypto import Cipher
from queenmq.engine.drafts import (
    NOT_JSON,
    SEGMENT_BYTES_MAX,
    SEGMENT_MESSAGES_MAX,
    TRANSACTION_ID_CHARACTERS_MAX,
    json_array,
    texts,
)
from queenmq.engine.partitions import check_name
from queenmq.engine.segments import cut
from queenmq.errors import InvalidArgument, InvalidPayload, InvalidTraceId, PayloadTooLarge
from queenmq.spark.connection import Connection

STAGE_BYTES_MAX = 32 << 20  # in memory, of one task
DEFAULT_PARTITION = "Default"
COLUMNS = [
    "stage_id", "n", "write_id", "partition_name", "message_count", "encrypted", "transaction_ids", "trace_ids",
    "payloads",
]  # fmt: skip


class Pile:
    """Messages of one partition that wait to become a segment."""

    __slots__ = ("bytes", "ids", "payloads", "traces")

    def __init__(self) -> None:
        self.payloads: list[Any] = []
        self.ids: list[str] = []
        self.traces: list[UUID | None] = []
        self.bytes = 0


class Stage:
    """What one attempt of one task writes; `segments` counts what is staged so far."""

    def __init__(
        self, connection: Connection, write_id: str, id_prefix: str, cipher: Cipher | None, payload_bytes_max: int
    ) -> None:
        self.id = uuid4()
        self.segments = 0
        self._connection = connection
        self._write_id = write_id
        self._id_prefix = id_prefix
        self._cipher = cipher
        self._payload_bytes_max = payload_bytes_max
        self._row = 0
        self._bytes = 0
        self._piles: dict[str, Pile] = {}
        self._full: list[tuple[Any, ...]] = []

    def add(
        self, payloads: pa.Array, partitions: pa.Array | None, ids: pa.Array | None, traces: pa.Array | None
    ) -> None:
        """Take over rows, in order."""
        pieces = self._pieces(payloads)
        numbered = self._ids(ids, len(pieces))
        traced = _traces(traces, len(pieces))
        for name, places in _by_partition(partitions, len(pieces)):
            pile = self._piles.setdefault(name, Pile())
            for place in places:
                self._put(name, pile, pieces[place], numbered[place], traced[place])
        self._row += len(pieces)
        if self._bytes > STAGE_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """Hand everything to PostgreSQL."""
        for name, pile in self._piles.items():
            self._close(name, pile)
        self._piles.clear()
        if self._full:
            self._connection.copy("staged_segments", COLUMNS, self._full)
        self._full = []
        self._bytes = 0

    def discard(self) -> None:
        """Leave nothing behind."""
        self._connection.rows("delete from queen.staged_segments where stage_id = $1", self.id)

    def _put(self, name: str, pile: Pile, payload: Any, id: str, trace: UUID | None) -> None:
        size = len(payload)
        if pile.payloads and (len(pile.payloads) >= SEGMENT_MESSAGES_MAX or pile.bytes + size > SEGMENT_BYTES_MAX):
            self._close(name, pile)
            pile.payloads, pile.ids, pile.traces, pile.bytes = [], [], [], 0
        pile.payloads.append(payload)
        pile.ids.append(id)
        pile.traces.append(trace)
        pile.bytes += size
        self._bytes += size

    def _close(self, name: str, pile: Pile) -> None:
        payloads = pile.payloads
        if self._cipher is not None:
            payloads = [self._cipher.encrypt(bytes(payload)) for payload in payloads]
        traces = texts(pile.traces) if any(trace is not None for trace in pile.traces) else None
        self._full.append(
            (self.id, self.segments, self._write_id, name, len(payloads), self._cipher is not None, texts(pile.ids),
             traces, json_array(payloads))
        )  # fmt: skip
        self.segments += 1

    def _pieces(self, payloads: pa.Array) -> Sequence[Any]:
        """The payloads, known to be JSON."""
        if payloads.null_count:
            place = self._row + payloads.is_null().to_pylist().index(True)
            raise InvalidPayload(f"row {place} of this task has no payload; write null as text for a JSON null")
        given = payloads.cast(pa.binary()).to_pylist()
        if given and max(map(len, given)) > self._payload_bytes_max:
            raise PayloadTooLarge(f"a payload has more than {self._payload_bytes_max} bytes")
        try:
            pieces = cut(json_array(given)) if given else []
            if list(map(len, pieces)) == list(map(len, given)):
                return pieces
        except NOT_JSON:
            pass
        return [self._piece(place, payload) for place, payload in enumerate(given, self._row)]

    def _piece(self, place: int, payload: bytes) -> Any:
        try:
            [piece] = cut(b"[%b]" % payload)
        except (*NOT_JSON, ValueError) as error:
            raise InvalidPayload(f"the payload in row {place} of this task is not JSON: {error}") from None
        return piece

    def _ids(self, ids: pa.Array | None, count: int) -> list[str]:
        if ids is None:
            return [f"{self._id_prefix}:{row}" for row in range(self._row, self._row + count)]
        given = ids.cast(pa.string()).to_pylist()
        for row, id in enumerate(given, self._row):
            if not id or len(id) > TRANSACTION_ID_CHARACTERS_MAX or "\x00" in id:
                raise InvalidArgument(f"the transaction id in row {row} of this task has not 1 to 255 characters")
        return given  # type: ignore[no-any-return]


def _traces(traces: pa.Array | None, count: int) -> Sequence[UUID | None]:
    if traces is None:
        return [None] * count
    try:
        return msgspec.convert(traces.cast(pa.string()).to_pylist(), list[UUID | None])
    except msgspec.ValidationError as error:
        raise InvalidTraceId(f"a trace id is not a UUID: {error}") from None


def _by_partition(partitions: pa.Array | None, count: int) -> list[tuple[str, Sequence[int]]]:
    """The rows of each partition, in order."""
    if partitions is None:
        return [(DEFAULT_PARTITION, range(count))]
    if partitions.null_count:
        raise InvalidArgument("a row has no partition")
    encoded = pc.dictionary_encode(partitions.cast(pa.string()))
    names = encoded.dictionary.to_pylist()
    for name in names:
        check_name(name, "partition")
    codes = encoded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(names)))
    return [(name, places.tolist()) for name, places in zip(names, np.split(order, ends[:-1]), strict=True)]
