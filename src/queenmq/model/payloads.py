"""Payloads by the thousand: JSON arrays, cut and joined unread."""

import codecs
from collections.abc import Sequence

import msgspec
from msgspec import Raw

from queenmq.errors import InvalidPayload

PIECE_BYTES = 1 << 20

NOT_JSON = (UnicodeDecodeError, msgspec.DecodeError, RecursionError)

_utf8 = codecs.getincrementaldecoder("utf-8")
_elements = msgspec.json.Decoder(list[Raw])


def cut(array: bytes | memoryview | str) -> list[Raw]:
    """The elements of a JSON array, unread."""
    return _elements.decode(array)


def json_array(values: Sequence[bytes | Raw]) -> bytes:
    """The JSON array of some JSON texts, with one allocation: they can be large."""
    if len(values) == 1:
        return b"[%b]" % values[0]
    return b",".join((b"[%b" % values[0], *values[1:-1], b"%b]" % values[-1]))


def check_utf8(text: bytes) -> None:
    """Raise UnicodeDecodeError for a text that is not UTF-8, without decoding it as a whole: that takes memory."""
    if not text.isascii():
        decoder = _utf8()
        for start in range(0, len(text), PIECE_BYTES):
            decoder.decode(text[start : start + PIECE_BYTES])
        decoder.decode(b"", final=True)


def check_json(payload: bytes, place: int) -> None:
    """Refuse a payload that is not exactly one JSON value; `place` is where it is among others."""
    try:
        payload.decode()
        if len(cut(b"[" + payload + b"]")) != 1:
            raise InvalidPayload(f"the payload of message {place} is not one JSON value")
    except NOT_JSON as error:
        raise InvalidPayload(f"the payload of message {place} is not JSON: {error}") from None
