"""The elements of JSON arrays, those of many arrays at a time, without a look at each.

What is in a segment is known to be JSON, so a comma ends an element where it is in no string and in one bracket. That
is found for 64 bytes at once: a bit for each byte, in words, with the arithmetic that simdjson is made of. Only commas
between brackets are looked at, as in `},{`: where elements are no objects or arrays there are others, and the arrays
are cut one by one.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from queenmq.model.payloads import cut

BLOCK_BYTES = 1 << 19  # at a time, while there are masks as large as the text: they stay in a processor's cache

Numbers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]  # a bit for each byte of a text, the lowest for the first

_QUOTE, _BACKSLASH, _OPEN, _CLOSE = b'"\\{}'
_BRACES = 0x20  # what [ and ] lack to be braces
_WORD = 64
_ONE, _LAST = np.uint64(1), np.uint64(_WORD - 1)
_PADDING = bytes(2 * _WORD)


def elements(arrays: Sequence[bytes], counts: Numbers) -> pa.Array:
    """The JSON texts in all arrays, of which it is known how many each has."""
    text = b"".join((*arrays, _PADDING))
    ends = np.cumsum(np.fromiter(map(len, arrays), np.int64, len(arrays)))
    commas = _commas(text)
    before = np.cumsum(counts - 1)  # commas up to the end of each array
    if not np.array_equal(np.searchsorted(commas, ends), before):
        return joined(list(chain.from_iterable(map(cut, arrays))))
    bounds = np.empty((len(commas) + len(arrays), 2), np.int32)
    bounds[:, 0] = np.insert(commas, np.append(0, before[:-1]), np.append(0, ends[:-1])) + 1
    bounds[:, 1] = np.insert(commas, before, ends - 1)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(text)]
    with_gaps = pa.Array.from_buffers(pa.binary(), bounds.size - 1, buffers)  # every other one is what is between two
    return with_gaps.take(pa.array(np.arange(0, bounds.size, 2)))


def joined(pieces: Sequence[Any]) -> pa.Array:
    """Texts as a column: bytes, or what has bytes."""
    ends = np.zeros(len(pieces) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, pieces), np.int32, len(pieces)), out=ends[1:])
    return pa.Array.from_buffers(pa.binary(), len(pieces), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(pieces))])


def _commas(text: bytes) -> Numbers:
    """Where a bracket is closed, then a comma, then a bracket is opened, all that inside of one bracket.

    None are found in a text with two backslashes in a row: it would take more to say which quotes they escape.
    """
    escapes = b"\\" in text  # which is found much faster than two of them
    if escapes and b"\\\\" in text:
        return np.empty(0, np.int64)
    quotes, opening, closing = _marks(text, escapes=escapes)
    outside = ~_strings(quotes)
    opening &= outside
    closing &= outside
    at = _places(_following(closing) & _preceding(opening) & ~(opening | closing))
    word, onwards = at >> 6, np.negative(_ONE << (at & 63).astype(np.uint64))  # bits from the comma's on
    depths = np.cumsum(_count(opening) - _count(closing))
    depth = depths[word] - _count(opening[word] & onwards) + _count(closing[word] & onwards)
    found: Numbers = at[depth == 1]
    return found


def _marks(text: bytes, *, escapes: bool) -> tuple[Words, Words, Words]:
    """Quotes that are not escaped, and brackets that open and close, in strings or not."""
    characters = np.frombuffer(text, np.uint8, len(text) // _WORD * _WORD)
    found: tuple[list[Words], ...] = ([], [], [])
    for start in range(0, len(characters), BLOCK_BYTES):
        block = characters[start : start + BLOCK_BYTES]
        braces = block | _BRACES
        for words, mask in zip(found, (block == _QUOTE, braces == _OPEN, braces == _CLOSE), strict=True):
            words.append(_packed(mask))
    quotes, opening, closing = map(np.concatenate, found)
    if escapes:
        quotes &= ~_following(_packed(characters == _BACKSLASH))
    return quotes, opening, closing


def _packed(mask: npt.NDArray[np.bool_]) -> Words:
    return np.packbits(mask, bitorder="little").view(np.uint64)


def _strings(quotes: Words) -> Words:
    """What is in strings, the quote before them included: all that has an odd number of quotes up to it."""
    odd = quotes.copy()
    for bits in (1, 2, 4, 8, 16, 32):
        odd ^= odd << np.uint64(bits)
    carried = np.bitwise_xor.accumulate(odd >> _LAST)
    odd[1:] ^= np.negative(carried[:-1])
    return odd


def _following(words: Words) -> Words:
    """Every bit one place further on."""
    moved = words << _ONE
    moved[1:] |= words[:-1] >> _LAST
    return moved


def _preceding(words: Words) -> Words:
    """Every bit one place back."""
    moved = words >> _ONE
    moved[:-1] |= words[1:] << _LAST
    return moved


def _count(words: Words) -> Numbers:
    return np.bitwise_count(words).astype(np.int64)


def _places(words: Words) -> Numbers:
    """Where bits are set, in order."""
    at = np.flatnonzero(words)
    left = words[at]
    found = [at[:0]]
    while len(at):
        lowest = left & np.negative(left)
        found.append((at << 6) + _count(lowest - _ONE))
        left ^= lowest
        more = left != 0
        at, left = at[more], left[more]
    return np.sort(np.concatenate(found), kind="stable")  # a few runs that are sorted: these are merged
