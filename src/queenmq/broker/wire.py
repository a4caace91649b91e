"""What travels in several answers: ids, opaque to clients and shaped like UUIDs; headers, where there are any.

And how long a list in a body is, before it is decoded.
"""

from functools import lru_cache
from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta, Raw, UnsetType

from queenmq.errors import InvalidArgument

_STRINGS = {"additionalProperties": {"type": "string"}}
# What is wrong with given headers is told message by message; stored ones are left out of answers where there are none.
GivenHeaders = Annotated[Any, Meta(extra_json_schema={"type": ["object", "null"], **_STRINGS})]
StoredHeaders = Annotated[Raw, Meta(extra_json_schema={"type": "object", **_STRINGS})] | UnsetType


COUNTED_MAX = 20_000  # longest list whose length is checked before it is decoded

_TOO_LONG = "at most length"  # msgspec of such a list


def is_longer(body: bytes, name: str | None, most: int) -> bool:
    """Whether a list in a body has more than so many elements; `name`: its field, or None if it is the whole body.

    A body of 64 MB can have 30 million elements, which would take gigabytes when they are decoded. This reads no
    further than one element too many. What else is wrong with the body is found when it is decoded.
    """
    if most > COUNTED_MAX or body.count(b"{" if name else b",") < most:
        return False
    try:
        _counter(name, most).decode(body)
    except msgspec.ValidationError as error:
        return _TOO_LONG in str(error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    return False


@lru_cache(maxsize=10)
def _counter(name: str | None, most: int) -> "msgspec.json.Decoder[Any]":
    fields = [(f"element_{number}", Raw, Raw()) for number in range(most)]
    listed = msgspec.defstruct("Listed", fields, array_like=True, forbid_unknown_fields=True)
    return msgspec.json.Decoder(listed if name is None else msgspec.defstruct("Body", [(name, listed)]))


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
