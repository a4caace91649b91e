"""What services work with, and how they are found."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from inspect import iscoroutinefunction
from types import ModuleType
from typing import Any, Protocol
from uuid import UUID

from queenmq.api.call import Call
from queenmq.api.diagnosis import Check
from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.engine.presence import Presence
from queenmq.errors import InvalidArgument


class Host(Protocol):
    """Who serves calls: a server process, or a client without a server."""

    @property
    def engine(self) -> Engine:
        """The engine."""

    @property
    def presence(self) -> Presence:
        """Whether PostgreSQL is there, and what is paused."""

    @property
    def settings(self) -> Settings:
        """The settings."""

    async def buffered(self) -> tuple[int, int, int]:
        """The messages in the spool, their bytes, and the messages that were refused."""

    def own_checks(self) -> tuple[Sequence[Check], Sequence[Check]]:
        """What `queen doctor` says about this host, before and after what it says about PostgreSQL."""


Service = Callable[[Any, Any], Awaitable[Any]]


def services(*modules: ModuleType) -> Mapping[type[Call[Any]], Service]:
    """The public coroutines of modules, by the type of their argument `call`."""
    return dict(_served(modules))


def _served(modules: Sequence[ModuleType]) -> Iterator[tuple[type[Call[Any]], Service]]:
    for module in modules:
        for name, function in vars(module).items():
            own = iscoroutinefunction(function) and function.__module__ == module.__name__
            if own and not name.startswith("_"):
                yield function.__annotations__["call"], function


def uuid(text: str, name: str) -> UUID:
    """A UUID that a caller gave."""
    try:
        return UUID(text)
    except ValueError:
        raise InvalidArgument(f"{name} is not a UUID: {text[:60]!r}") from None


def id_text(number: int) -> str:
    """A number of ours as an id: opaque, and shaped like a UUID."""
    return str(UUID(int=number))


def partition_number(text: str) -> int:
    """The partition that an id means."""
    number = uuid(text, "partitionId").int
    if not 0 < number < 1 << 34:
        raise InvalidArgument(f"there cannot be a partition {text}")
    return number
