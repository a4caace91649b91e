"""Thousands of structs that mostly nobody looks at."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar, overload

T = TypeVar("T")


class Lazily(Sequence[T]):
    """A sequence that knows its length; its elements are made when somebody asks for them.

    Who goes through them has one after the other made; they are kept when they are asked for by their place.
    """

    _made: Sequence[T] | None = None

    @abstractmethod
    def _make(self) -> Iterable[T]:
        """All elements, in order."""

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[T]: ...
    def __getitem__(self, place: int | slice) -> T | Sequence[T]:
        if self._made is None:
            self._made = list(self)
        return self._made[place]

    def __iter__(self) -> Iterator[T]:
        return iter(self._make() if self._made is None else self._made)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # as lists

    def __repr__(self) -> str:
        return repr(list(self))
