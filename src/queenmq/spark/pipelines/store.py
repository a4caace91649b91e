"""Where an archive is kept: a directory, or anything that pyarrow can address, such as s3://bucket/path.

A file appears whole or not at all: on a local disk it is written beside its place, forced to the disk and renamed;
object stores do so by themselves.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem

from queenmq.errors import InvalidArgument


def address(location: str) -> str:
    """A place as Spark finds it: its own working directory need not be ours."""
    return (location if "://" in location else str(Path(location).absolute())).rstrip("/")


class Store:
    """Files by their path below a location."""

    def __init__(self, location: str) -> None:
        try:
            if "://" in location:
                self._files, self._root = FileSystem.from_uri(location)
            else:
                self._files, self._root = LocalFileSystem(), address(location)
        except (pa.ArrowInvalid, ValueError) as error:
            raise InvalidArgument(f'"{location}" is no place for an archive: {error}') from None
        self.location = address(location)
        self._local = isinstance(self._files, LocalFileSystem)

    def address(self, path: str) -> str:
        """A file as Spark finds it."""
        return f"{self.location}/{path}"

    def names(self, directory: str) -> list[str]:
        """The files in a directory, sorted; none when there is no such directory."""
        found = self._files.get_file_info(FileSelector(self._place(directory), allow_not_found=True))
        return sorted(each.base_name for each in found if each.type == FileType.File)

    def read(self, path: str) -> bytes | None:
        """What a file holds; None when there is none."""
        if self._files.get_file_info(self._place(path)).type != FileType.File:
            return None
        with self._files.open_input_stream(self._place(path)) as stream:
            return bytes(stream.read())

    def size(self, path: str) -> int | None:
        """How long a file is; None when there is none."""
        size: int | None = self._files.get_file_info(self._place(path)).size
        return size

    @contextmanager
    def create(self, path: str) -> Iterator[Any]:
        """A stream whose bytes become the file when all went well; what was there before is replaced."""
        place = self._place(path)
        if not self._local:
            with self._files.open_output_stream(place) as stream:
                yield stream
            return
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        beside = Path(place).with_name(f".{Path(place).name}.{uuid4().hex}")
        try:
            with beside.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            beside.replace(place)
            _sync_directory(Path(place).parent)
        finally:
            beside.unlink(missing_ok=True)

    def move(self, path: str, to: str) -> None:
        """Give a file another place; nothing happens if it is not there, as it may have been moved before."""
        if self._files.get_file_info(self._place(path)).type == FileType.File:
            self._files.create_dir(self._place(to).rpartition("/")[0], recursive=True)
            self._files.move(self._place(path), self._place(to))

    def paths(self, directory: str) -> list[str]:
        """All files below a directory, however deep."""
        selector = FileSelector(self._place(directory), allow_not_found=True, recursive=True)
        found = self._files.get_file_info(selector)
        return [each.path.removeprefix(f"{self._root}/") for each in found if each.type == FileType.File]

    def remove(self, path: str) -> None:
        """Delete a file, if it is there."""
        if self._files.get_file_info(self._place(path)).type == FileType.File:
            self._files.delete_file(self._place(path))

    def _place(self, path: str) -> str:
        return f"{self._root}/{path}"


def _sync_directory(directory: Path) -> None:
    """Make a rename last."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
