"""A program as users write it; test_typing checks it with mypy --strict, and what mypy sees in it."""

from dataclasses import dataclass
from typing import assert_type

from queenmq import AsyncMessage, AsyncQueen, Message, Outgoing, Queen, QueenError


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


def mistakes(queen: Queen) -> None:
    queen.queue("orders").subscription_mode("never")  # type: ignore[arg-type]
    queen.queue("orders").batch("ten")  # type: ignore[arg-type]
    queen.namespace("shop").push({})  # type: ignore[attr-defined]
    queen.admin.configure("orders", lease_minutes=1)  # type: ignore[call-arg]
    queen.ack(7)  # type: ignore[arg-type]
