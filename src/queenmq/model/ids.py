"""Message ids: UUIDv7 that are made of where a message lives, so that they need not be stored."""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from uuid import UUID

_VERSION_AND_VARIANT = (7 << 76) | (2 << 62)
_PARTITION_LOW_BITS = (1 << 22) - 1
_OFFSET_BITS = 40
OFFSET_DIGITS = 10  # of a message id as text, at its end
_LAST_DIGITS = [f"{number:03x}" for number in range(0x1000)]


def message_id(created_ms: int, partition_id: int, offset: int) -> UUID:
    """The UUIDv7 of a message: its time, its partition and its offset (see queen.message_id)."""
    return UUID(int=_id_bits(created_ms, partition_id) | offset)


def _id_bits(created_ms: int, partition_id: int) -> int:
    return (
        (created_ms << 80)
        | _VERSION_AND_VARIANT
        | ((partition_id >> 22) << 64)
        | ((partition_id & _PARTITION_LOW_BITS) << _OFFSET_BITS)
    )


def milliseconds(moment: datetime) -> int:
    """Whole milliseconds since 1970, rounded down as PostgreSQL's floor does."""
    return int(moment.timestamp() * 1_000_000 + 0.5) // 1000


def id_prefix(created_at: datetime, partition_id: int) -> str:
    """What the ids of a segment's messages have in common; the rest is the offset, as OFFSET_DIGITS digits."""
    return _time_digits(created_at) + _partition_digits(partition_id)


@lru_cache(maxsize=10_000)
def _time_digits(created_at: datetime) -> str:
    digits = f"{milliseconds(created_at):012x}"
    return f"{digits[:8]}-{digits[8:]}"


@lru_cache(maxsize=100_000)
def _partition_digits(partition_id: int) -> str:
    digits = f"{_id_bits(0, partition_id):032x}"
    return f"-{digits[12:16]}-{digits[16:20]}-{digits[20:-OFFSET_DIGITS]}"


def message_text(created_at: datetime, partition_id: int, offset: int) -> str:
    """A message's id, without building it from its bits each time: messages of a segment differ in the end only."""
    return f"{id_prefix(created_at, partition_id)}{offset:010x}"


def message_texts(created_at: datetime, partition_id: int, offsets: Sequence[int]) -> list[str]:
    """The ids of some of a segment's messages, in order: the last digits are looked up, the others written once."""
    prefix = id_prefix(created_at, partition_id)
    block = offsets[0] // len(_LAST_DIGITS)
    if offsets[-1] // len(_LAST_DIGITS) != block:
        return [f"{prefix}{offset:010x}" for offset in offsets]
    start, begin = f"{prefix}{block:07x}", block * len(_LAST_DIGITS)
    return [start + _LAST_DIGITS[offset - begin] for offset in offsets]
