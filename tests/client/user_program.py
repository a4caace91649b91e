"""A program as users write it; test_typing checks it with mypy --strict, and what mypy sees in it."""

from dataclasses import dataclass
from typing import assert_type

import sqlalchemy as sa
from psycopg import AsyncConnection, Connection
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from sqlalchemy import orm

from queenmq import AsyncMessage, AsyncQueen, Message, Outgoing, Pushed, Queen, QueenError, Stop
from queenmq.client.transaction import AsyncTransaction


@dataclass
class Order:
    id: int


def blocking() -> int:
    with Queen("http://127.0.0.1:6632", token="secret") as queen:
        orders = queen.queue("orders").partition("customer-7")
        pushed = orders.push({"id": 1}, transaction_id="order-1")
        assert_type(pushed.id, str | None)
        orders.push_many([Order(2), Outgoing(3, trace_id="…")])
        for message in queen.queue("orders").group("billing").subscription_mode("new").batch(100).wait().pop():
            assert_type(message, Message)
            assert_type(message.payload_as(Order).id, int)
            message.renew(30)
            queen.ack(message)
            assert_type(message.release(), bool)
        with queen.transaction() as transaction:
            transaction.push("mail", {"to": "ann"})
        settings = queen.admin.configure("orders", lease_seconds=60, retention_enabled=True)
        assert_type(settings.lease_seconds, int)
        for record in queen.queue("orders").tail():
            assert_type(record.offset, int)
        several = queen.queue("orders").push([{"data": 1}, Order(2)], capacity=True)
        assert_type([each.queue_depth for each in several], list[int | None])
        assert_type(queen.queue("orders").push(Outgoing([1, 2])).id, str | None)
        created = queen.queue("orders").namespace("shop").task("mail").create(lease_seconds=60)
        assert_type(created.lease_seconds, int)
        assert_type(queen.queue().namespace("shop").pop()[0].attempt, int)
        return queen.dead_letters.redrive(queue="orders")


async def asynchronous() -> None:
    async with AsyncQueen() as queen:
        messages = await queen.namespace("shop").task("mail").pop()
        assert_type(messages, list[AsyncMessage])
        try:
            await queen.ack_many(messages, failed="no paper")
        except QueenError as error:
            assert_type(error.code, str)
        async for record in queen.queue("orders").read():
            assert_type(record.partition, str)


def consuming(queen: Queen) -> None:
    @queen.consumer("orders", group="billing", batch=10, concurrency=8)
    def bill(order: Order, message: Message) -> None:
        queen.traces.record(message, {"total": order.id})

    assert_type(bill(Order(1), queen.queue("orders").pop()[0]), None)  # what is decorated keeps its type
    stop = Stop()
    queen.queue("orders").lease_seconds(10).auto_ack(False).consume(bill, stop=stop, grace_seconds=5)
    queen.run(stop=stop)


def consuming_with_a_pool(queen: Queen, pool: ConnectionPool, sessions: orm.sessionmaker[orm.Session]) -> None:
    @queen.consumer("orders", batch=10, connection=pool)
    def bill(orders: list[Order], messages: list[Message], connection: Connection) -> None:
        connection.execute("select 1")
        queen.push_in(connection, "mail", [order.id for order in orders])

    def remind(order: Order, session: orm.Session, message: Message) -> None:
        queen.push_in(session, "mail", order.id, partition=message.partition)

    queen.queue("orders").consume(remind, connection=sessions)
    queen.queue("orders").consume(lambda message: message.renew() and None)


async def consuming_with_asyncio(queen: AsyncQueen, pool: AsyncConnectionPool, engine: sa.Engine) -> None:
    async def bill(order: Order, message: AsyncMessage) -> None:
        await message.renew()

    def remind(order: Order) -> None:
        order.id += 1

    await queen.queue("orders").consume(bill)
    await queen.queue("orders").consume(remind)  # in a thread

    @queen.consumer("orders", connection=pool)
    async def charge(order: Order, connection: AsyncConnection) -> None:
        await queen.push_in(connection, "mail", order.id)

    @queen.consumer("orders", connection=engine)
    def collect(order: Order, connection: sa.Connection) -> None:
        connection.execute(sa.text("select 1"))


