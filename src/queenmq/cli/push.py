"""queen push: messages from the command line, from a file or from a pipe."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter, sleep
from typing import Annotated, Any, BinaryIO

import msgspec
import typer
from msgspec import Raw, Struct
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from queenmq import model
from queenmq.cli.connection import connected
from queenmq.cli.options import Dsn, Json, Url, command_app
from queenmq.cli.printing import console, print_json
from queenmq.client.calls import Push
from queenmq.client.outgoing import Outgoing, messages
from queenmq.client.queen import AsyncQueen
from queenmq.errors import InvalidPayload, QueenError
from queenmq.model import DEFAULT_PARTITION
from queenmq.model.payloads import NOT_JSON, json_array

CHUNK_BYTES = 1 << 20  # read at once, and so about the most that is pushed at once

_raw = msgspec.json.Decoder(Raw).decode

app = command_app()


class Batch(Struct, frozen=True):
    """Messages of one request, and how many bytes of the input were read with them."""

    messages: Sequence[model.Outgoing]
    position: int


class Report(Struct):
    """What became of the input."""

    queue: str
    pushed: int = 0
    buffered: int = 0
    seconds: float = 0.0

    @property
    def sentence(self) -> str:
        """The report for people."""
        rate = self.pushed / self.seconds if self.seconds else 0
        told = f"{self.pushed:,} pushed to {self.queue} in {self.seconds:.1f} s, {rate:,.0f} per second"
        return told + (f", {self.buffered:,} kept on the server's disk for now" if self.buffered else "")


@app.command("push")
def main(
    queue: Annotated[str, typer.Argument(help="Where to; a queue begins to exist with its first message.")],
    payloads: Annotated[list[str] | None, typer.Argument(help="Messages, each one JSON.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", exists=True, dir_okay=False, help="A file with one JSON per line.")
    ] = None,
    partition: Annotated[str, typer.Option("--partition", "-p", help="The partition.")] = DEFAULT_PARTITION,
    key: Annotated[
        str | None, typer.Option("--key", "-k", help="The field of a message that names its partition instead.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="Messages per request.")] = 1_000,
    url: Url = None,
    dsn: Dsn = None,
    *,
    json: Json = False,
) -> None:
    """Push messages: arguments, or JSON lines of a file or a pipe.

    Requests go out one after the other, so the order of the input is the order in each partition. A request is stored
    whole or not at all; when one is refused, what was pushed before it is told.

    ```
    queen push orders '{"id": 1}' --partition ann
    queen push orders --file orders.jsonl --key customer
    ```
    """
    report = Report(queue)
    with _input(payloads, file) as source, _progress(file) as progress:
        batches = _batches(source, batch, Reader(queue, partition, key))
        try:
            connected(url, dsn, lambda queen: _push(queen, report, batches, progress))
        except (QueenError, KeyboardInterrupt):
            print(f"pushed before it ended: {report.pushed:,}", file=sys.stderr)
            raise
    if json:
        print_json(report)
    else:
        print(report.sentence)


async def _push(queen: AsyncQueen, report: Report, batches: Iterator[list[Batch]], progress: Progress | None) -> None:
    """Send batch after batch; the next ones are read while some are on their way."""
    started = perf_counter()
    upcoming = asyncio.create_task(asyncio.to_thread(next, batches, None))
    while (read := await upcoming) is not None:
        upcoming = asyncio.create_task(asyncio.to_thread(next, batches, None))
        for batch in read:
            pushed = await queen.call(Push(batch.messages))
            report.pushed += len(pushed)
            if next(iter(pushed)).status == "buffered":  # a request is, or is not
                report.buffered += len(pushed)
            report.seconds = perf_counter() - started
            if progress is not None:
                rate = report.pushed / report.seconds
                progress.update(progress.task_ids[0], completed=batch.position, pushed=report.pushed, rate=rate)


def _input(payloads: list[str] | None, file: Path | None) -> Any:
    """Where lines come from, as a context manager: payloads are lines too."""
    if payloads and file:
        raise typer.BadParameter("give messages as arguments or --file, not both")
    if payloads:
        return nullcontext([payload.encode(errors="surrogateescape") for payload in payloads])
    if file is not None:
        return file.open("rb")
    if sys.stdin.isatty():
        raise typer.BadParameter("give messages as arguments, with --file, or pipe JSON lines into it")
    return nullcontext(sys.stdin.buffer)


def _batches(source: BinaryIO | list[bytes], size: int, reader: "Reader") -> Iterator[list[Batch]]:
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
    while chunk := source.read1(CHUNK_BYTES):  # type: ignore[attr-defined]  # both inputs are buffered readers
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


def _progress(file: Path | None) -> Any:
    """A bar on a terminal: of a file with what is left, of a pipe with what was done."""
    screen = console(stderr=True)
    if not screen.is_terminal:
        return nullcontext()
    told = (TextColumn("{task.fields[pushed]:,} pushed"), TextColumn("{task.fields[rate]:,.0f}/s"))
    bar = (BarColumn(), TaskProgressColumn(), TimeRemainingColumn()) if file is not None else ()
    progress = Progress(*bar, *told, console=screen, transient=True)
    progress.add_task("", total=file.stat().st_size if file is not None else None, pushed=0, rate=0.0)
    return progress
