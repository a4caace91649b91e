"""Messages on their way in, and what became of them."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import repeat
from typing import Any
from uuid import UUID

from msgspec import Raw, Struct

from queenmq.errors import InvalidPayload
from queenmq.model.headers import Headers
from queenmq.model.ids import message_id, milliseconds
from queenmq.model.lazily import Lazily
from queenmq.model.payload_limits import check_limits
from queenmq.model.payloads import NOT_JSON, check_utf8, cut

DEFAULT_PARTITION = "Default"


class Outgoing(Struct, frozen=True, gc=False):
    """A message to push."""

    queue: str
    payload: bytes
    partition: str = DEFAULT_PARTITION
    transaction_id: str | None = None
    trace_id: UUID | None = None
    producer: str | None = None
    headers: Headers | None = None


class Payloads(Lazily[Outgoing]):
    """Messages for one partition from one producer: one JSON array of payloads, from the producer to the log.

    With a `transaction_id`, its messages have the ids `<transaction id>-0`, `-1`, …
    """

    def __init__(
        self,
        queue: str,
        partition: str,
        array: bytes,
        count: int | None = None,
        *,
        transaction_id: str | None = None,
        producer: str | None = None,
        known: bool = False,
    ) -> None:
        """Refuses what is not an array of values, `count` of them if given; unless that is `known` already."""
        self.queue = queue
        self.partition = partition
        self.array = array
        self.producer = producer
        self.elements: Sequence[Raw] = Elements(array, count) if known and count is not None else _read(array, count)
        self.transaction_ids: Sequence[str] | None = None
        if transaction_id is not None:
            self.transaction_ids = list(NumberedIds(transaction_id, range(len(self.elements))))

    def __len__(self) -> int:
        return len(self.elements)

    def _make(self) -> Iterable[Outgoing]:
        return map(
            Outgoing,
            repeat(self.queue),
            map(bytes, self.elements),
            repeat(self.partition),
            repeat(None) if self.transaction_ids is None else self.transaction_ids,
            repeat(None),
            repeat(self.producer),
        )


class NumberedIds(Lazily[str]):
    """The ids of messages whose producer gave one for all of them."""

    def __init__(self, prefix: str, numbers: range) -> None:
        self._prefix = prefix
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def _make(self) -> Iterable[str]:
        return [f"{self._prefix}-{number}" for number in self._numbers]


class Elements(Lazily[Raw]):
    """The values of a JSON array, cut when somebody wants them one by one."""

    def __init__(self, array: bytes, count: int) -> None:
        self._array = array
        self._count = count

    def __len__(self) -> int:
        return self._count

    def _make(self) -> Iterable[Raw]:
        return cut(self._array)


def _read(array: bytes, count: int | None) -> Sequence[Raw]:
    try:
        check_utf8(array)
        elements = cut(array)
    except NOT_JSON as error:
        raise InvalidPayload(f"the payloads are not a JSON array: {error}") from None
    if count is not None and len(elements) != count:
        raise InvalidPayload(f"{count} payloads are {len(elements)} JSON values")
    check_limits(array, elements)
    return elements


class Pushed(Struct, frozen=True, gc=False):
    """What became of a pushed message; for a duplicate, where the first one is."""

    partition_id: int
    offset: int
    created_at: datetime
    given_transaction_id: str | None = None
    duplicate: bool = False

    @property
    def id(self) -> UUID:
        """The message's id."""
        return message_id(milliseconds(self.created_at), self.partition_id, self.offset)

    @property
    def transaction_id(self) -> str:
        """The producer's own id, or the message id where there is none."""
        return self.given_transaction_id or str(self.id)


class PushedRun(Lazily[Pushed]):
    """What became of messages that were stored one behind the other."""

    def __init__(
        self, partition_id: int, offsets: range, created_at: datetime, transaction_ids: Sequence[str | None] | None
    ) -> None:
        self.partition_id = partition_id
        self.offsets = offsets
        self.created_at = created_at
        self.transaction_ids = transaction_ids

    def __len__(self) -> int:
        return len(self.offsets)

    def _make(self) -> Iterable[Pushed]:
        ids = self.transaction_ids if self.transaction_ids is not None else repeat(None)
        return map(Pushed, repeat(self.partition_id), self.offsets, repeat(self.created_at), ids)


class PushedRuns(Lazily[Pushed]):
    """What became of messages of several partitions: a column each of what `place_run` wants to know of a run."""

    def __init__(self, size: int, *columns: Iterable[Any]) -> None:
        self._size = size
        self._columns = columns

    def __len__(self) -> int:
        return self._size

    def _make(self) -> Iterable[Pushed]:
        answers: list[Any] = [None] * self._size
        for run in zip(*self._columns, strict=True):
            place_run(answers, *run)
        return answers


def place_run(
    answers: list[Pushed],
    places: Sequence[int],
    partition_id: int,
    first_offset: int,
    created_at: datetime,
    transaction_ids: Sequence[str | None] | None = None,
) -> None:
    """Say what became of messages that were stored one behind the other, each at its place."""
    if len(places) == 1:
        id = transaction_ids[0] if transaction_ids is not None else None
        answers[places[0]] = Pushed(partition_id, first_offset, created_at, id)
        return
    run = PushedRun(partition_id, range(first_offset, first_offset + len(places)), created_at, transaction_ids)
    for place, each in zip(places, run, strict=True):
        answers[place] = each


class FlushMark(Struct, frozen=True):
    """How to find out, later, whether a push was stored whose answer was lost."""

    flush_id: UUID
    partition_ids: list[int]
    froms: list[int]  # offsets from which on it must lie
    call_id: int | None = None  # to be abandoned before anybody looks (queen.abandon_call)
