"""What travels in several answers: ids, opaque to clients and shaped like UUIDs; headers, where there are any."""

from functools import lru_cache
from typing import Annotated, Any
from uuid import UUID

from msgspec import Meta, Raw, UnsetType

from queenmq.errors import InvalidArgument

_STRINGS = {"additionalProperties": {"type": "string"}}
# What is wrong with given headers is told message by message; stored ones are left out of answers where there are none.
GivenHeaders = Annotated[Any, Meta(extra_json_schema={"type": ["object", "null"], **_STRINGS})]
StoredHeaders = Annotated[Raw, Meta(extra_json_schema={"type": "object", **_STRINGS})] | UnsetType


def queue_text(queue_id: int) -> str:
    """A queue's id."""
    return str(UUID(int=queue_id))


@lru_cache(maxsize=100_000)
def partition_text(partition_id: int) -> str:
    """A partition's id."""
    return str(UUID(int=partition_id))


@lru_cache(maxsize=10_000)
def partition_number(text: str) -> int:
    """The partition a client means."""
    number = uuid(text, "partitionId").int
    if not 0 < number < 1 << 34:
        raise InvalidArgument(f"there cannot be a partition {text}")
    return number


def uuid(text: str, name: str) -> UUID:
    """A UUID a client sent."""
    try:
        return UUID(text)
    except ValueError:
        raise InvalidArgument(f"{name} is not a UUID: {text[:60]!r}") from None
