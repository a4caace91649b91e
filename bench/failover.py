"""A primary is killed, and its synchronous standby is promoted: how long until a server answers again."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import httpx

from bench.harness import Bench, Line
from bench.http import Served
from tests.fixtures.replication import replicating
from tests.waits import until

ROUNDS = 5
PUSH_SECONDS_MAX = 2.0
POP_SECONDS_MAX = 3.0
AWAY_SECONDS = 6.0  # between the end of the primary and the promotion: pauses between attempts have grown
DATABASE = "queen"


async def run(bench: Bench) -> None:
    rounds = [await _fail_over(bench) for _ in range(1 if bench.quick else ROUNDS)]
    for what, most, seconds in zip(
        ("201", "pop with messages"), (PUSH_SECONDS_MAX, POP_SECONDS_MAX), zip(*rounds, strict=True), strict=True
    ):
        bench.report(
            Line(
                f"failover: from the promotion to the first {what}",
                f"under {most:.0f} s",
                f"{max(seconds):.2f} s at most",
                max(seconds) < most,
                f"rounds: {', '.join(f'{each:.2f}' for each in seconds)} s; a multi-host DSN, the standby synchronous",
            )
        )


async def _fail_over(bench: Bench) -> tuple[float, float]:
    """Seconds from the call of pg_promote to the first push that is stored, and to the first pop with messages."""
    async with replicating() as replication:
        primary = replication.primary
        await primary.execute(f"create database {DATABASE}")
        standby = await replication.standby(synchronous=True)
        served = Served(
            replication.dsn(DATABASE, primary, standby), bench.seconds, QUEEN_SPOOL="false", QUEEN_WORKERS="1"
        )
        try:
            async with httpx.AsyncClient(base_url=f"http://{served.host}:{served.port}/api/v1", timeout=60) as http:

                async def push() -> bool:
                    body = {"items": [{"queue": "orders", "payload": "x" * 200}]}
                    return (await http.post("/push", json=body)).status_code == 201

                async def pop() -> bool:
                    return (await http.get("/pop/queue/orders", params={"autoAck": "true"})).status_code == 200

                async with asyncio.timeout(60):
                    await _answered(push)
                    await _answered(pop)
                    await primary.stop("kill")
                    calls = [asyncio.create_task(_answered(call)) for call in (push, pop)]
                    await asyncio.sleep(AWAY_SECONDS)
                    promoted = time.perf_counter()
                    await standby.promote()
                    pushed, popped = await asyncio.gather(*calls)
            return pushed - promoted, popped - promoted
        finally:
            served.stop()


async def _answered(call: Callable[[], Awaitable[bool]]) -> float:
    """When a call has succeeded that is repeated until it does."""
    await until("a call succeeds", call)
    return time.perf_counter()
