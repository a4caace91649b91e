"""One process of the chaos test: pushes, pops and acknowledges at random until it is killed.

Before every call it writes down what it is about to do, and afterwards what it was answered, one JSON line each. The
lines are what is checked in the end, not the queue's own opinion.
"""

import asyncio
import json
import os
import random
import sys
import time
from itertools import count

import msgspec

from queenmq.config import Settings
from queenmq.engine import Engine
from queenmq.errors import QueenError
from queenmq.model import Ack, Message, Outgoing, PopRequest

PARTITIONS = 50
GROUPS = ("a", "b")
LEASE_SECONDS = 1.0


class Worker:
    """Rolls the dice and keeps the diary."""

    def __init__(self, engine: Engine, name: str, diary: int, dice: random.Random) -> None:
        self.engine = engine
        self.name = name
        self.diary = diary
        self.dice = dice
        self.numbers = count()

    def note(self, what: str, **facts: object) -> None:
        line = {"what": what, "worker": self.name, "at": time.monotonic_ns(), "clock": time.time(), **facts}
        os.write(self.diary, json.dumps(line).encode() + b"\n")

    async def push(self) -> None:
        messages = []
        for _ in range(self.dice.randint(1, 5)):
            partition, value = f"p{self.dice.randrange(PARTITIONS)}", f"{self.name}-{next(self.numbers)}"
            messages.append(Outgoing("orders", json.dumps(value).encode(), partition, self.dice.choice([None, value])))
        values = [[message.partition, json.loads(message.payload)] for message in messages]
        self.note("push?", values=values)
        pushed = await self.engine.push(messages)
        self.note("push", values=[[*value, each.offset] for value, each in zip(values, pushed, strict=True)])

    async def consume(self) -> None:
        group = self.dice.choice(GROUPS)
        request = PopRequest(
            queue="orders",
            group=group,
            batch=self.dice.randint(1, 10),
            max_partitions=self.dice.randint(1, 3),
            lease_seconds=LEASE_SECONDS,
        )
        self.note("pop?", group=group)
        asked = time.monotonic_ns()
        popped = await self.engine.pop(request, wait_seconds=self.dice.choice([0.0, 0.2]))
        if not popped.messages:
            return
        lease = str(popped.leases[0].id)
        expires = popped.leases[0].expires_at
        assert expires is not None
        delivered = [[m.lease.partition, m.offset, msgspec.json.decode(m.payload)] for m in popped.messages]
        self.note("pop", group=group, lease=lease, asked=asked, expires=expires.timestamp(), messages=delivered)
        await self.answer(group, lease, list(popped.messages))

    async def answer(self, group: str, lease: str, messages: list[Message]) -> None:
        match self.dice.randrange(10):
            case 0:
                return  # forgotten: the lease expires
            case 1 | 2:
                await self.transact(group, lease, messages)
                return
            case 3:
                self.note("renew?", lease=lease)
                lease_id = messages[0].lease.id
                assert lease_id is not None
                expires = await self.engine.renew(lease_id, LEASE_SECONDS)
                self.note("renew", lease=lease, expires=expires.timestamp())
            case 4:
                messages = messages[::-1][: self.dice.randint(1, len(messages))]
        acks = [Ack.of(m, self.dice.choice(["completed"] * 9 + ["failed", "retry"]), "chaos") for m in messages]
        said = [[m.lease.partition, m.offset, ack.status] for m, ack in zip(messages, acks, strict=True)]
        self.note("ack?", group=group, lease=lease, acks=said)
        answers = await self.engine.ack(acks)
        accepted = [[*each, answer.accepted] for each, answer in zip(said, answers, strict=True)]
        self.note("ack", group=group, lease=lease, acks=accepted)

    async def transact(self, group: str, lease: str, messages: list[Message]) -> None:
        """Complete the batch and push one message for each, or nothing of it."""
        derived = [[m.lease.partition, f"{group}:{msgspec.json.decode(m.payload)}"] for m in messages]
        said = [[m.lease.partition, m.offset, "completed"] for m in messages]
        self.note("ack?", group=group, lease=lease, acks=said)
        pushes = [Outgoing("derived", json.dumps(value).encode(), partition) for partition, value in derived]
        await self.engine.transaction([Ack.of(m) for m in messages], pushes)
        self.note("ack", group=group, lease=lease, acks=[[*each, True] for each in said])
        self.note("derived", values=derived)


async def main(dsn: str, name: str, path: str, seed: int) -> None:
    diary = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    async with Engine(dsn, Settings(pool_size_max=4, poll_interval_min_ms=50)) as engine:
        worker = Worker(engine, name, diary, random.Random(seed))
        while True:
            try:
                await (worker.push() if worker.dice.random() < 0.4 else worker.consume())
            except QueenError as error:  # a lease that expired meanwhile, a deadlock that was not worth it
                worker.note("error", code=error.code)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
