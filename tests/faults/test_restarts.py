"""PostgreSQL goes and comes back, politely or not: what was answered is there, nothing is there twice."""

import asyncio
import itertools
import json
import time

import asyncpg
import pytest

from queenmq.errors import DatabaseUnavailable
from queenmq.model import Ack, Outgoing, PopRequest
from tests.books import assert_the_books_balance
from tests.faults.log import stored
from tests.faults.outage import start, stop
from tests.waits import until

ORDERS = PopRequest(queue="orders", batch=10, lease_seconds=2)
OUTAGE_SECONDS_MAX = 30
PARTITIONS = ("ann", "bob", "cid")


class Traffic:
    """Producers and consumers of one engine, and what they were told."""

    def __init__(self, engine):
        self.engine = engine
        self.answered = {}  # value -> partition, offset
        self.unanswered = set()
        self.completed = {}  # partition, offset -> when the answer came
        self.deliveries = []  # when asked, partition, offset, value
        self.refusals = 0
        self._progress = asyncio.Event()
        self._stopping = False

    async def until(self, pushes, acks):
        async with asyncio.timeout(60):
            while len(self.answered) < pushes or len(self.completed) < acks:
                self._progress.clear()
                await self._progress.wait()

    async def until_refused(self):
        """Wait until somebody was told that PostgreSQL is away."""
        refusals = self.refusals
        async with asyncio.timeout(OUTAGE_SECONDS_MAX):
            while self.refusals == refusals:
                self._progress.clear()
                await self._progress.wait()

    async def run(self, work):
        """Do it as long as nobody says stop; what PostgreSQL refuses while it is away is tried again."""
        while not self._stopping:
            try:
                await work()
            except DatabaseUnavailable:
                self.refusals += 1
            self._progress.set()

    async def stop(self, tasks):
        self._stopping = True
        async with asyncio.timeout(60):
            await asyncio.gather(*tasks)

    def producer(self, name, *, with_ids):
        """Pushes one message after the other; with ids it may, and does, repeat what was not answered."""
        numbers, left = itertools.count(), []

        async def work():
            value = left.pop() if left else f"{name}-{next(numbers)}"
            partition = PARTITIONS[hash(value) % 3]
            try:
                message = Outgoing("orders", json.dumps(value).encode(), partition, value if with_ids else None)
                [pushed] = await self.engine.push([message])
            except DatabaseUnavailable:
                if with_ids:
                    left.append(value)
                else:
                    self.unanswered.add(value)
                raise
            self.answered[value] = (partition, pushed.offset)

        return asyncio.create_task(self.run(work))

    def consumer(self):
        return asyncio.create_task(self.run(self.consume))

    async def consume(self):
        asked = time.monotonic()
        popped = await self.engine.pop(ORDERS, wait_seconds=0.5)
        self.deliveries += [
            (asked, message.lease.partition, message.offset, json.loads(bytes(message.payload)))
            for message in popped.messages
        ]
        answers = await self.engine.ack([Ack.of(message) for message in popped.messages])
        for message, answer in zip(popped.messages, answers, strict=True):
            if answer.accepted:
                self.completed.setdefault((message.lease.partition, message.offset), time.monotonic())


@pytest.mark.parametrize("how", ["fast", "immediate", "kill"])
async def test_a_restart_in_the_middle_of_traffic(own_postgres, open_engine, how):
    dsn = await own_postgres.create_database("queen")
    engine = await open_engine(dsn, upkeep=True, poll_interval_min_ms=50, poll_interval_max_ms=200)
    traffic = Traffic(engine)
    tasks = [traffic.producer("a", with_ids=True), traffic.producer("b", with_ids=True)]
    tasks += [traffic.producer("c", with_ids=False), traffic.consumer(), traffic.consumer()]
    for _ in range(2):
        await traffic.until(len(traffic.answered) + 30, len(traffic.completed) + 30)
        await stop(own_postgres, how)
        await traffic.until_refused()
        await start(own_postgres)
    await traffic.until(len(traffic.answered) + 30, len(traffic.completed) + 30)
    await traffic.stop(tasks)

    connection = await asyncpg.connect(dsn)
    try:
        log = {partition: values for (_, partition), values in (await stored(connection)).items()}
        await drain(traffic, connection)
        await assert_the_books_balance(connection, await connection.fetchval("select clock_timestamp()"))
    finally:
        await connection.close()

    everything = [value for values in log.values() for value in values]
    assert len(everything) == len(set(everything)), "nothing is there twice"
    assert set(everything) <= traffic.answered.keys() | traffic.unanswered
    for value, (partition, offset) in traffic.answered.items():
        assert log[partition][offset] == value
    for asked, partition, offset, value in traffic.deliveries:
        assert log[partition][offset] == value
        assert asked < traffic.completed.get((partition, offset), float("inf")), "nothing completed comes back"
    assert {value for *_, value in traffic.deliveries} == set(everything)


async def drain(traffic, connection):
    """Pop and complete until every group has read everything."""
    async with asyncio.timeout(30):
        while await connection.fetchval("select sum(pending + leased) from queen.ledger"):
            await traffic.consume()


async def test_requests_during_an_outage_are_refused_soon_and_later_ones_work(own_postgres, open_engine):
    engine = await open_engine(await own_postgres.create_database("queen"), upkeep=True)
    await engine.push([Outgoing("orders", b"1"), Outgoing("orders", b"2", transaction_id="two")])
    popped = await engine.pop(ORDERS)
    await stop(own_postgres, "fast")
    calls = {
        "push": lambda: engine.push([Outgoing("orders", b"3")]),
        "push with an id": lambda: engine.push([Outgoing("orders", b"3", transaction_id="three")]),
        "push to a new queue": lambda: engine.push([Outgoing("others", b"3")]),
        "pop": lambda: engine.pop(ORDERS),
        "poll": lambda: engine.pop(ORDERS, wait_seconds=0.1),
        "ack": lambda: engine.ack([Ack.of(message) for message in popped.messages]),
        "renew": lambda: engine.renew(popped.leases[0].id, 60),
        "release": lambda: engine.release(popped.leases[0].id),
        "transaction": lambda: engine.transaction(messages=[Outgoing("orders", b"3")]),
        "list": lambda: engine.admin.list_messages("orders"),
    }
    for call in calls.values():
        with pytest.raises(DatabaseUnavailable):
            await asyncio.wait_for(call(), OUTAGE_SECONDS_MAX)
    await start(own_postgres)
    for name in calls.keys() - {"renew", "release"}:  # the lease may have ended by now
        assert await asyncio.wait_for(calls[name](), OUTAGE_SECONDS_MAX)


async def test_a_poll_that_waits_through_a_restart_is_answered_after_it(own_postgres, open_engine):
    engine = await open_engine(await own_postgres.create_database("queen"))
    await engine.push([Outgoing("orders", b"1")])
    popped = await engine.pop(ORDERS)
    await engine.ack([Ack.of(message) for message in popped.messages])
    poll = asyncio.create_task(engine.pop(ORDERS, wait_seconds=60))
    await until("the poll is parked", lambda: engine.waiting.parked)
    await stop(own_postgres, "fast")
    await start(own_postgres)
    await engine.push([Outgoing("orders", b"2")])
    assert [bytes(message.payload) for message in (await poll).messages] == [b"2"]
