"""Payloads on their way out: JSON text, decoded when the user asks for its value."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from queenmq.errors import InvalidPayload

T = TypeVar("T")

REPR_BYTES_MAX = 60  # of a payload

_decode = msgspec.json.Decoder().decode


def decode(payload: Raw) -> Any:
    """The value of a payload; a number beyond the range of a float is infinite, as in Python's own json."""
    try:
        return _decode(payload)
    except msgspec.ValidationError:  # it is JSON, but msgspec refuses such numbers
        return json.loads(bytes(payload))


def reader(kind: type[T]) -> Callable[[Raw], T]:
    """What reads payloads as a type, and checks them: a msgspec struct, a dataclass, a pydantic model, any other."""
    validate = getattr(kind, "model_validate_json", None)
    read = msgspec.json.Decoder(kind).decode if validate is None else lambda payload: validate(bytes(payload))

    def decode_checked(payload: Raw) -> T:
        try:
            checked: T = read(payload)
        except ValueError as error:  # pydantic's and msgspec's complaints are ValueErrors
            raise InvalidPayload(f"the payload is not a {getattr(kind, '__name__', kind)}: {error}") from error
        return checked

    return decode_checked


class HasPayload:
    """What carries a payload, as JSON text until somebody looks at it."""

    __slots__ = ()
    raw: Raw

    @property
    def payload(self) -> Any:
        """What was pushed, as Python values. Decoded anew each time: keep it if you need it twice."""
        return decode(self.raw)

    def payload_as(self, kind: type[T]) -> T:
        """What was pushed, as a msgspec struct, dataclass, pydantic model or other type. Raises InvalidPayload."""
        return reader(kind)(self.raw)

    @property
    def json(self) -> bytes:
        """What was pushed, as JSON text."""
        return bytes(self.raw)

    def __repr__(self) -> str:
        """Where it is stored, and how the payload begins."""
        known = ((name, getattr(self, name, None)) for name in ("queue", "partition", "offset", "attempt"))
        place = " ".join(f"{name}={value!r}" for name, value in known if value is not None)
        text = self.json[:REPR_BYTES_MAX].decode(errors="replace")
        return f"<{type(self).__name__} {place}: {text}{'…' * (len(self.raw) > REPR_BYTES_MAX)}>"
