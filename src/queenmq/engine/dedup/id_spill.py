"""Keys of older ids in temporary files: 8 bytes of disk for an id, and at most 2 bytes of memory.

A file is one sorted run of keys with the low bits of their offsets. For each file, a filter and the first key of every
page are in memory. The filter rules out most new ids. For a key that it cannot rule out, one page is read, mostly from
the operating system's cache. The files have no name, so they are gone when the process ends.

A file holds ids of all partitions of queues with the same window. More keys are merged into it until it is full or an
eighth of the window has passed. When the newest of its ids has left the window, the file is closed, and its space is
free again.

If the filters take half of the memory, the largest are halved. They then rule out fewer ids, which costs reads.
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

from queenmq.engine.dedup.id_filter import (
    FILTER_WORD_KEYS_MAX,
    NO_KEYS,
    OFFSET_BITS,
    IdFilter,
    Keys,
    bits_of,
    found_in,
    with_last_offset,
)
from queenmq.engine.partitions import QueueInfo

log = logging.getLogger(__name__)

BYTES_MIN = 262_144  # of memory in all: with less, nothing is spilled
FILES_MAX = 32  # up to twice as many if the memory is no power of two, more if a file would be too large
FILE_KEYS_MAX = 1 << 22  # to merge keys into a file writes it again, while everything else waits
PIECE_KEYS_MAX = 1 << 18  # that are sorted at a time
PIECES = 4  # in a file, at least: it is written again with each
KEY_BYTES = 8
HASH_BYTES = slice(OFFSET_BITS // 8, KEY_BYTES) if sys.byteorder == "little" else slice(KEY_BYTES - OFFSET_BITS // 8)
PAGE_KEYS = 128  # a kilobyte
WORD_KEYS = 4  # of a new filter when its file is full: about one new id in 190 looks like a known one
WORD_KEYS_MAX = 16  # of a filter that is not halved again: about one new id in six
FILE_BYTES = 1_000  # of memory for a file beside its filter and the first keys of its pages, roughly

RETRY_SECONDS = 60.0  # before the next try, after a file could not be written
NOT_WRITTEN = (
    "transaction ids of the dedup window could not be written to a temporary file; those that do not fit into "
    "QUEEN_DEDUP_BYTES_MAX are forgotten and read again, which is slow: see that the directory for temporary files "
    "(TMPDIR) has room"
)


class SpillFile:
    """A sorted run of keys on disk."""

    def __init__(self, begun_at: datetime, window: timedelta, keys_max: int) -> None:
        self.begun_at = begun_at
        self.newest = begun_at
        self.window = window  # of the queues when the file was begun
        self.count = 0
        self.filter = IdFilter(keys_max * FILTER_WORD_KEYS_MAX // WORD_KEYS - 1)
        self._queues: set[QueueInfo] = set()
        self._file: FileIO | None = None
        self._firsts = NO_KEYS  # the first key of each page

    @property
    def bytes(self) -> int:
        """About how much memory it takes."""
        return FILE_BYTES + self.filter.bytes + self._firsts.nbytes

    def add(self, keys: Keys, newest: datetime, queues: Iterable[QueueInfo]) -> None:
        """Merge keys into the file, by writing a new one. If that fails, the old file stays."""
        key_run = np.empty(self.count + len(keys), dtype=np.uint64)
        self._read_into(key_run[: self.count])
        key_run[self.count :] = keys = np.sort(keys)
        key_run.sort(kind="stable")  # merges the two sorted halves
        file = _written(key_run)
        self.close()
        self._file = file
        self._firsts = key_run[::PAGE_KEYS].copy()
        self.count = len(key_run)
        self.filter.add(keys)
        self.newest = max(self.newest, newest)
        self._queues.update(queues)

    def needed(self, now: datetime) -> bool:
        """Whether some of its ids may still be inside the window, which may have been made longer since."""
        if now <= self.newest + self.window:
            return True
        return now <= self.newest + max(queue.dedup_window for queue in self._queues)

    def has(self, keys: Keys, bits: Keys) -> NDArray[np.bool_]:
        """For each key, whether it is in the file. `bits`: see `bits_of`."""
        found = self.filter.seen(keys, bits)
        indexes = np.flatnonzero(found)
        if len(indexes):
            suspected = keys[indexes]
            pages = np.searchsorted(self._firsts, with_last_offset(suspected), side="right") - 1
            found[indexes] = list(map(self._page_has, suspected.tolist(), pages.tolist()))
        return found

    def find(self, keys: Keys, bits: Keys) -> Iterator[tuple[int, int]]:
        """Which keys are in the file: pairs of an index into `keys` and the low bits of an offset."""
        for index in np.flatnonzero(self.filter.seen(keys, bits)).tolist():
            key = keys[index : index + 1]
            start = max(0, int(np.searchsorted(self._firsts, key[0])) - 1)
            end = int(np.searchsorted(self._firsts, with_last_offset(key)[0], side="right"))
            if start == end:
                continue
            for _, low_bits in found_in(np.frombuffer(self._pages(start, end), dtype=np.uint64), key):
                yield index, low_bits

    def _page_has(self, key: int, page: int) -> bool:
        """Whether the page has the key. If the page cannot be read, it may have it."""
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

    def _read_into(self, keys: Keys) -> None:
        if self._file is None:
            return
        self._file.seek(0)
        rest = keys.data.cast("B")
        while rest:
            count = self._file.readinto(rest)
            if not count:
                raise OSError("a temporary file was cut short")
            rest = rest[count:]

    def close(self) -> None:
        """Give the disk space back."""
        if self._file is not None:
            self._file.close()


class IdSpill:
    """All temporary files with keys of one engine."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes = 0  # about how much memory all files take
        self._bytes_max = bytes_max // 2
        self.file_keys = min(1 << (bytes_max // FILES_MAX).bit_length() >> 1, FILE_KEYS_MAX)
        self.piece_keys = min(self.file_keys // PIECES, PIECE_KEYS_MAX)  # keys that are written at a time
        if bytes_max < BYTES_MIN:
            self.piece_keys = 0
        self._files_max = bytes_max // self.file_keys if self.piece_keys else 0
        self._files: list[SpillFile] = []
        self._retry_at = 0.0

    @property
    def disk_bytes(self) -> int:
        """How much disk space all files take."""
        return sum(file.count for file in self._files) * KEY_BYTES

    def __len__(self) -> int:
        return len(self._files)

    def has(self, keys: Keys) -> NDArray[np.bool_]:
        """For each key, whether it is in a file."""
        found = np.zeros(len(keys), dtype=bool)
        bits = bits_of(keys)
        for file in self._files:
            found |= file.has(keys, bits)
        return found

    def find(self, keys: Keys) -> list[list[int]]:
        """For each key, the low bits of the offsets of its messages. Raises OSError if a file cannot be read."""
        found: list[list[int]] = [[] for _ in keys]
        bits = bits_of(keys)
        for file in self._files:
            for index, low_bits in file.find(keys, bits):
                found[index].append(low_bits)
        return found

    def add(self, keys: Sequence[Keys], newest: datetime, queues: Iterable[QueueInfo], window: timedelta) -> bool:
        """Spill keys of ids of queues with this window. Returns whether that was possible."""
        count = sum(map(len, keys))
        if monotonic() < self._retry_at:
            return False
        file = next((file for file in self._files if self._takes(file, count, newest, window)), None)
        new = file is None
        if file is None:
            if len(self._files) >= self._files_max:
                return False
            file = SpillFile(newest, window, self.file_keys)
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

    def _takes(self, file: SpillFile, count: int, newest: datetime, window: timedelta) -> bool:
        young = abs(newest - file.begun_at) <= window / 8
        return file.window == window and file.count + count <= self.file_keys and young

    def forget(self, now: datetime) -> bool:
        """Close the files whose ids have all left their window. Returns whether there were any."""
        left = [file for file in self._files if not file.needed(now)]
        for file in left:
            file.close()
            self._files.remove(file)
            self.bytes -= file.bytes
        return bool(left)

    def halve(self) -> bool:
        """Take less memory, which costs more reads. Returns whether that was possible."""
        file = max(self._files, key=lambda file: file.filter.bytes, default=None)
        if file is None or file.filter.bytes * WORD_KEYS_MAX <= self.file_keys * KEY_BYTES:
            return False
        file.filter.halve()
        self._count_bytes()
        return True

    def close(self) -> None:
        """Close all files."""
        for file in self._files:
            file.close()
        self._files.clear()
        self._count_bytes()

    def _count_bytes(self) -> None:
        self.bytes = sum(file.bytes for file in self._files)


def _written(keys: Keys) -> FileIO:
    file = tempfile.TemporaryFile(prefix="queen-", buffering=0)  # noqa: SIM115 (it stays open)
    try:
        rest = keys.data.cast("B")
        while rest:
            rest = rest[file.write(rest) :]
    except BaseException:
        file.close()
        raise
    return file
