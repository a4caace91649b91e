"""A program as users write it; test_typing checks it with mypy --strict, and what mypy sees in it."""

from dataclasses import dataclass
from typing import assert_type

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


async def producing(queen: AsyncQueen, connection: object) -> None:
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
    queen.queue("orders").consume("bill")  # type: ignore[arg-type]
    queen.producer(linger_minutes=1)  # type: ignore[call-arg]
    queen.groups.seek("billing", "orders", to="middle")  # type: ignore[arg-type]
    queen.queue("orders").subscription_mode("never")  # type: ignore[arg-type]
    queen.queue("orders").batch("ten")  # type: ignore[arg-type]
    queen.namespace("shop").push({})  # type: ignore[attr-defined]
    queen.admin.configure("orders", lease_minutes=1)  # type: ignore[call-arg]
    queen.ack(7)  # type: ignore[arg-type]
