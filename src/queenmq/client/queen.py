"""Queen: the front door of the SDK."""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, overload
from uuid import UUID

from queenmq.api.call import Call
from queenmq.api.system import Ping
from queenmq.client import telemetry
from queenmq.client.admin import AsyncAdmin
from queenmq.client.answers import Acked
from queenmq.client.buffer import OnDelivery
from queenmq.client.calls import Ack, Acknowledge
from queenmq.client.connections import execute_in
from queenmq.client.consumer import GRACE_SECONDS, Consumer
from queenmq.client.dead_letters import AsyncDeadLetters
from queenmq.client.dispatcher import consume
from queenmq.client.exactly_once import PUSH, push_arguments
from queenmq.client.groups import AsyncGroups
from queenmq.client.lane import Limits
from queenmq.client.message import AsyncMessage
from queenmq.client.messages import AsyncMessages
from queenmq.client.outgoing import Outgoing, message
from queenmq.client.producer import AsyncProducer
from queenmq.client.queue import AsyncQueue
from queenmq.client.signatures import (
    AsyncConnection,
    AsyncHandler,
    AsyncHandlerWithin,
    AsyncPool,
    HandlerWithin,
    OnAck,
    Pool,
)
from queenmq.client.source import AsyncSource
from queenmq.client.stop import Stop, stopping
from queenmq.client.traces import AsyncTraces
from queenmq.client.transaction import AsyncTransaction
from queenmq.client.transports import AsyncTransport, find_address, local_address, open_transport, run_with
from queenmq.config import Settings, masked
from queenmq.errors import LeaseGone
from queenmq.model import DEFAULT_PARTITION, QUEUE_MODE, AckStatus, Headers, PopRequest

A = TypeVar("A")
H = TypeVar("H", bound=AsyncHandler[AsyncMessage])
W = TypeVar("W", bound=AsyncHandlerWithin[AsyncMessage])  # asyncio only
P = TypeVar("P", bound=HandlerWithin[AsyncMessage])
F = TypeVar("F", bound=Callable[..., object])


