"""Ids as callers see them: opaque, and shaped like UUIDs."""

from functools import lru_cache
from uuid import UUID

from queenmq.errors import InvalidArgument


@lru_cache(maxsize=100_000)
def id_text(number: int) -> str:
    """The id of a number that we gave: a queue, a partition, a dead letter."""
    return str(UUID(int=number))


@lru_cache(maxsize=10_000)
def partition_number(text: str) -> int:
    """The partition that a caller means."""
    number = uuid(text, "partitionId").int
    if not 0 < number < 1 << 34:
        raise InvalidArgument(f"there cannot be a partition {text}")
    return number


def uuid(text: str, name: str) -> UUID:
    """A UUID that a caller gave."""
    try:
        return UUID(text)
    except ValueError:
        raise InvalidArgument(f"{name} is not a UUID: {text[:60]!r}") from None
