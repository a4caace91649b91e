"""queen bench: a short measurement of pushes and pops."""

import asyncio
import statistics
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Annotated
from uuid import uuid4

import typer
from msgspec import Raw, Struct

from queenmq.cli.connection import connected
from queenmq.cli.options import Dsn, Json, Url, command_app
from queenmq.cli.printing import print_json, print_table
from queenmq.client.queen import AsyncQueen

Timed = tuple[int, float]  # messages of a call, and the seconds it took

app = command_app()


class Figure(Struct, frozen=True, kw_only=True):
    """What was reached; a call is a request with a batch."""

    what: str
    messages: int
    seconds: float
    rate: float
    call_ms_median: float
    call_ms_p99: float


class Load(Struct, frozen=True, kw_only=True):
    """How much is asked for."""

    seconds: float
    clients: int
    batch: int
    payload: Raw


@app.command("bench")
def main(
    seconds: Annotated[
        float, typer.Option("--seconds", "-s", min=0.1, max=600, metavar="SECONDS", help="How long to push.")
    ] = 5.0,
    clients: Annotated[int, typer.Option("--clients", "-c", min=1, max=1000, metavar="N", help="Clients at once.")] = 8,
    batch: Annotated[
        int, typer.Option("--batch", "-b", min=1, max=10_000, metavar="N", help="Messages per request.")
    ] = 100,
    size: Annotated[int, typer.Option(min=2, max=1_000_000, metavar="N", help="Bytes of a payload.")] = 100,
    url: Url = None,
    dsn: Dsn = None,
    *,
    json: Json = False,
) -> None:
    """Measure pushes and pops, on a queue of its own.

    Every client pushes to a partition of its own; then all of it is popped and acknowledged. The queue is deleted at
    the end. This process is a part of what is measured: several of them at once may reach more.

    ```
    queen bench --clients 32 --batch 10
    ```
    """
    load = Load(seconds=seconds, clients=clients, batch=batch, payload=Raw(b'"' + b"x" * (size - 2) + b'"'))
    figures = connected(url, dsn, lambda queen: _measure(queen, load))
    if json:
        print_json(figures)
        return
    print_table(
        ("", "messages", "per second", "call median", "call p99"),
        [
            (each.what, each.messages, round(each.rate), f"{each.call_ms_median:.1f} ms", f"{each.call_ms_p99:.1f} ms")
            for each in figures
        ],
        "",
    )


async def _measure(queen: AsyncQueen, load: Load) -> list[Figure]:
    name = f"bench-{uuid4().hex[:8]}"
    try:
        return [
            await _figure("push", load, lambda client: _push(queen, name, load, client)),
            await _figure("pop and ack", load, lambda _: _pop(queen, name, load)),
        ]
    finally:
        await queen.admin.delete(name)


async def _push(queen: AsyncQueen, name: str, load: Load, client: int) -> list[Timed]:
    """Push for a while; answers how many messages each call had, and how long it took."""
    queue = queen.queue(name).partition(str(client))
    calls: list[Timed] = []
    ends = perf_counter() + load.seconds
    while (started := perf_counter()) < ends:
        await queue.push_many([load.payload] * load.batch)
        calls.append((load.batch, perf_counter() - started))
    return calls


async def _pop(queen: AsyncQueen, name: str, load: Load) -> list[Timed]:
    """Pop and acknowledge until nothing is left for this client."""
    source = queen.queue(name).group("bench").batch(load.batch)
    calls: list[Timed] = []
    while True:
        started = perf_counter()
        messages = await source.pop()
        if not messages:
            return calls
        await queen.ack_many(messages)
        calls.append((len(messages), perf_counter() - started))


async def _figure(what: str, load: Load, work: Callable[[int], Awaitable[Sequence[Timed]]]) -> Figure:
    started = perf_counter()
    calls = [call for done in await asyncio.gather(*map(work, range(load.clients))) for call in done]
    seconds = perf_counter() - started
    messages, times = sum(count for count, _ in calls), sorted(seconds for _, seconds in calls)
    return Figure(
        what=what,
        messages=messages,
        seconds=seconds,
        rate=messages / seconds,
        call_ms_median=statistics.median(times) * 1000 if times else 0.0,
        call_ms_p99=times[len(times) * 99 // 100] * 1000 if times else 0.0,
    )
