"""The spool's files: a directory of segments to which records are appended, and from which they are read.

    <directory>/00000001.spool   a segment: magic, the segment's id (a UUID), then records
    <directory>/append.lock      held by the process that appends; says where the last record ends
    <directory>/drain.lock       held by the process that stores what is here
    <directory>/refused/         messages that PostgreSQL would not take, one segment each
    <directory>/*.damaged        segments with a record that was changed on the disk; nobody touches them

A record is its length, the number of its messages, a checksum over both and the body, and the body. A record that
is cut off at the end of a segment was never answered: its writer died before, and it counts for nothing.

The directory belongs to all processes of a server. Who appends holds a lock and appends to the newest segment, if it
ends where the last record was said to end; otherwise somebody died at it, and a new one begins. So what stands behind
a writer's death is never written to, and the records of all segments, by number, are in the order of their answers.
A lock ends with its process, however that ends: whoever comes next takes over what is there.
"""

import contextlib
import fcntl
import logging
import os
import struct
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Literal
from uuid import UUID, uuid4

from msgspec import Struct

log = logging.getLogger(__name__)

MAGIC = b"QUEENSP1"
HEAD_BYTES = len(MAGIC) + 16
RECORD = struct.Struct("<III")  # bytes, messages, checksum
END = struct.Struct("<16sQ")  # segment, bytes
SEGMENT_BYTES_MAX = 64 << 20  # then the next one begins
SETTLED_NS = 2_500_000_000  # file systems note the time of a change at least this exactly


Fate = Literal["kept", "full", "not needed"]  # of a record that was to be appended


class Record(Struct, frozen=True):
    """Some messages that were answered together, as the spool wrote them."""

    body: bytes
    messages: int


def frame(record: Record) -> bytes:
    """A record as it stands in a segment."""
    return RECORD.pack(len(record.body), record.messages, _checksum(record.messages, record.body)) + record.body


def _checksum(messages: int, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(struct.pack("<II", len(body), messages)))


class Reader:
    """Reads a segment from its beginning, also while it grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO = path.open("rb")
        head = self._file.read(HEAD_BYTES)
        self.begun = len(head) == HEAD_BYTES  # otherwise its writer died at once
        self.foreign = not MAGIC.startswith(head[: len(MAGIC)])
        self.damaged = self.foreign
        self.id = UUID(bytes=head[len(MAGIC) :]) if self.begun else UUID(int=0)
        self.position = 0  # messages read or skipped
        self._offset = HEAD_BYTES

    def close(self) -> None:
        """Read no more."""
        self._file.close()

    def read(self, messages_max: int, bytes_max: int) -> list[Record]:
        """The next records, at least one if there is one, and then no more than so much."""
        self.damaged = self.foreign  # what was being written when we looked is whole by now
        records: list[Record] = []
        messages = size = 0
        while (header := self._header()) is not None and (
            not records or (messages + header[1] <= messages_max and size + header[0] <= bytes_max)
        ):
            body = self._file.read(header[0])
            if len(body) < header[0]:
                break
            if _checksum(header[1], body) != header[2]:
                self.damaged = True
                break
            records.append(Record(body, header[1]))
            messages += header[1]
            size += header[0]
            self._offset += RECORD.size + header[0]
        self.position += messages
        return records

    def skip(self, position: int) -> int:
        """Pass by what lies before a position; answers how many messages of the next record lie before it too."""
        while (header := self._header()) is not None and self.position + header[1] <= position:
            if self._offset + RECORD.size + header[0] > os.fstat(self._file.fileno()).st_size:
                break
            self._offset += RECORD.size + header[0]
            self.position += header[1]
        return position - self.position

    def count(self) -> int:
        """How many messages there are from the beginning to the end, without reading them."""
        self.skip(1 << 62)
        return self.position

    def is_current(self) -> bool:
        """Whether this is still the file at its path."""
        return _is_at(self._file.fileno(), self.path)

    def _header(self) -> tuple[int, int, int] | None:
        """The next record's header; None at the end."""
        if not self.begun or self.damaged:
            return None
        self._file.seek(self._offset)
        head = self._file.read(RECORD.size)
        if len(head) < RECORD.size or not any(head):  # zeros: room that the disk gave, and nothing was written to
            return None
        size, messages, checksum = RECORD.unpack(head)
        if not size or not messages:
            self.damaged = True
            return None
        return size, messages, checksum


