"""queen push: messages from the command line, from a file or from a pipe."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from msgspec import Struct
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from queenmq.cli import Exit
from queenmq.cli.connection import connected
from queenmq.cli.json_lines import Batch, Reader, batches, opened, read_ahead
from queenmq.cli.options import Dsn, Json, Url, command_app
from queenmq.cli.printing import console, counted, print_json
from queenmq.client.calls import Push
from queenmq.client.queen import AsyncQueen
from queenmq.client.stop import Stop, stopping
from queenmq.client.unavailable import NotSent
from queenmq.errors import QueenError, Unavailable
from queenmq.model import DEFAULT_PARTITION

PATIENCE_SECONDS = 1.0  # after Ctrl-C, before the command says what it still waits for

app = command_app()


class Report(Struct):
    """What became of the input: `unknown` counts messages of a request whose answer did not come."""

    queue: str
    pushed: int = 0
    buffered: int = 0
    unknown: int = 0
    interrupted: bool = False
    seconds: float = 0.0

    @property
    def sentence(self) -> str:
        """The report for people."""
        rate = self.pushed / self.seconds if self.seconds else 0
        told = f"{self.pushed:,} pushed to {self.queue} in {self.seconds:.1f} s, {rate:,.0f} per second"
        return told + (f", {self.buffered:,} kept on the server's disk for now" if self.buffered else "")

    @property
    def stored(self) -> str:
        """The report when it ended early: how much of the input is in the queue, to the message."""
        told = counted(self.pushed, "message") if self.pushed else "nothing"
        if self.unknown:
            return f"{told}; it is not known whether the next {self.unknown:,} were stored"
        return f"{told}, no others" if self.pushed else told


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
    whole or not at all; when one is refused, the command says how many messages were stored before. So it does at
    Ctrl-C, after the answer to the request in flight; a second Ctrl-C does not wait for that.

    ```
    queen push orders '{"id": 1}' --partition ann
    queen push orders --file orders.jsonl --key customer
    ```
    """
    report = Report(queue)
    try:
        with opened(payloads, file) as source, _progress(file) as progress:
            read = batches(source, batch, Reader(queue, partition, key))
            connected(url, dsn, lambda queen: _push(queen, report, read, progress))
    except QueenError:
        print(f"Stored before the error: {report.stored}.", file=sys.stderr)
        raise
    except KeyboardInterrupt:
        report.interrupted = True
    if json:
        print_json(report)
    elif not report.interrupted:
        print(report.sentence)
    if report.interrupted:
        print(f"Interrupted. Stored: {report.stored}.", file=sys.stderr)
        raise typer.Exit(Exit.INTERRUPTED)


async def _push(queen: AsyncQueen, report: Report, read: Iterator[list[Batch]], progress: Progress | None) -> None:
    """Send batch after batch; the next ones are read while some are on their way."""
    started = perf_counter()
    with stopping(None) as stop:
        interrupted = asyncio.create_task(stop.wait())
        waiting = asyncio.create_task(_say_that_it_waits(stop, report))
        upcoming = read_ahead(read)
        while await _read_before_interrupt(upcoming, interrupted) and (found := upcoming.result()) is not None:
            upcoming = read_ahead(read)
            for batch in found:
                if stop.is_set():
                    break
                await _send(queen, report, batch)
                report.seconds = perf_counter() - started
                if progress is not None:
                    rate = report.pushed / report.seconds
                    progress.update(progress.task_ids[0], completed=batch.position, pushed=report.pushed, rate=rate)
        report.interrupted = stop.is_set()
        for task in (upcoming, interrupted, waiting):
            task.cancel()


async def _send(queen: AsyncQueen, report: Report, batch: Batch) -> None:
    """Send one request, and count what is known of it, whatever happens."""
    report.unknown = len(batch.messages)
    try:
        pushed = await queen.call(Push(batch.messages))
    except QueenError as error:
        if not isinstance(error, Unavailable) or isinstance(error, NotSent):
            report.unknown = 0
        raise
    report.unknown = 0
    report.pushed += len(pushed)
    if next(iter(pushed)).status == "buffered":  # a request is, or is not
        report.buffered += len(pushed)


async def _read_before_interrupt(upcoming: asyncio.Future[Any], interrupted: asyncio.Task[None]) -> bool:
    """Wait for the input or for Ctrl-C, and say whether it was the input."""
    await asyncio.wait((upcoming, interrupted), return_when=asyncio.FIRST_COMPLETED)
    return not interrupted.done()


async def _say_that_it_waits(stop: Stop, report: Report) -> None:
    await stop.wait()
    await asyncio.sleep(PATIENCE_SECONDS)
    if report.unknown:
        print("Waiting for the answer to the last request. Ctrl-C again does not wait.", file=sys.stderr, flush=True)


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
