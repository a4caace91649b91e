"""Keys of ids: 64-bit hashes of an id with its partition, and a filter that says which were never seen."""

import numpy as np
from numpy.typing import NDArray

from queenmq.engine.drafts import Keys

FILTER_WORDS_MIN = 512
FILTER_WORD_KEYS_MAX = 2  # on average: then about one new id in 1,200 is suspected
FILTER_SHIFTS = np.arange(0, 24, 6, dtype=np.uint64)  # where a key has the places of its bits

_ONE, _LOW_BITS = np.uint64(1), np.uint64(63)


class Filter:
    """Keys that were seen: what it has not seen is new, what it has seen most likely is not.

    A key is four bits in one of its words.
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
    bits = np.zeros(len(keys), dtype=np.uint64)
    for shift in FILTER_SHIFTS:
        bits |= _ONE << ((keys >> shift) & _LOW_BITS)
    return bits


def among(run: Keys, keys: Keys) -> NDArray[np.bool_]:
    """Which of the keys are in a sorted run."""
    if not len(run):
        return np.zeros(len(keys), dtype=bool)
    places = np.searchsorted(run, keys)
    places[places == len(run)] = 0
    found: NDArray[np.bool_] = run[places] == keys
    return found
