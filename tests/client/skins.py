"""The blocking skin with the manners of the other one, so that the same tests run over both.

What is a coroutine method in the asyncio skin runs in a thread and is awaited; what is an asynchronous iterator is
stepped through in a thread. Everything else is what it is.
"""

import asyncio
import importlib
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any, Self

END = object()


def awaited(thing: Any) -> Any:
    """An object of the blocking skin as a test for asyncio expects it; other values as they are."""
    if isinstance(thing, list):
        return [awaited(each) for each in thing]
    return Awaited(thing) if type(thing).__module__.startswith("queenmq.client.sync.") else thing


class Awaited:
    """One object of the blocking skin."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing
        module = importlib.import_module(type(thing).__module__.replace(".sync", ""))
        self.twin = getattr(module, f"Async{type(thing).__name__}")

    def __getattr__(self, name: str) -> Any:
        value, twin = getattr(self.thing, name), getattr(self.twin, name, None)
        if inspect.iscoroutinefunction(twin):
            return self._in_a_thread(value)
        if inspect.isasyncgenfunction(twin):
            return lambda *given, **named: self._steps(value(*_bare(given), **named))
        if inspect.ismethod(value):
            return lambda *given, **named: awaited(value(*_bare(given), **named))
        return awaited(value)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._steps(iter(self.thing))

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.thing.__enter__)
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self.thing.__exit__, *error)

    def __eq__(self, other: object) -> bool:
        return self.thing == getattr(other, "thing", other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"awaited {self.thing!r}"

    def _in_a_thread(self, value: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*given: Any, **named: Any) -> Any:
            return awaited(await asyncio.to_thread(value, *_bare(given), **named))

        return call

    async def _steps(self, iterator: Any) -> AsyncIterator[Any]:
        try:
            while (step := await asyncio.to_thread(next, iterator, END)) is not END:
                yield awaited(step)
        finally:
            await asyncio.to_thread(iterator.close)


def _bare(given: Any) -> Any:
    """Arguments as the blocking skin knows them."""
    if isinstance(given, list | tuple):
        return type(given)(_bare(each) for each in given)
    return given.thing if isinstance(given, Awaited) else given
