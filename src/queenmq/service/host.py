"""What services work with, and how they are found."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from inspect import iscoroutinefunction
from types import ModuleType
from typing import Any, Protocol

from queenmq.api.call import Call
from queenmq.api.diagnosis import Check
from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.engine.availability import Presence


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
