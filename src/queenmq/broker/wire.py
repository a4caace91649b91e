"""Ids as they travel: opaque to clients, shaped like UUIDs."""

from datetime import datetime
from functools import lru_cache
from uuid import UUID

from queenmq.errors import InvalidArgument
from queenmq.model import message_id, milliseconds

OFFSET_DIGITS = 10  # of a message id, at its end


def queue_text(queue_id: int) -> str:
    """A queue's id."""
    return str(UUID(int=queue_id))


@lru_cache(maxsize=100_000)
def partition_text(partition_id: int) -> str:
    """A partition's id."""
    return str(UUID(int=partition_id))


def partition_number(text: str) -> int:
    """The partition a client means."""
    number = uuid(text, "partitionId").int
    if not 0 < number < 1 << 34:
        raise InvalidArgument(f"there cannot be a partition {text}")
    return number


@lru_cache(maxsize=10_000)
def _id_prefix(created_at: datetime, partition_id: int) -> str:
    return str(message_id(milliseconds(created_at), partition_id, 0))[:-OFFSET_DIGITS]


def message_text(created_at: datetime, partition_id: int, offset: int) -> str:
    """A message's id, without building it from its bits each time: messages of a segment differ in the end only."""
    return f"{_id_prefix(created_at, partition_id)}{offset:010x}"


def uuid(text: str, name: str) -> UUID:
    """A UUID a client sent."""
    try:
        return UUID(text)
    except ValueError:
        raise InvalidArgument(f"{name} is not a UUID: {text[:60]!r}") from None
