"""Keys of older ids in temporary files: 8 bytes of disk for an id, and 2 bytes of memory, or fewer.

A file is one sorted run of keys with the low bits of their offsets. In memory are a filter, which says of most keys
that they are not in it, and the first key of every page: for a key that the filter suspects one page is read, as a rule
from the system's own cache. Files have no name and are gone with the process.

A file holds ids of queues with the same window, of all their partitions. More is merged into it until it is full or an
eighth of the window has passed. It is closed, and its space free, when the newest of its ids has left the window.

When the filters take half of the memory, the largest are halved: they suspect more, which costs reads.
"""

import logging
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from io import FileIO
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from queenmq.engine.drafts import NO_KEYS, Keys
from queenmq.engine.keys import FILTER_WORD_KEYS_MAX, OFFSET_BITS, Filter, bits_of, found_in, last_placed
from queenmq.engine.partitions import QueueInfo

log = logging.getLogger(__name__)

BYTES_MIN = 262_144  # of memory in all: with less there are no files
FILES_MAX = 32  # up to twice as many where memory is no power of two, more where a file would be too large
FILE_KEYS_MAX = 1 << 22  # a file is written anew when something is merged into it, meanwhile all else waits
PIECE_KEYS_MAX = 1 << 18  # that are sorted at a time
PIECES = 4  # in a file, or more: it is written anew with each
KEY_BYTES = 8
HASH_BYTES = slice(OFFSET_BITS // 8, KEY_BYTES) if sys.byteorder == "little" else slice(KEY_BYTES - OFFSET_BITS // 8)
PAGE_KEYS = 128  # a kilobyte
WORD_KEYS = 4  # of a filter in the beginning, when the file is full: about one new id in 190 is suspected
WORD_KEYS_MAX = 16  # of one that is not halved any more: one in six
FILE_BYTES = 1_000  # of what is kept of a file beside its filter and the keys of its pages, roughly

RETRY_SECONDS = 60.0  # after a file could not be written
NOT_WRITTEN = (
    "transaction ids of the dedup window could not be written to a temporary file; those that do not fit into "
    "QUEEN_DEDUP_BYTES_MAX are forgotten and read again, which is slow: see that the directory for temporary files "
    "(TMPDIR) has room"
)


class KeyFile:
    """A sorted run of keys on disk."""

    def __init__(self, begun_at: datetime, window: timedelta, keys_max: int) -> None:
        self.begun_at = begun_at
        self.newest = begun_at
        self.window = window  # of the queues, when it was begun
        self.count = 0
        self.filter = Filter(keys_max * FILTER_WORD_KEYS_MAX // WORD_KEYS - 1)
        self._queues: set[QueueInfo] = set()
        self._file: FileIO | None = None
        self._firsts = NO_KEYS  # of the pages

    @property
    def bytes(self) -> int:
        """About how much memory it takes."""
        return FILE_BYTES + self.filter.bytes + self._firsts.nbytes

    def add(self, keys: Keys, newest: datetime, queues: Iterable[QueueInfo]) -> None:
        """Merge keys into the run: it is written anew. All is as before when that fails."""
        run = np.empty(self.count + len(keys), dtype=np.uint64)
        self._read_into(run[: self.count])
        run[self.count :] = keys = np.sort(keys)
        run.sort(kind="stable")  # two sorted runs: this merges them
        file = _written(run)
        self.close()
        self._file = file
        self._firsts = run[::PAGE_KEYS].copy()
        self.count = len(run)
        self.filter.add(keys)
        self.newest = max(self.newest, newest)
        self._queues.update(queues)

    def needed(self, now: datetime) -> bool:
        """Whether some of its ids may be inside the window, also if it became longer since."""
        if now <= self.newest + self.window:
            return True
        return now <= self.newest + max(queue.dedup_window for queue in self._queues)

    def hold(self, keys: Keys, bits: Keys) -> NDArray[np.bool_]:
        """Which of the keys are in it; `bits` as a filter has them."""
        held = self.filter.seen(keys, bits)
        places = np.flatnonzero(held)
        if len(places):
            suspected = keys[places]
            pages = np.searchsorted(self._firsts, last_placed(suspected), side="right") - 1
            held[places] = list(map(self._has, suspected.tolist(), pages.tolist()))
        return held

    def find(self, keys: Keys, bits: Keys) -> Iterator[tuple[int, int]]:
        """Where the keys are: their places among the keys, and the low bits of the offsets."""
        for place in np.flatnonzero(self.filter.seen(keys, bits)).tolist():
            key = keys[place : place + 1]
            start = max(0, int(np.searchsorted(self._firsts, key[0])) - 1)
            end = int(np.searchsorted(self._firsts, last_placed(key)[0], side="right"))
            if start == end:
                continue
            for _, low_bits in found_in(np.frombuffer(self._pages(start, end), dtype=np.uint64), key):
                yield place, low_bits

    def _has(self, key: int, page: int) -> bool:
        """Whether the key is on the page; a page that cannot be read may have it."""
        if page < 0:
            return False
        try:
            return key.to_bytes(KEY_BYTES, sys.byteorder)[HASH_BYTES] in self._pages(page, page + 1)
        except OSError:
            return True

    def _pages(self, start: int, end: int) -> bytearray:
        pages = bytearray((end - start) * PAGE_KEYS * KEY_BYTES)
        assert self._file is not None
        self._file.seek(start * PAGE_KEYS * KEY_BYTES)
        count = self._file.readinto(pages)
        del pages[count:]
        return pages

    def _read_into(self, run: Keys) -> None:
        if self._file is None:
            return
        self._file.seek(0)
        rest = run.data.cast("B")
        while rest:
            count = self._file.readinto(rest)
            if not count:
                raise OSError("a temporary file was cut short")
            rest = rest[count:]

    def close(self) -> None:
        """Give the space back."""
        if self._file is not None:
            self._file.close()


class KeyFiles:
    """The files of a process."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes = 0  # about how much memory all take
        self._bytes_max = bytes_max // 2
        self.file_keys = min(1 << (bytes_max // FILES_MAX).bit_length() >> 1, FILE_KEYS_MAX)
        self.piece_keys = min(self.file_keys // PIECES, PIECE_KEYS_MAX)  # that are written at a time
        if bytes_max < BYTES_MIN:
            self.piece_keys = 0
        self._files_max = bytes_max // self.file_keys if self.piece_keys else 0
        self._files: list[KeyFile] = []
        self._retry_at = 0.0

    @property
    def disk_bytes(self) -> int:
        """How much is on disk."""
        return sum(file.count for file in self._files) * KEY_BYTES

    def __len__(self) -> int:
        return len(self._files)

    def hold(self, keys: Keys) -> NDArray[np.bool_]:
        """Which of the keys are in a file."""
        held = np.zeros(len(keys), dtype=bool)
        bits = bits_of(keys)
        for file in self._files:
            held |= file.hold(keys, bits)
        return held

    def find(self, keys: Keys) -> list[list[int]]:
        """For each key the low bits of the offsets where it is; raises OSError when a file cannot be read."""
        found: list[list[int]] = [[] for _ in keys]
        bits = bits_of(keys)
        for file in self._files:
            for place, low_bits in file.find(keys, bits):
                found[place].append(low_bits)
        return found

    def add(self, keys: Sequence[Keys], newest: datetime, queues: Iterable[QueueInfo], window: timedelta) -> bool:
        """Write keys of ids that have this window; says whether that was possible."""
        count = sum(map(len, keys))
        if monotonic() < self._retry_at:
            return False
        file = next((file for file in self._files if self._takes(file, count, newest, window)), None)
        new = file is None
        if file is None:
            if len(self._files) >= self._files_max:
                return False
            file = KeyFile(newest, window, self.file_keys)
            while self.bytes + file.bytes > self._bytes_max and self.halve():
                pass
        try:
            file.add(np.concatenate(keys), newest, queues)
        except OSError as error:
            self._retry_at = monotonic() + RETRY_SECONDS
            log.warning(NOT_WRITTEN, extra={"error": str(error)})
            return False
        if new:
            self._files.append(file)
        self._count_bytes()
        return True

    def _takes(self, file: KeyFile, count: int, newest: datetime, window: timedelta) -> bool:
        young = abs(newest - file.begun_at) <= window / 8
        return file.window == window and file.count + count <= self.file_keys and young

    def forget(self, now: datetime) -> bool:
        """Close the files whose ids have all left their window; says whether there were some."""
        left = [file for file in self._files if not file.needed(now)]
        for file in left:
            file.close()
            self._files.remove(file)
            self.bytes -= file.bytes
        return bool(left)

    def halve(self) -> bool:
        """Take less memory, at the price of more reads; says whether that was possible."""
        file = max(self._files, key=lambda file: file.filter.bytes, default=None)
        if file is None or file.filter.bytes * WORD_KEYS_MAX <= self.file_keys * KEY_BYTES:
            return False
        file.filter.halve()
        self._count_bytes()
        return True

    def close(self) -> None:
        """Give all space back."""
        for file in self._files:
            file.close()
        self._files.clear()
        self._count_bytes()

    def _count_bytes(self) -> None:
        self.bytes = sum(file.bytes for file in self._files)


def _written(run: Keys) -> FileIO:
    file = tempfile.TemporaryFile(prefix="queen-", buffering=0)  # noqa: SIM115 (it stays open)
    try:
        rest = run.data.cast("B")
        while rest:
            rest = rest[file.write(rest) :]
    except BaseException:
        file.close()
        raise
    return file
