"""One process of the chaos test: pushes, pops and acknowledges at random until it is killed.

    python -m tests.faults.chaos.worker DSN NAME DIRECTORY SEED [PREDECESSOR]

It repeats what its killed predecessor had pushed with ids and was not answered, as a client with a retry would.
"""

import asyncio
import contextlib
import json
import random
import sys
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg

from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.errors import LeaseGone, NotInLease, Unavailable
from queenmq.model import Ack, Message, Outgoing, PopRequest
from tests.faults.chaos.diary import Diary, unanswered_pushes, value_of

ORDERS, RECEIPTS = "orders", "receipts"
GROUPS = ("billing", "shipping")
PARTITIONS = [f"p{number}" for number in range(50)]
TASKS = 3


class Worker:
    """One task of the process: its own producer, and a consumer of both groups."""

    def __init__(self, name: str, engine: Engine, outbox: Any, diary: Diary, dice: random.Random) -> None:
        self.name = name
        self.engine = engine
        self.outbox = outbox
        self.diary = diary
        self.dice = dice
        self.numbers = count()
        self.pushed: list[list[Any]] = []  # the last push with ids that was answered

    async def run(self) -> None:
        while True:
            await self.act()

    async def act(self) -> None:
        actions = [self.push, self.push_in_transaction, self.push_again, self.consume]
        [action] = self.dice.choices(actions, [30, 4, 3, 63])
        with contextlib.suppress(Unavailable):  # a busy machine; the intent stays without an answer
            await action()

    # -- pushing

    async def finish(self, pushes: list[list[Any]]) -> None:
        """Repeat what a predecessor was not answered; with ids nothing can be stored twice."""
        for messages in pushes:
            if all(id is not None for *_, id in messages):
                with contextlib.suppress(Unavailable):
                    await self.say(messages)

    def messages(self, *, ids: bool) -> list[list[Any]]:
        """Partition, value and transaction id of a few new messages."""
        partitions = self.dice.choices(PARTITIONS, k=self.dice.randint(1, 4))
        values = [f"{self.name}:{next(self.numbers)}:{partition}" for partition in partitions]
        return [[p, value, value if ids else None] for p, value in zip(partitions, values, strict=True)]

    async def push(self) -> None:
        ids = self.dice.random() < 0.5
        messages = self.messages(ids=ids)
        await self.say(messages)
        if ids:
            self.pushed = messages

    async def push_again(self) -> None:
        """What was answered long ago is a duplicate."""
        if self.pushed:
            await self.say(self.pushed)

    async def say(self, messages: list[list[Any]]) -> None:
        call = self.diary.intend("push", messages=messages)
        pushed = await self.engine.push([Outgoing(ORDERS, encoded(value), p, id) for p, value, id in messages])
        self.diary.answer(call, "push", answers=[[each.offset, each.duplicate] for each in pushed])

    async def push_in_transaction(self) -> None:
        """The outbox: answered when it is committed, stored when the upkeep of some process gets to it."""
        [[partition, value, id], *_] = self.messages(ids=False)
        call = self.diary.intend("outbox", messages=[[partition, value, id]])
        await self.outbox.execute("select queen.push($1, $2, $3)", ORDERS, json.dumps(value), partition)
        self.diary.answer(call, "outbox")

    # -- consuming

    async def consume(self) -> None:
        group = self.dice.choice(GROUPS)
        lease_seconds = self.dice.choice([1.0, 1.0, 2.0])
        request = PopRequest(
            queue=ORDERS,
            group=group,
            batch=self.dice.randint(1, 20),
            max_partitions=self.dice.choice([1, 1, 2, 5]),
            lease_seconds=lease_seconds,
            partition=self.dice.choice(PARTITIONS) if self.dice.random() < 0.1 else None,
        )
        call = self.diary.intend("pop", group=group)
        popped = await self.engine.pop(request, wait_seconds=self.dice.choice([0.0, 0.2]))
        self.diary.popped(call, group, popped, lease_seconds)
        if popped.messages:
            actions = [self.complete, self.complete_some, self.judge, self.transact, self.renew, self.release]
            [action] = self.dice.choices([*actions, self.forget], [40, 12, 12, 16, 6, 4, 10])
            with contextlib.suppress(LeaseGone, NotInLease):  # noted where it was raised
                await action(group, list(popped.messages))

    async def complete(self, group: str, messages: list[Message]) -> None:
        await self.ack(group, messages, ["completed"] * len(messages))

    async def complete_some(self, group: str, messages: list[Message]) -> None:
        """In any order; the rest is left to the lease's end."""
        await self.complete(group, self.dice.sample(messages, self.dice.randint(1, len(messages))))

    async def judge(self, group: str, messages: list[Message]) -> None:
        statuses = self.dice.choices(["completed", "failed", "retry", "dlq"], [60, 25, 12, 3], k=len(messages))
        await self.ack(group, messages, statuses)

    async def forget(self, _group: str, _messages: list[Message]) -> None:
        """Nothing is said, and the lease expires."""

    async def renew(self, group: str, messages: list[Message]) -> None:
        lease, seconds = messages[0].lease.id, self.dice.choice([0.5, 1.0, 2.0])
        assert lease is not None
        call = self.diary.intend("renew", lease=str(lease), seconds=seconds)
        try:
            expires_at = await self.engine.renew(lease, seconds)
        except LeaseGone:
            self.diary.answer(call, "renew", expires=None)
            raise
        self.diary.answer(call, "renew", expires=round(expires_at.timestamp() * 1_000_000))
        await self.complete(group, messages)

    async def release(self, _group: str, messages: list[Message]) -> None:
        lease = messages[0].lease.id
        assert lease is not None
        call = self.diary.intend("release", lease=str(lease))
        self.diary.answer(call, "release", released=await self.engine.release(lease))

    async def ack(self, group: str, messages: list[Message], statuses: list[Any]) -> None:
        acks = [Ack.of(message, status) for message, status in zip(messages, statuses, strict=True)]
        said = [[m.lease.partition, m.offset, status] for m, status in zip(messages, statuses, strict=True)]
        call = self.diary.intend("ack", group=group, lease=str(messages[0].lease.id), acks=said)
        answers = await self.engine.ack(acks)
        self.diary.answer(call, "ack", accepted=[answer.accepted for answer in answers])

    async def transact(self, group: str, messages: list[Message]) -> None:
        """Complete all of it and write a receipt for each, or neither."""
        said = [[m.lease.partition, m.offset, "completed"] for m in messages]
        name = f"{self.name}:{next(self.numbers)}"
        receipts = [[m.lease.partition, f"{name}|{group}|{value_of(m)}"] for m in messages]
        lease = str(messages[0].lease.id)
        call = self.diary.intend("transact", group=group, lease=lease, acks=said, receipts=receipts)
        try:
            await self.engine.transaction(
                [Ack.of(message) for message in messages],
                [Outgoing(RECEIPTS, encoded(value), partition) for partition, value in receipts],
            )
        except (LeaseGone, NotInLease):
            self.diary.answer(call, "transact", done=False)
            raise
        self.diary.answer(call, "transact", done=True)


def encoded(value: str) -> bytes:
    return json.dumps(value).encode()


async def main(dsn: str, name: str, directory: Path, seed: int, predecessor: str | None = None) -> None:
    diary, dice = Diary(directory / name, name), random.Random(seed)
    async with Engine(dsn, Settings(pool_size_max=6)) as engine, asyncio.TaskGroup() as tasks:
        for number in range(TASKS):
            worker = Worker(f"{name}.{number}", engine, await asyncpg.connect(dsn), diary, dice)
            if number == 0 and predecessor is not None:
                await worker.finish(unanswered_pushes(directory / predecessor))
            tasks.create_task(worker.run())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:]))
