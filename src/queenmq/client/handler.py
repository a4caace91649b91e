"""A user's function, read by its signature: what it is given, one by one or a batch, waiting or blocking."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, get_args, get_origin, get_type_hints

from msgspec import Raw

from queenmq.api.payload import HasPayload, reader
from queenmq.errors import InvalidArgument


class GiveUp(Exception):
    """Raised by a handler: this message is not to be tried again, it goes to the dead letters with the reason."""


class Handler:
    """What is called with messages.

    The first parameter gets the message, or its payload where the annotation is some other type; annotated as a
    list, all that came together. Of the others, one annotated as a message (of a batch: as a list of them) gets that
    too, and the one that remains gets the connection.
    """

    def __init__(self, function: Callable[..., Any], *, connected: bool) -> None:
        self.function = function
        self.name = getattr(function, "__qualname__", type(function).__name__)
        self.asynchronous = _is_coroutine_function(function)
        first, *others = self._parameters()
        self.takes_batch = _is_list(first)
        inner = _inner(first)
        self._read = None if inner is None or _is_message(inner) else self._reader(inner)
        self._others = ["message" if _is_message(_inner(each)) else "connection" for each in others]
        if self._others.count("connection") != connected:
            told = "one for the connection" if connected else "one for the payload or message only"
            raise InvalidArgument(f"the handler {self.name} has the wrong parameters: with these options, {told}")

    def read(self, message: HasPayload) -> Any:
        """What the handler wants of a message. Raises InvalidPayload when the payload is not of its type."""
        return message if self._read is None else self._read(message.raw)

    def call(self, values: Sequence[Any], messages: Sequence[Any], connection: object) -> Any:
        """Call it, with what was read of the messages; asynchronous ones answer an awaitable."""
        given = {"message": messages if self.takes_batch else messages[0], "connection": connection}
        value = values if self.takes_batch else values[0]
        return self.function(value, *(given[each] for each in self._others))

    def _reader(self, kind: Any) -> Callable[[Raw], Any]:
        try:
            return reader(kind)
        except TypeError as error:
            raise InvalidArgument(
                f"the handler {self.name} wants payloads of a type that is not known: {error}"
            ) from error

    def _parameters(self) -> list[Any]:
        """The annotations of its parameters, in order; None where there is none."""
        try:
            parameters = inspect.signature(self.function).parameters.values()
            hints = get_type_hints(_annotated(self.function))
        except (NameError, TypeError, ValueError) as error:
            raise InvalidArgument(f"the parameters of {self.name} cannot be read: {error}") from error
        given = [each for each in parameters if each.kind in _POSITIONAL]
        if not given:
            raise InvalidArgument(f"the handler {self.name} takes nothing; its first parameter gets the message")
        needed = [each for each in given[1:] if each.default is each.empty and each.kind is not each.VAR_POSITIONAL]
        return [hints.get(each.name) for each in (given[0], *needed)]


_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
)


def _annotated(function: Any) -> Any:
    """What carries the annotations of a callable: a partial's function, an object's method, or itself."""
    function = getattr(function, "func", function)
    return function if inspect.isroutine(function) else type(function).__call__


def _is_coroutine_function(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(_annotated(function))


def _inner(annotation: Any) -> Any:
    """Of a list, what it is a list of."""
    return (*get_args(annotation), None)[0] if _is_list(annotation) else annotation


def _is_list(annotation: Any) -> bool:
    return annotation is list or get_origin(annotation) is list


def _is_message(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, HasPayload)
