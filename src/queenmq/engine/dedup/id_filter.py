"""Keys of transaction ids, and a filter that says which of them are certainly new.

A key stands for an id in its partition and has 64 bits. The upper 40 are a hash. The lower 24 are zero, or the low bits
of the offset of the message with that id: they tell where in the log to look.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]

NO_KEYS: Keys = np.zeros(0, dtype=np.uint64)

FILTER_WORDS_MIN = 512
FILTER_WORD_KEYS_MAX = 2  # on average: about one new id in 2,000 then looks like a known one
OFFSET_BITS = 24
SAME_LOW_BITS = 1 << OFFSET_BITS  # from one offset to the next with the same low bits

_ONE, _MIX = np.uint64(1), np.uint64(0x9E3779B97F4A7C15)
_OFFSET_BITS, _OFFSET = np.uint64(OFFSET_BITS), np.uint64(SAME_LOW_BITS - 1)


def _words(count: int) -> Keys:
    """Words with six bits set at random positions, of which some may be the same."""
    numbers = np.arange(1, count + 1, dtype=np.uint64) * _MIX
    numbers = (numbers ^ (numbers >> np.uint64(32))) * _MIX
    shifts = np.arange(28, 64, 6, dtype=np.uint64)
    words: Keys = np.bitwise_or.reduce(_ONE << ((numbers[:, None] >> shifts) & np.uint64(63)), axis=1)
    return words


_WORDS = _words(1 << 16)  # the bits that a key may set in its word of a filter
_WORDS_SHIFT = np.uint64(48)


class IdFilter:
    """A Bloom filter of keys. If it does not have a key, the id is new; if it has one, the id is most likely known.

    Each key sets six bits, or a few less, in one word.
    """

    def __init__(self, keys: int) -> None:
        bits = max(FILTER_WORDS_MIN, keys // FILTER_WORD_KEYS_MAX).bit_length()
        self.room = FILTER_WORD_KEYS_MAX << bits  # how many more keys fit
        self._shift = np.uint64(64 - bits)
        self._words = np.zeros(1 << bits, dtype=np.uint64)

    @property
    def bytes(self) -> int:
        """How much memory the filter takes."""
        return self._words.nbytes

    def add(self, keys: Keys) -> None:
        """Add keys."""
        np.bitwise_or.at(self._words, keys >> self._shift, bits_of(keys))
        self.room -= len(keys)

    def seen(self, keys: Keys, bits: Keys | None = None) -> NDArray[np.bool_]:
        """For each key, whether it may have been added. Give `bits` if you have computed `bits_of(keys)` already."""
        if bits is None:
            bits = bits_of(keys)
        seen: NDArray[np.bool_] = (self._words[keys >> self._shift] & bits) == bits
        return seen

    def halve(self) -> None:
        """Take half the memory: two words become one, so more new ids look like known ones."""
        self._words = self._words[::2] | self._words[1::2]
        self._shift += _ONE


def bits_of(keys: Keys) -> Keys:
    """The bits of each key in its word of a filter."""
    return _WORDS.take(((keys >> _OFFSET_BITS) * _MIX) >> _WORDS_SHIFT)


def key_of(hashes: Keys) -> Keys:
    """Hashes as keys without an offset."""
    return hashes & ~_OFFSET


def with_offsets(keys: Keys, offsets: Keys) -> Keys:
    """Keys with the low bits of offsets."""
    return keys | (offsets & _OFFSET)


def with_last_offset(keys: Keys) -> Keys:
    """Keys with the highest low bits: no key of the same id sorts after them."""
    return keys | _OFFSET


def found_in(key_run: Keys, keys: Keys) -> Iterable[tuple[int, int]]:
    """Which keys a sorted run of keys has: pairs of an index into `keys` and the low bits of an offset."""
    starts = np.searchsorted(key_run, keys)
    counts = np.searchsorted(key_run, with_last_offset(keys), side="right") - starts
    if not counts.any():  # mostly
        return ()
    indexes = np.repeat(np.arange(len(keys)), counts)
    nth = np.arange(len(indexes)) - np.repeat(np.cumsum(counts) - counts, counts)
    return zip(indexes.tolist(), (key_run[starts[indexes] + nth] & _OFFSET).tolist(), strict=True)


def among(key_run: Keys, keys: Keys) -> NDArray[np.bool_]:
    """For each key, whether a sorted run of keys has it."""
    if not len(key_run):
        return np.zeros(len(keys), dtype=bool)
    indexes = np.searchsorted(key_run, keys)
    indexes[indexes == len(key_run)] = 0
    found: NDArray[np.bool_] = key_run[indexes] == keys
    return found
