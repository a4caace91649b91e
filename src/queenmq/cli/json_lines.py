"""JSON lines as messages: read from arguments, a file or a pipe, checked, and cut into requests."""

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from time import sleep
from typing import Any, BinaryIO

import msgspec
import typer
from msgspec import Raw, Struct

from queenmq import model
from queenmq.client.outgoing import Outgoing, messages
from queenmq.errors import InvalidPayload
from queenmq.model.payloads import NOT_JSON, json_array

CHUNK_BYTES = 1 << 20  # read at once, and so about the most that is pushed at once

_raw = msgspec.json.Decoder(Raw).decode


class Batch(Struct, frozen=True):
    """Messages of one request, and how many bytes of the input were read with them."""

    messages: Sequence[model.Outgoing]
    position: int


def opened(payloads: list[str] | None, file: Path | None) -> Any:
    """Where lines come from, as a context manager: payloads are lines too.

    Files and pipes are not buffered: a thread that reads from them holds no lock when the command ends.
    """
    if payloads and file:
        raise typer.BadParameter("give messages as arguments or --file, not both")
    if payloads:
        return nullcontext([payload.encode(errors="surrogateescape") for payload in payloads])
    if file is not None:
        return file.open("rb", buffering=0)
    if sys.stdin.isatty():
        raise typer.BadParameter("give messages as arguments, with --file, or pipe JSON lines into it")
    return nullcontext(getattr(sys.stdin.buffer, "raw", sys.stdin.buffer))


def read_ahead(batches: Iterator[list[Batch]]) -> asyncio.Future[list[Batch] | None]:
    """The next batches, or None at the end, read in a thread that does not keep the command from ending.

    A pipe may be silent for ever, and nothing interrupts a thread that reads from it.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[list[Batch] | None] = loop.create_future()

    def read() -> None:
        try:
            found = next(batches, None)
        except Exception as error:  # noqa: BLE001 (raised again where the future is awaited)
            report(future.set_exception, error)
        else:
            report(future.set_result, found)

    def report(settle: Callable[[Any], None], value: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: the command was interrupted
            loop.call_soon_threadsafe(lambda: None if future.done() else settle(value))

    threading.Thread(target=read, daemon=True).start()
    return future


def batches(source: BinaryIO | list[bytes], size: int, reader: "Reader") -> Iterator[list[Batch]]:
    """The messages of the input, by what was read at once; empty lines are none."""
    for lines, position in [(source, 0)] if isinstance(source, list) else _chunks(source, size):
        read: list[Batch] = []
        pieces = (lines[start : start + size] for start in range(0, len(lines), size))
        try:
            read.extend(Batch(found, position) for piece in pieces if (found := reader.messages(piece)))
        except InvalidPayload:
            yield read  # what comes before it
            raise
        yield read


def _chunks(source: BinaryIO, size: int) -> Iterator[tuple[list[bytes], int]]:
    """Lines as they arrive, and how much was read.

    What a pipe has is taken, without waiting for more; of a chunk that is full, whole batches.
    """
    kept: list[bytes] = []
    rest, position = b"", 0
    while chunk := source.read(CHUNK_BYTES):
        position += len(chunk)
        *lines, rest = (rest + chunk).split(b"\n")
        lines = kept + lines
        taken = len(lines) // size * size if len(chunk) == CHUNK_BYTES else 0
        kept = lines[taken:] if taken else []
        yield lines[: taken or None], position
    yield [*kept, rest], position


class NoKey(InvalidPayload):
    """A message does not name its partition."""

    hint = "Give --key a field that all messages have, or leave it out."


class Reader:
    """Makes messages of lines, and counts those."""

    def __init__(self, queue: str, partition: str, key: str | None) -> None:
        self._queue = queue
        self._partition = partition
        self._key = key
        self._number = 1  # of the next line

    def messages(self, lines: list[bytes]) -> Sequence[model.Outgoing]:
        """Lines as messages, in the partition that they name if they do."""
        sleep(0)  # reading holds nobody up for longer than this takes: an answer may have come
        number = self._number
        self._number += len(lines)
        if self._key is not None:
            keyed = [_keyed(line, at, self._key) for at, line in enumerate(lines, number) if line.strip()]
            return messages(self._queue, self._partition, keyed)
        found = self._together(lines)
        if found is None:
            for at, line in enumerate(lines, number):
                _check(line, at)
            found = self._together([stripped for line in lines if (stripped := line.strip())])
            assert found is not None  # each of them is JSON
        return found

    def _together(self, lines: list[bytes]) -> model.Payloads | None:
        """One array of all lines; None if one of them is not exactly a JSON value."""
        try:
            found = model.Payloads(self._queue, self._partition, json_array(lines) if lines else b"[]", len(lines))
        except InvalidPayload:
            return None
        return found if list(map(len, found.elements)) == list(map(len, lines)) else None


def _keyed(line: bytes, number: int, key: str) -> Outgoing:
    _check(line, number)
    value = msgspec.json.decode(line)
    named = value.get(key) if isinstance(value, dict) else None
    if not isinstance(named, str | int) or isinstance(named, bool):
        raise NoKey(f'line {number} has no text or whole number "{key}" to name its partition')
    return Outgoing(Raw(line), partition=str(named))


def _check(line: bytes, number: int) -> None:
    try:
        _check_text(line)
        if line.strip():
            _raw(line)
    except NOT_JSON as error:
        raise InvalidPayload(f"line {number} is not JSON: {error}") from error


def _check_text(text: bytes) -> None:
    if not text.isascii():
        text.decode()  # what is not looked into is not known to be UTF-8
