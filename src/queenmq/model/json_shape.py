"""The longest number and the deepest place of a JSON text, without reading its values."""

import re

import numpy as np

_DIGITS = re.compile(rb"[0-9]+")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_NO_BRACKETS_NOR_QUOTES = bytes(set(_NO_BRACKETS) - set(b'"'))
_QUOTE, _SPACE = 0x22, 0x20
_PIECE_BYTES = 1 << 20  # a text that is looked at as a whole takes many times its memory


def digits(text: bytes) -> int:
    """How many digits follow each other in a number, at most."""
    numbers = _without_strings(_without_escapes(text))
    return max((found.end() - found.start() for found in _DIGITS.finditer(numbers)), default=0)


def depth(text: bytes) -> int:
    """How many arrays and objects are in each other, at most."""
    structure = _without_escapes(text).translate(None, _NO_BRACKETS_NOR_QUOTES)
    brackets = np.frombuffer(_without_strings(structure).translate(None, _NO_BRACKETS), np.uint8)
    opening = (brackets == ord("[")) | (brackets == ord("{"))
    return int(np.cumsum(np.where(opening, 1, -1), dtype=np.int32).max(initial=0))


def may_be_deep(array: bytes, longest: int, levels: int) -> bool:
    """Whether an element of a JSON array may have more levels; elements have at most `longest` bytes."""
    seen = np.zeros(0, np.int64)  # the last opening brackets before a piece
    for start in range(0, len(array), _PIECE_BYTES):
        piece = np.frombuffer(array, np.uint8, min(_PIECE_BYTES, len(array) - start), start)
        opening = np.flatnonzero(piece | _SPACE == ord("{")) + start  # or [, which differs in this bit
        opening = np.concatenate((seen, opening))
        if (opening[levels:] - opening[:-levels] < longest).any():
            return True
        seen = opening[-levels:]
    return False


def _without_escapes(text: bytes) -> bytes:
    """A JSON text in which each quote begins or ends a string."""
    return text.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in text else text


def _without_strings(text: bytes) -> bytes:
    """Such a text with spaces instead of what is in its strings."""
    characters = np.frombuffer(text, np.uint8)
    inside = np.logical_xor.accumulate(characters == _QUOTE)
    return np.where(inside, np.uint8(_SPACE), characters).tobytes()
