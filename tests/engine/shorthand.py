"""What most of these tests say: messages from values, values from messages, and waiting without a clock."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

from queenmq.engine import Engine
from queenmq.engine.pop.popper import Popped
from queenmq.model import DEFAULT_PARTITION, Ack, Acked, AckStatus, Outgoing, PopRequest
from tests.waits import Deadline

HOUR_MS = 3_600_000  # as a poll interval: the fallback poll is not what wakes anybody


def messages(
    queue: str, *values: Any, partition: str = DEFAULT_PARTITION, ids: Sequence[str | None] = (), **others: Any
) -> list[Outgoing]:
    """One message per value."""
    given = ids or [None] * len(values)
    return [
        Outgoing(queue, json.dumps(value).encode(), partition, id, **others)
        for value, id in zip(values, given, strict=True)
    ]


def values(popped: Popped) -> list[Any]:
    return [json.loads(bytes(message.payload)) for message in popped.messages]


def lease_id(popped: Popped) -> UUID:
    [id] = {lease.id for lease in popped.leases}
    assert id is not None
    return id


async def pop(engine: Engine, queue: str | None = None, wait_seconds: float = 0.0, **request: Any) -> Popped:
    return await engine.pop(PopRequest(queue=queue, **request), wait_seconds)


async def ack(engine: Engine, popped: Popped, status: AckStatus = "completed", error: str | None = None) -> list[Acked]:
    return await engine.ack([Ack.of(message, status, error) for message in popped.messages])


async def until(holds: Callable[[], bool]) -> None:
    """Let everybody else run until something holds."""
    turn, deadline = asyncio.Event(), Deadline(holds)
    while not holds():
        deadline.check()
        asyncio.get_running_loop().call_soon(turn.set)
        await turn.wait()
        turn.clear()


async def until_asked(asks: Callable[[], Awaitable[Any]]) -> None:
    """Ask again and again, without a pause, until the answer is yes."""
    deadline = Deadline(asks)
    while not await asks():
        deadline.check()


async def most_blocked(connection: Any, at_least: int) -> int:
    """Wait until so many calls wait for a lock; answers how many there are at most."""

    async def blocked() -> int:
        return int(await connection.fetchval("select count(*) from pg_locks where not granted"))

    deadline = Deadline(f"{at_least} calls wait for a lock")
    while await blocked() < at_least:
        deadline.check()
    return max([await blocked() for _ in range(50)])


async def parked(engine: Engine, polls: int = 1) -> None:
    """Until so many polls wait."""
    await until(lambda: engine.waiting.parked == polls)


async def push_silently(connection: Any, partition_id: int, *values: Any) -> None:
    """Push as somebody does who rings no bell."""
    await connection.execute(
        "select * from queen.push_segments(array[$1::bigint], array[$2::int], array[$3::bytea])",
        partition_id,
        len(values),
        json.dumps(values).encode(),
    )


async def push_together(engine: Engine, connection: Any, *pushes: Sequence[Outgoing]) -> list[Any]:
    """Pushes that share one call: they gather while others are held up. Answers and errors in their order."""
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("lock table queen.partition_lookup in share mode")
    before = engine.pusher.batcher.requests
    calls = engine._settings.push_calls_max
    blockers = []
    for n in range(calls):
        blockers.append(asyncio.create_task(engine.push(messages("blocked", n, partition=str(n)))))
        await until(lambda: len(engine.pusher.batcher._running) == len(blockers))
        await until(lambda: not engine.pusher.batcher._waiting)
    together = [asyncio.create_task(engine.push(push)) for push in pushes]
    await until(lambda: engine.pusher.batcher.requests == before + calls + len(pushes))
    await transaction.rollback()
    answers = await asyncio.gather(*together, return_exceptions=True)
    await asyncio.gather(*blockers)
    return answers
