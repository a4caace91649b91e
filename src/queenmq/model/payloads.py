"""Payloads by the thousand: JSON arrays, cut and joined unread."""

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from queenmq.errors import InvalidPayload

NOT_JSON = (UnicodeDecodeError, msgspec.DecodeError, RecursionError)

_elements = msgspec.json.Decoder(list[Raw])


def cut(array: bytes | memoryview | str) -> list[Raw]:
    """The elements of a JSON array, unread."""
    return _elements.decode(array)


def json_array(values: Sequence[bytes | Raw]) -> bytes:
    """The JSON array of some JSON texts, with one allocation: they can be large."""
    if len(values) == 1:
        return b"[%b]" % values[0]
    return b",".join((b"[%b" % values[0], *values[1:-1], b"%b]" % values[-1]))


def check_json(payload: bytes, place: int) -> None:
    """Refuse a payload that is not exactly one JSON value; `place` is where it is among others."""
    try:
        payload.decode()
        if len(cut(b"[" + payload + b"]")) != 1:
            raise InvalidPayload(f"the payload of message {place} is not one JSON value")
    except NOT_JSON as error:
        raise InvalidPayload(f"the payload of message {place} is not JSON: {error}") from None
