"""One side of the jobs case, as a program of its own: it keeps a queue at its depth, and a process beside it works.

    python bench/jobs_side.py SIDE DSN HANDLERS LISTS WARM_UP_SECONDS SECONDS

It prints one line of JSON. It imports nothing of `bench`, so that it also measures another version of Queen: the one
in PYTHONPATH.
"""

import asyncio
import json
import multiprocessing
import random
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import asyncpg
import uvloop
from pgmq.async_queue import PGMQueue
from pgmq.install import get_embedded_install_sql

from queenmq import AsyncQueen, Outgoing, Stop

KEYS = 1_000
DEPTH = 4_000
PAYLOAD_BYTES = 256
WORK_SECONDS = 0.001
LIST = 64  # messages in a list, at most
FLUSH = 500  # messages in a push, at most
POLL_SECONDS = 0.005
CONNECTIONS_MAX = 32
SAMPLES_MAX = 200_000


@dataclass(frozen=True)
class Plan:
    """What to measure."""

    side: str
    dsn: str
    queue: str
    handlers: int
    lists: bool
    warm_up_seconds: float
    seconds: float


class Tally:
    """Jobs done; the other process reads how many, so that it can push as many more."""

    def __init__(self, done: Any) -> None:
        self._done = done
        self.waits: list[float] = []  # seconds from push to done

    def note(self, payloads: Sequence[Any]) -> None:
        now = time.time()
        self._done.value += len(payloads)
        if len(self.waits) < SAMPLES_MAX:
            self.waits += [now - each["at"] for each in payloads]


class Side(Protocol):
    """How one queue is filled and worked off."""

    async def prepare(self) -> None:
        """Make the queue."""

    async def push(self, payloads: list[Any]) -> None:
        """Store messages."""

    async def work(self, plan: Plan, tally: Tally, stop: asyncio.Event) -> None:
        """Do jobs until it is time to stop."""

    async def close(self) -> None:
        """Disconnect."""


class Queen:
    """Queen without a server: ordered by key, `consume` with its defaults."""

    def __init__(self, plan: Plan) -> None:
        self._queen = AsyncQueen(plan.dsn)
        self._queue = self._queen.queue(plan.queue)

    async def prepare(self) -> None:
        await self._queue.pop()

    async def push(self, payloads: list[Any]) -> None:
        await self._queue.push_many([Outgoing(each, partition=f"key-{each['key']}") for each in payloads])

    async def work(self, plan: Plan, tally: Tally, stop: asyncio.Event) -> None:
        async def one(payload: dict) -> None:  # type: ignore[type-arg]
            await asyncio.sleep(WORK_SECONDS)
            tally.note([payload])

        async def several(payloads: list[dict]) -> None:  # type: ignore[type-arg]
            for payload in payloads:
                await asyncio.sleep(WORK_SECONDS)
                tally.note([payload])

        end = Stop()
        source = self._queue.batch(LIST).max_partitions(LIST) if plan.lists else self._queue
        consuming = asyncio.create_task(
            source.consume(several if plan.lists else one, concurrency=plan.handlers, stop=end)
        )
        await stop.wait()
        end.set()
        await consuming

    async def close(self) -> None:
        await self._queen.close()


class Pgmq:
    """PGMQ, which keeps no order: read, work, delete."""

    def __init__(self, plan: Plan) -> None:
        self._dsn = plan.dsn
        self._name = plan.queue

    async def prepare(self) -> None:
        self._pool = await asyncpg.create_pool(self._dsn, min_size=1, max_size=CONNECTIONS_MAX)
        self._queue = PGMQueue(pool=self._pool, init_extension=False)
        if not await self._pool.fetchval("select exists (select from pg_namespace where nspname = 'pgmq')"):
            await self._pool.execute(get_embedded_install_sql())
        await self._queue.create_queue(self._name)

    async def push(self, payloads: list[Any]) -> None:
        await self._queue.send_batch(self._name, payloads)

    async def work(self, plan: Plan, tally: Tally, stop: asyncio.Event) -> None:
        async def loop() -> None:
            while not stop.is_set():
                messages = await self._queue.read_batch(self._name, vt=30, batch_size=LIST if plan.lists else 1)
                if not messages:
                    await asyncio.sleep(POLL_SECONDS)
                    continue
                for each in messages:
                    await asyncio.sleep(WORK_SECONDS)
                    tally.note([each.message])
                await self._queue.delete_batch(self._name, [each.msg_id for each in messages])

        await asyncio.gather(*(loop() for _ in range(plan.handlers)))

    async def close(self) -> None:
        await self._pool.close()


SIDES: dict[str, type[Queen] | type[Pgmq]] = {"queen": Queen, "pgmq": Pgmq}


def payload(key: int) -> dict[str, Any]:
    empty = {"key": key, "at": time.time(), "text": ""}
    return {**empty, "text": "x" * (PAYLOAD_BYTES - len(json.dumps(empty)))}


async def feed(side: Side, done: Any, stop: asyncio.Event) -> None:
    """Push as much as was done, so that so many messages are stored all the time."""
    dice = random.Random(7)
    pushed = 0
    while not stop.is_set():
        room = min(FLUSH, DEPTH + done.value - pushed)
        if room < FLUSH // 10:
            await asyncio.sleep(POLL_SECONDS)
            continue
        await side.push([payload(dice.randrange(KEYS)) for _ in range(room)])
        pushed += room


async def do_jobs(plan: Plan, done: Any, answers: Any) -> None:
    """The process that does the jobs, and measures itself."""
    side = SIDES[plan.side](plan)
    await side.prepare()
    tally, stop = Tally(done), asyncio.Event()
    working = asyncio.create_task(side.work(plan, tally, stop))
    await asyncio.wait([working], timeout=plan.warm_up_seconds)
    tally.waits.clear()
    jobs, began, cpu = done.value, time.perf_counter(), _cpu_seconds()
    await asyncio.wait([working], timeout=plan.seconds)
    jobs, taken, cpu = done.value - jobs, time.perf_counter() - began, _cpu_seconds() - cpu
    waits = sorted(tally.waits)
    stop.set()
    await working
    await side.close()
    answers.send(
        {
            "jobs_per_second": jobs / taken,
            "client_micros": cpu / max(jobs, 1) * 1e6,
            "p50": waits[len(waits) // 2] if waits else None,
            "p99": waits[int(len(waits) * 0.99)] if waits else None,
            "longest": waits[-1] if waits else None,
        }
    )


def work(plan: Plan, done: Any, answers: Any) -> None:
    uvloop.run(do_jobs(plan, done, answers))


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def measure(plan: Plan) -> Any:
    side = SIDES[plan.side](plan)
    await side.prepare()
    context = multiprocessing.get_context("spawn")
    done = context.RawValue("q", 0)
    answers, theirs = context.Pipe(duplex=False)
    stop = asyncio.Event()
    feeding = asyncio.create_task(feed(side, done, stop))
    process = context.Process(target=work, args=(plan, done, theirs))
    process.start()
    theirs.close()
    answer = await asyncio.to_thread(answers.recv)
    stop.set()
    await feeding
    await side.close()
    process.join()
    return answer


def main() -> None:
    side, dsn, handlers, lists, warm_up_seconds, seconds = sys.argv[1:]
    queue = f"jobs_{time.time_ns()}"  # what an earlier run has left is not measured
    plan = Plan(side, dsn, queue, int(handlers), lists == "lists", float(warm_up_seconds), float(seconds))
    print(json.dumps(uvloop.run(measure(plan))))


if __name__ == "__main__":
    main()