class AsyncQueen:
    """Queues on a server, or straight on PostgreSQL.

    async with AsyncQueen("http://a:6632,http://b:6632") as queen:      # or "postgresql://…", or nothing: QUEEN_URL
        await queen.queue("orders").partition("customer-7").push({"id": 1})
        for message in await queen.queue("orders").group("billing").batch(100).wait().pop():
            await queen.ack(message)
    """

    def __init__(
        self, address: str | None = None, *, token: str | None = None, settings: Settings | None = None
    ) -> None:
        settings = settings or Settings.load()
        self._address = find_address(address, settings)
        self._transport: AsyncTransport = open_transport(self._address, token, settings)
        self._consumers: list[Consumer] = []

    @classmethod
    def local(cls, *, settings: Settings | None = None) -> Self:
        """Straight to the PostgreSQL that a server on this machine uses: that of QUEEN_DSN, or the private one.

        No server answers these calls, but the private PostgreSQL runs only while `queen serve` does.
        """
        settings = settings or Settings.load()
        return cls(local_address(settings), settings=settings)

    async def call(self, call: Call[A]) -> A:
        """Send one operation; every method of this package does so in the end."""
        with telemetry.calling(call) as traced:
            return await self._transport.call(traced)

    async def close(self) -> None:
        """Finish what was begun, and disconnect."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        await self._transport.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {masked(self._address)}>"

    # -- where messages go to and come from

    @overload
    def queue(self, name: None = None) -> AsyncSource: ...
    @overload
    def queue(self, name: str) -> AsyncQueue: ...
    def queue(self, name: str | None = None) -> AsyncSource:
        """A queue; it begins to exist with the first push. Without a name: any, of a namespace or task said next."""
        request = PopRequest(queue=name)
        return AsyncSource(self, request) if name is None else AsyncQueue(self, request)

    def namespace(self, name: str) -> AsyncSource:
        """Any queue of a namespace, to pop from."""
        return AsyncSource(self, PopRequest(namespace=name))

    def task(self, name: str) -> AsyncSource:
        """Any queue of a task, to pop from."""
        return AsyncSource(self, PopRequest(task=name))

    # -- looking after them

    @property
    def admin(self) -> AsyncAdmin:
        """Configure, describe, clear and delete queues; the installation in numbers; maintenance."""
        return AsyncAdmin(self)

    @property
    def groups(self) -> AsyncGroups:
        """Where groups stand; move them, forget them."""
        return AsyncGroups(self)

    @property
    def messages(self) -> AsyncMessages:
        """Messages as they are stored."""
        return AsyncMessages(self)

    @property
    def dead_letters(self) -> AsyncDeadLetters:
        """Messages that groups gave up."""
        return AsyncDeadLetters(self)

    @property
    def traces(self) -> AsyncTraces:
        """The way of a trace id through the queues, and notes about messages."""
        return AsyncTraces(self)

    async def ping(self) -> None:
        """Whether calls can be served; raises Unavailable when not."""
        await self.call(Ping())

    # -- what becomes of messages

    async def ack(self, message: AsyncMessage, status: AckStatus = "completed", error: str | None = None) -> Acked:
        """Say what became of a message: `completed`, `failed`, `retry` or `dlq`. Raises LeaseGone."""
        [acked] = await self.call(Acknowledge([Ack(message.delivery, status, error)]))
        if not acked.success:
            raise LeaseGone(acked.error)
        return acked

    async def ack_many(self, messages: Sequence[AsyncMessage], *, failed: str | None = None) -> list[Acked]:
        """Say of several messages that they are done, or that they failed and why; each gets its own answer."""
        status: AckStatus = "completed" if failed is None else "failed"
        return await self.call(Acknowledge([Ack(message.delivery, status, failed) for message in messages]))

    async def release(self, message: AsyncMessage) -> bool:
        """Give back a message, and all that came with it; False if its lease is gone."""
        return await message.release()

    async def release_many(self, messages: Sequence[AsyncMessage]) -> list[bool]:
        """Give back several messages, each with all that came with it; each gets its own answer."""
        released: dict[str, bool] = {}
        for each in messages:
            if each.lease_id not in released:
                released[each.lease_id] = await each.release()
        return [released[each.lease_id] for each in messages]

    def transaction(self) -> AsyncTransaction:
        """Acks and pushes that happen together or not at all."""
        return AsyncTransaction(self)

    def producer(
        self,
        *,
        buffer_messages: int = 10_000,
        buffer_bytes: int = 64 * 1024**2,
        batch_messages: int = 500,
        batch_bytes: int = 1024**2,
        linger_seconds: float = 0.005,
        on_delivery: OnDelivery | None = None,
    ) -> AsyncProducer:
        """A producer that sends messages together: `async with queen.producer() as producer`.

        It keeps up to `buffer_messages` and `buffer_bytes`, and sends `batch_messages` or `batch_bytes` at once, or
        what there is after `linger_seconds`. `on_delivery` is told what became of each message.
        """
        limits = Limits(
            buffer_messages=buffer_messages,
            buffer_bytes=buffer_bytes,
            batch_messages=batch_messages,
            batch_bytes=batch_bytes,
            linger_seconds=linger_seconds,
        )
        return AsyncProducer(self._transport, limits, on_delivery)

    # -- with the application's own data

    async def push_in(
        self,
        connection: AsyncConnection,
        queue: str,
        payload: Any,
        *,
        partition: str = DEFAULT_PARTITION,
        transaction_id: str | None = None,
        trace_id: UUID | str | None = None,
        headers: Headers | None = None,
    ) -> None:
        """Push in the transaction of your own connection (asyncpg, psycopg 3, SQLAlchemy): stored when that commits."""
        outgoing = message(queue, partition, Outgoing(payload, transaction_id, trace_id, headers=headers))
        with telemetry.pushing([outgoing]) as [traced]:
            await execute_in(connection, PUSH, push_arguments(traced))

    # -- consuming

    @overload
    def consumer(
        self,
        queue: str,
        *,
        group: str = QUEUE_MODE,
        batch: int = 1,
        concurrency: int = 1,
        connection: None = None,
        grace_seconds: float = GRACE_SECONDS,
        on_ack: OnAck[AsyncMessage] | None = None,
    ) -> Callable[[H], H]: ...
    @overload  # asyncio only
    def consumer(
        self,
        queue: str,
        *,
        group: str = QUEUE_MODE,
        batch: int = 1,
        concurrency: int = 1,
        connection: AsyncPool,
        grace_seconds: float = GRACE_SECONDS,
        on_ack: OnAck[AsyncMessage] | None = None,
    ) -> Callable[[W], W]: ...
    @overload
    def consumer(
        self,
        queue: str,
        *,
        group: str = QUEUE_MODE,
        batch: int = 1,
        concurrency: int = 1,
        connection: Pool,
        grace_seconds: float = GRACE_SECONDS,
        on_ack: OnAck[AsyncMessage] | None = None,
    ) -> Callable[[P], P]: ...
    def consumer(
        self,
        queue: str,
        *,
        group: str = QUEUE_MODE,
        batch: int = 1,
        concurrency: int = 1,
        connection: object | None = None,
        grace_seconds: float = GRACE_SECONDS,
        on_ack: OnAck[AsyncMessage] | None = None,
    ) -> Callable[[F], F]:
        """Have `run` call a function with what is pushed: `@queen.consumer("orders", group="billing")`."""
        request = PopRequest(queue=queue, group=group, batch=batch)

        def register(handler: F) -> F:
            self._consumers.append(
                Consumer(
                    handler,
                    request,
                    AsyncMessage,
                    self,
                    concurrency=concurrency,
                    connection=connection,
                    grace_seconds=grace_seconds,
                    on_ack=on_ack,
                )
            )
            return handler

        return register

    async def run(self, consumers: Sequence[Consumer] | None = None, *, stop: Stop | None = None) -> None:
        """Run consumers, by default those made with `consumer`, until SIGTERM or SIGINT, or until `stop` is set."""
        with stopping(stop) as end:
            await run_with(self._transport, lambda transport: consume(consumers or self._consumers, end, transport))