class SpoolFiles:
    """All segments of a directory. Its methods block: they are called in threads, but for `is_empty`."""

    def __init__(self, directory: Path, bytes_max: int, segment_bytes_max: int = SEGMENT_BYTES_MAX) -> None:
        self._directory = directory
        self._refused = directory / "refused"
        self._bytes_max = bytes_max
        self._segment_bytes_max = segment_bytes_max
        self._file: int | None = None  # of the segment we appended to
        self._path = directory
        self._id = b""
        self._counts: dict[Path, Reader] = {}
        self._empty = True
        self._looked_ns = 0  # the directory's time of change when we looked
        self._refused.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.chmod(0o700)

    def close(self) -> None:
        """Let go of all files."""
        self._close_segment()
        for reader in self._counts.values():
            reader.close()

    # -- looking

    def segments(self) -> list[Path]:
        """All segments, in order."""
        return sorted(path for path in self._directory.iterdir() if path.suffix == ".spool")

    def refused(self) -> list[Path]:
        """Messages that were set aside."""
        return sorted(path for path in self._refused.iterdir() if path.suffix == ".spool")

    def is_empty(self) -> bool:
        """Whether there is no segment; costs no more than a look at the directory's time of change."""
        changed_ns = os.stat(self._directory).st_mtime_ns  # noqa: PTH116 (twice as fast, and asked for every push)
        if changed_ns != self._looked_ns:
            self._empty = not self.segments()
            self._looked_ns = changed_ns if time.time_ns() - changed_ns > SETTLED_NS else 0
        return self._empty

    def counts(self) -> tuple[dict[UUID, int], int]:
        """The number of messages in each segment, stored ones included, and the bytes of all."""
        found: dict[UUID, int] = {}
        size = 0
        segments = self.segments()
        for gone in self._counts.keys() - set(segments):
            self._counts.pop(gone).close()
        for path in segments:
            with contextlib.suppress(FileNotFoundError):  # stored and deleted meanwhile
                size += path.stat().st_size
                reader = self._counts.get(path)
                if reader is None or not reader.begun or not reader.is_current():
                    if reader is not None:
                        reader.close()
                    reader = self._counts[path] = Reader(path)
                found[reader.id] = reader.count()
        return found, size

    # -- appending

    @contextlib.contextmanager
    def hold(self) -> Iterator[int]:
        """Nobody appends meanwhile, but the holder; gives the lock's file."""
        with _locked(self._directory / "append.lock", wait=True) as lock:
            assert lock is not None
            yield lock

    def append(self, records: Sequence[Record], *, into_empty: Sequence[bool]) -> list[Fate]:
        """Write records behind all others and have them on the disk.

        One that is not to go `into_empty` files finds that out here, where nobody else can append or remove.
        """
        with self.hold() as lock:
            segments = self.segments()
            room = self._bytes_max - sum(path.stat().st_size for path in segments)
            frames: list[bytes] = []
            fates: list[Fate] = []
            for record, always in zip(records, into_empty, strict=True):
                framed = frame(record)
                if not segments and not always:
                    fates.append("not needed")
                elif len(framed) > room:
                    fates.append("full")
                else:
                    fates.append("kept")
                    frames.append(framed)
                    room -= len(framed)
            if frames:
                self._write(b"".join(frames), segments, lock)
            return fates

    def _write(self, data: bytes, segments: list[Path], lock: int) -> None:
        end = None
        try:
            file = self._newest(segments, lock)
            end = os.fstat(file).st_size
            _write_all(file, data)
            os.fsync(file)
            if end == HEAD_BYTES:
                _sync_directory(self._directory)
            os.pwrite(lock, END.pack(self._id, end + len(data)), 0)
        except OSError:
            if self._file is not None and end is not None:
                with contextlib.suppress(OSError):  # what was written of it must not come back as a message
                    os.ftruncate(self._file, end)
            self._close_segment()
            raise

    def _newest(self, segments: list[Path], lock: int) -> int:
        """The segment to append to: the newest, if it is whole and not too large, or a new one."""
        if segments:
            file = self._open(segments[-1])
            size = os.fstat(file).st_size
            if os.pread(lock, END.size, 0) == END.pack(self._id, size) and size < self._segment_bytes_max:
                return file
        self._close_segment()
        number = int(segments[-1].stem) + 1 if segments else 1
        self._path = self._directory / f"{number:08}.spool"
        self._id = uuid4().bytes
        self._file = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND, 0o600)
        _write_all(self._file, MAGIC + self._id)
        return self._file

    def _open(self, path: Path) -> int:
        if self._file is not None and self._path == path and _is_at(self._file, path):
            return self._file
        self._close_segment()
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_APPEND)
        self._id = os.pread(self._file, 16, len(MAGIC)).ljust(16)
        return self._file

    def _close_segment(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    # -- storing

    @contextlib.contextmanager
    def draining(self) -> Iterator[bool]:
        """Be the only one who stores what is here; False when another process is."""
        with _locked(self._directory / "drain.lock", wait=False) as lock:
            yield lock is not None

    def remove(self, reader: Reader) -> None:
        """A segment was read to its end, nobody appends to it, and all of it is stored; a damaged one is kept."""
        reader.close()
        if reader.damaged:
            kept = reader.path.with_name(f"{reader.path.stem}-{reader.id}.damaged")
            log.error("a spool file is damaged: what lies behind the damage was not stored", extra={"file": str(kept)})
            reader.path.rename(kept)
        else:
            reader.path.unlink(missing_ok=True)
        _sync_directory(reader.path.parent)

    def set_aside(self, id: UUID, record: Record) -> None:
        """Keep what cannot be stored in a segment of its own; the same id again changes nothing."""
        path = self._refused / f"{id}.spool"
        draft = path.with_suffix(".new")
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
            file.write(MAGIC + id.bytes + frame(record))
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
        _sync_directory(self._refused)


@contextlib.contextmanager
def _locked(path: Path, *, wait: bool) -> Iterator[int | None]:
    file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        locked: int | None = file
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            locked = None
        yield locked
    finally:
        os.close(file)


def _write_all(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _is_at(file: int, path: Path) -> bool:
    """Whether an open file is the one at a path; another may have taken its name."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file), path.stat())
    return False


def _sync_directory(directory: Path) -> None:
    """Have the directory's entries on the disk."""
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
