"""Payloads on their way in: any JSON value, structs, dataclasses and pydantic models."""

from collections.abc import Sequence

import msgspec
import orjson

from queenmq.errors import InvalidPayload
from queenmq.model.payloads import json_array

# What looks like a plain value and is more is msgspec's to encode.
PLAIN = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
UNENCODABLE = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)


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


def _foreign(value: object) -> object:
    """What msgspec does not know."""
    dump = getattr(value, "model_dump", None)  # a pydantic model, known without importing pydantic
    if dump is None:
        raise TypeError(f"{type(value).__name__} has no JSON form")
    return dump(mode="json")


_encode = msgspec.json.Encoder(enc_hook=_foreign).encode
