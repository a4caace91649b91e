"""Payloads in and out: any JSON value; on the way in also structs, dataclasses and pydantic models."""

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
import orjson
from msgspec import Raw

from queenmq.errors import InvalidPayload
from queenmq.model.payloads import json_array

T = TypeVar("T")

REPR_BYTES_MAX = 60  # of a payload

# What looks like a plain value and is more is msgspec's to encode.
PLAIN = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
UNENCODABLE = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)

_decode = msgspec.json.Decoder().decode


def encode(payload: object) -> bytes:
    """The JSON text of a payload; JSON that is ready is passed on untouched as `msgspec.Raw`."""
    try:
        return _encode(payload)
    except UNENCODABLE as error:
        raise InvalidPayload(f"a {type(payload).__name__} cannot be pushed: {error}") from error


def encode_plain(payloads: Sequence[object]) -> bytes | None:
    """The JSON array of payloads made of plain values alone, known to be one; None if there is anything else.

    orjson knows no text that is passed on unread, so nobody has to read what it wrote.
    """
    try:
        return orjson.dumps(payloads, option=PLAIN)
    except TypeError:
        return None


def encode_array(payloads: Sequence[object]) -> bytes:
    """The JSON array of any payloads."""
    try:
        return _encode(payloads)
    except UNENCODABLE:  # one of them, which is found one by one
        return json_array([encode(each) for each in payloads])


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


def _foreign(value: object) -> object:
    """What msgspec does not know."""
    dump = getattr(value, "model_dump", None)  # a pydantic model, known without importing pydantic
    if dump is None:
        raise TypeError(f"{type(value).__name__} has no JSON form")
    return dump(mode="json")


_encode = msgspec.json.Encoder(enc_hook=_foreign).encode