async def producing(queen: AsyncQueen, connection: AsyncConnection) -> None:
    reports: list[str] = []
    async with queen.producer(
        batch_messages=100, on_delivery=lambda told: reports.append(told.message.queue)
    ) as sender:
        receipt = await sender.push("orders", Order(1), partition="ann", headers={"content-type": "order"})
        assert_type(await receipt.delivered(), Pushed)
    await queen.push_in(connection, "orders", {"id": 1})
    async with queen.transaction() as transaction:
        for message in await queen.queue("orders").pop():
            assert_type(transaction.ack(message).push("mail", message.payload), AsyncTransaction)
    fetched = await queen.queue("orders").fetch({"ann": 0})
    assert_type([record.payload_as(Order) for record in fetched["ann"].records], list[Order])
    assert_type(await queen.groups.seek("billing", "orders", to="beginning"), int)
    assert_type([step.queue for step in await queen.traces.follow("…")], list[str])


def mistakes(queen: Queen) -> None:
    queen.queue("orders").consume("bill")  # type: ignore[call-overload]
    queen.producer(linger_minutes=1)  # type: ignore[call-arg]
    queen.groups.seek("billing", "orders", to="middle")  # type: ignore[arg-type]
    queen.queue("orders").subscription_mode("never")  # type: ignore[arg-type]
    queen.queue("orders").batch("ten")  # type: ignore[arg-type]
    queen.namespace("shop").push({})  # type: ignore[attr-defined]
    queen.admin.configure("orders", lease_minutes=1)  # type: ignore[call-arg]
    queen.ack(7)  # type: ignore[arg-type]
    queen.queue().push(1)  # type: ignore[attr-defined]


def wrong_handlers(queen: Queen, pool: ConnectionPool) -> None:
    async def waits(order: Order) -> None: ...

    def takes_nothing() -> None: ...

    def takes_three(order: Order, message: Message, more: int) -> None: ...

    def takes_one(order: Order) -> None: ...

    def answers(order: Order) -> int:
        return order.id

    queen.queue("orders").consume(waits)  # type: ignore[arg-type]
    queen.queue("orders").consume(takes_nothing)  # type: ignore[arg-type]
    queen.queue("orders").consume(takes_three)  # type: ignore[arg-type]
    queen.queue("orders").consume(answers)  # type: ignore[arg-type]
    queen.queue("orders").consume(takes_one, connection=pool)  # type: ignore[arg-type]
    queen.consumer("orders")(waits)  # type: ignore[type-var]
    queen.consumer("orders")(takes_nothing)  # type: ignore[type-var]
    queen.consumer("orders", connection=pool)(takes_one)  # type: ignore[type-var]


def wrong_connections(queen: Queen, pool: ConnectionPool, other: AsyncConnectionPool, mine: Connection) -> None:
    def handler(order: Order, connection: Connection) -> None: ...

    queen.queue("orders").consume(handler, connection="postgresql://…")  # type: ignore[call-overload]
    queen.queue("orders").consume(handler, connection=other)  # type: ignore[call-overload]
    queen.queue("orders").consume(handler, connection=mine)  # type: ignore[call-overload]
    queen.consumer("orders", connection=other)(handler)  # type: ignore[call-overload]
    queen.push_in(pool, "orders", 1)  # type: ignore[arg-type]
    queen.push_in("postgresql://…", "orders", 1)  # type: ignore[arg-type]


async def wrong_with_asyncio(queen: AsyncQueen, pool: ConnectionPool, other: AsyncConnectionPool) -> None:
    async def waits(order: Order, connection: AsyncConnection) -> None: ...

    def blocks(order: Order, connection: Connection) -> None: ...

    await queen.queue("orders").consume(waits, connection=pool)  # type: ignore[arg-type]
    await queen.queue("orders").consume(blocks, connection=other)  # type: ignore[arg-type]
    await queen.queue("orders").consume(waits, connection="postgresql://…")  # type: ignore[call-overload]
    await queen.push_in(pool, "orders", 1)  # type: ignore[arg-type]
