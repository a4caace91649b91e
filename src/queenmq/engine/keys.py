"""Keys of ids: hashes of an id with its partition, and a filter that says which were never seen.

A key has 64 bits, and a hash in the upper 40 of them. What is kept of an id has the low bits of its offset in the
others: who finds it knows where in the log to look.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from queenmq.engine.drafts import Keys

FILTER_WORDS_MIN = 512
FILTER_WORD_KEYS_MAX = 2  # on average: then about one new id in 2,000 is suspected
OFFSET_BITS = 24
SAME_LOW_BITS = 1 << OFFSET_BITS  # from one offset to the next with the same low bits

_ONE, _MIX = np.uint64(1), np.uint64(0x9E3779B97F4A7C15)
_OFFSET_BITS, _OFFSET = np.uint64(OFFSET_BITS), np.uint64(SAME_LOW_BITS - 1)


def _words(count: int) -> Keys:
    """Words with six bits each at random places, of which some may be the same."""
    places = np.arange(1, count + 1, dtype=np.uint64) * _MIX
    places = (places ^ (places >> np.uint64(32))) * _MIX
    shifts = np.arange(28, 64, 6, dtype=np.uint64)
    words: Keys = np.bitwise_or.reduce(_ONE << ((places[:, None] >> shifts) & np.uint64(63)), axis=1)
    return words


_WORDS = _words(1 << 16)  # what a key may be in its word of a filter
_WORDS_SHIFT = np.uint64(48)


class Filter:
    """Keys that were seen: what it has not seen is new, what it has seen most likely is not.

    A key is six bits, or a few less, in one of its words.
    """

    def __init__(self, keys: int) -> None:
        bits = max(FILTER_WORDS_MIN, keys // FILTER_WORD_KEYS_MAX).bit_length()
        self.room = FILTER_WORD_KEYS_MAX << bits
        self._shift = np.uint64(64 - bits)
        self._words = np.zeros(1 << bits, dtype=np.uint64)

    @property
    def bytes(self) -> int:
        """How much memory it takes."""
        return self._words.nbytes

    def add(self, keys: Keys) -> None:
        """From now on these were seen."""
        np.bitwise_or.at(self._words, keys >> self._shift, bits_of(keys))
        self.room -= len(keys)

    def seen(self, keys: Keys, bits: Keys | None = None) -> NDArray[np.bool_]:
        """Which of these were, perhaps; `bits` for who has them already."""
        if bits is None:
            bits = bits_of(keys)
        seen: NDArray[np.bool_] = (self._words[keys >> self._shift] & bits) == bits
        return seen

    def halve(self) -> None:
        """Take half the memory: every two words become one, and more is suspected."""
        self._words = self._words[::2] | self._words[1::2]
        self._shift += _ONE


def bits_of(keys: Keys) -> Keys:
    """The bits of each key in its word of a filter."""
    return _WORDS.take(((keys >> _OFFSET_BITS) * _MIX) >> _WORDS_SHIFT)


def key_of(hashes: Keys) -> Keys:
    """Hashes as keys."""
    return hashes & ~_OFFSET


def placed(keys: Keys, offsets: Keys) -> Keys:
    """Keys with the low bits of offsets."""
    return keys | (offsets & _OFFSET)


def last_placed(keys: Keys) -> Keys:
    """The largest that keys can become."""
    return keys | _OFFSET


def found_in(run: Keys, keys: Keys) -> Iterable[tuple[int, int]]:
    """Where a sorted run has the keys: their places among the keys, and the low bits of the offsets."""
    starts = np.searchsorted(run, keys)
    counts = np.searchsorted(run, last_placed(keys), side="right") - starts
    if not counts.any():  # mostly
        return ()
    places = np.repeat(np.arange(len(keys)), counts)
    nth = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
    return zip(places.tolist(), (run[starts[places] + nth] & _OFFSET).tolist(), strict=True)


def among(run: Keys, keys: Keys) -> NDArray[np.bool_]:
    """Which of the keys are in a sorted run of keys."""
    if not len(run):
        return np.zeros(len(keys), dtype=bool)
    places = np.searchsorted(run, keys)
    places[places == len(run)] = 0
    found: NDArray[np.bool_] = run[places] == keys
    return found
