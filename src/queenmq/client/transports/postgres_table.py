"""What answers a call when there is no server; ids and structs as the server would write them."""

from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any
from uuid import UUID

from queenmq.api.call import Call
from queenmq.errors import InvalidArgument

HandlerTable = Mapping[type[Call[Any]], Callable[[Any, Any], Awaitable[Any]]]


@lru_cache(maxsize=100_000)
def text(number: int) -> str:
    """A number of ours as an id."""
    return str(UUID(int=number))


def limited(limit: int, most: int = 1_000, skip: int = 0) -> int:
    """How many are asked for, within what a server allows too."""
    if not 1 <= limit <= most:
        raise InvalidArgument(f"limit is a whole number from 1 to {most}, not {limit}")
    if skip < 0:
        raise InvalidArgument(f"skip is a whole number from 0 on, not {skip}")
    return limit


def uuid(id: str, what: str) -> UUID:
    """An id that a caller gave."""
    try:
        return UUID(id)
    except ValueError:
        raise InvalidArgument(f"{what} is not a UUID: {id[:60]!r}") from None
