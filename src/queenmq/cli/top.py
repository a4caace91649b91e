"""queen top: rates, lag and leases, live."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Annotated

import typer
from msgspec import Struct
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from queenmq.api.diagnosis import GetLedger, LedgerTotal, ListUnread, Unread
from queenmq.api.groups import Group as ConsumerGroup
from queenmq.api.system import Overview
from queenmq.cli.connection import connected
from queenmq.cli.keyboard import on_key
from queenmq.cli.options import Dsn, Json, Url, command_app
from queenmq.cli.printing import NOBODY, WIDTH_OF_A_PIPE, console, counted, print_json, seconds_text, show, table
from queenmq.client.queen import AsyncQueen

FRAME_LINES = 5  # above the groups
NUMBERS_CHARACTERS = 78  # to the right of their names
NAME_CHARACTERS_MIN = 8

app = command_app()


class Line(Struct, frozen=True, kw_only=True):
    """A group on a queue; rates are messages per second since the last look.

    Without a group: the partitions of the queue that no group reads.
    """

    queue: str
    group: str | None
    pushed_rate: float
    completed_rate: float
    pending: int
    leased: int
    leases: int
    dead_lettered: int
    lag_seconds: float


class Snapshot(Struct, frozen=True, kw_only=True):
    """How things stand at a moment, and what has changed since the one before."""

    overview: Overview
    lines: Sequence[Line]


Output = Callable[[Snapshot], None]


@app.command("top")
def main(
    interval: Annotated[
        float, typer.Option("--interval", "-i", min=0.1, metavar="SECONDS", help="The time between two looks.")
    ] = 2.0,
    count: Annotated[
        int | None, typer.Option("--count", "-c", min=1, metavar="N", help="End after so many looks.")
    ] = None,
    url: Url = None,
    dsn: Dsn = None,
    *,
    json: Json = False,
) -> None:
    """Watch rates, lag and leases live; q quits.

    The busiest groups come first; messages that no group has asked for have (nobody) as their group. With --json, or
    into a pipe, every look is printed below the one before.
    """
    if json or not (sys.stdout.isatty() and sys.stdin.isatty()):
        output: Output = print_json if json else _print
        connected(url, dsn, lambda queen: _watch(queen, output, interval, count, asyncio.Event()))
        return
    with Live(console=console(), screen=True, auto_refresh=False) as live:

        def update(snapshot: Snapshot) -> None:
            page = _page(snapshot, live.console.height - FRAME_LINES, live.console.width)
            live.update(Group(Text("q quits", style="dim", justify="right"), page), refresh=True)

        connected(url, dsn, lambda queen: _watch_until_q(queen, update, interval, count))


def _print(snapshot: Snapshot) -> None:
    show(_page(snapshot, len(snapshot.lines), WIDTH_OF_A_PIPE))


async def _watch_until_q(queen: AsyncQueen, output: Output, interval: float, count: int | None) -> None:
    left = asyncio.Event()
    with on_key("q", left.set):
        await _watch(queen, output, interval, count, left)


async def _watch(queen: AsyncQueen, output: Output, interval: float, count: int | None, left: asyncio.Event) -> None:
    """Look again and again."""
    ledger_before: dict[tuple[str, str], LedgerTotal] = {}
    unread_before: dict[str, Unread] = {}
    looked_at, looks = monotonic(), 0
    while not left.is_set() and looks != count:
        overview = await queen.admin.overview()
        ledger = {(each.queue, each.group): each for each in await queen.call(GetLedger())}
        unread = {each.queue: each for each in await queen.call(ListUnread())}
        groups = {(each.queue, each.name): each for each in await queen.groups.list()}
        seconds, looked_at = monotonic() - looked_at, monotonic()
        lines = [_line(each, ledger_before.get(name, each), groups.get(name), seconds) for name, each in ledger.items()]
        lines += [_unread_line(each, unread_before.get(queue, each), seconds) for queue, each in unread.items()]
        lines.sort(key=_rank)
        output(Snapshot(overview=overview, lines=lines))
        sys.stdout.flush()
        ledger_before, unread_before, looks = ledger, unread, looks + 1
        with suppress(TimeoutError):
            async with asyncio.timeout(interval if looks != count else 0):
                await left.wait()


def _line(now: LedgerTotal, before: LedgerTotal, group: ConsumerGroup | None, seconds: float) -> Line:
    return Line(
        queue=now.queue,
        group=now.group,
        pushed_rate=(now.pushed - before.pushed) / seconds,
        completed_rate=(now.completed - before.completed) / seconds,
        pending=now.pending,
        leased=now.leased,
        leases=group.members if group is not None else 0,
        dead_lettered=now.dead_lettered,
        lag_seconds=group.lag_seconds if group is not None else 0.0,
    )


def _unread_line(now: Unread, before: Unread, seconds: float) -> Line:
    return Line(
        queue=now.queue,
        group=None,
        pushed_rate=max(0, now.pushed - before.pushed) / seconds,  # fewer when a group begins to read some partitions
        completed_rate=0.0,
        pending=now.messages,
        leased=0,
        leases=0,
        dead_lettered=0,
        lag_seconds=now.seconds,
    )


def _rank(line: Line) -> tuple[float, int, str, str]:
    """The busiest first, then the largest backlog."""
    return -line.pushed_rate - line.completed_rate, -line.pending, line.queue, line.group or ""


def _pushed_rate(lines: Sequence[Line]) -> float:
    """Of all queues: groups of a queue see the same pushes, and what no group reads comes on top."""
    read: dict[str, float] = {}
    for line in lines:
        if line.group is not None:
            read[line.queue] = max(line.pushed_rate, read.get(line.queue, 0.0))
    return sum(read.values()) + sum(line.pushed_rate for line in lines if line.group is None)


def _page(snapshot: Snapshot, lines_max: int, width: int) -> RenderableType:
    name_characters = max(NAME_CHARACTERS_MIN, (width - NUMBERS_CHARACTERS) // 2)
    overview, held = snapshot.overview, snapshot.overview.messages
    pushed = _pushed_rate(snapshot.lines)
    completed = sum(line.completed_rate for line in snapshot.lines)
    head = Text.assemble(
        ("queen", "bold"),
        f"  {counted(overview.queues, 'queue')}  {counted(overview.partitions, 'partition')}  "
        f"{counted(overview.leases, 'lease')}  {held.pending:,} pending  {counted(held.dead_letters, 'dead letter')}\n",
        f"{pushed:,.0f} pushed/s  {completed:,.0f} completed/s",
    )
    rows = [
        (
            _cut(line.queue, name_characters),
            _cut(line.group or NOBODY, name_characters),
            line.pushed_rate,
            line.completed_rate,
            line.pending,
            line.leased,
            line.leases,
            line.dead_lettered,
            seconds_text(line.lag_seconds),
        )
        for line in snapshot.lines[: max(1, lines_max)]
    ]
    columns = ("queue", "group", "pushed/s", "completed/s", "pending", "leased", "leases", "dead", "oldest")
    return Group(head, Text(), table(columns, rows, fold=False))


def _cut(name: str, characters: int) -> str:
    return name if len(name) <= characters else f"{name[: characters - 1]}…"
