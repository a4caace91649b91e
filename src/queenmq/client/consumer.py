"""Consume: pop, call a handler, acknowledge, again and again, until told to stop.

A consumer is `concurrency` loops, each with one lease at a time, so a partition is in one pair of hands and its order
holds. While a handler works its lease is renewed; what it finishes is acknowledged at once. When it raises, the message
has failed: it is delivered again after a pause, and what came after it in its partition waits for it.
"""

import asyncio
import contextvars
import inspect
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from msgspec.structs import replace

from queenmq.client import telemetry
from queenmq.client.answers import Acked, Delivery
from queenmq.client.calls import Ack, Pop
from queenmq.client.connections import check_pool
from queenmq.client.exactly_once import handle, handle_blocking
from queenmq.client.handler import GiveUp, Handler
from queenmq.client.lease import HeldLease, is_worth_waiting, pause_seconds
from queenmq.client.signatures import OnAck
from queenmq.client.stop import Stop
from queenmq.client.transports import SERVING, AsyncTransport
from queenmq.errors import InvalidArgument, InvalidPayload, LeaseGone, QueenError
from queenmq.model import PopRequest

log = logging.getLogger(__name__)

CONCURRENCY_MAX = 1_000
LIST_PARTITIONS_MAX = 1_000  # in one list
LEASE_SECONDS = 30  # kept up while a handler works: so long do messages wait when a consumer dies
GRACE_SECONDS = 30.0
WAIT_SECONDS = 30.0
ERROR_CHARACTERS_MAX = 1_000


class Consumer:
    """A handler and what it is to be fed with, checked."""

    def __init__(
        self,
        function: Callable[..., Any],
        request: PopRequest,
        message: Callable[[Any, Delivery], Any],
        queen: object,
        *,
        concurrency: int = 1,
        connection: object | None = None,
        grace_seconds: float = GRACE_SECONDS,
        on_ack: OnAck[Any] | None = None,
    ) -> None:
        if not 1 <= concurrency <= CONCURRENCY_MAX:
            raise InvalidArgument(f"concurrency must be between 1 and {CONCURRENCY_MAX}")
        self.handler = Handler(function, connected=connection is not None)
        self.pool = connection
        if self.handler.asynchronous and not inspect.iscoroutinefunction(getattr(message, "ack", None)):
            raise InvalidArgument(f"{self.handler.name} is a coroutine function: consume with AsyncQueen")
        if connection is not None:
            check_pool(connection, asynchronous=self.handler.asynchronous)
            if request.auto_ack:
                raise InvalidArgument("with a connection, the ack is part of its transaction: leave out auto_ack")
        if on_ack is not None and request.auto_ack:
            raise InvalidArgument("with auto_ack the consumer acknowledges nothing: leave out on_ack")
        if self.handler.takes_batch and request.max_partitions is None:
            request = replace(request, max_partitions=min(request.batch, LIST_PARTITIONS_MAX))
        self.lease_seconds = request.lease_seconds or LEASE_SECONDS
        self.request = request if request.auto_ack else replace(request, lease_seconds=self.lease_seconds)
        self.message = partial(message, queen)
        self.concurrency = concurrency
        self.grace_seconds = grace_seconds
        self._on_ack = on_ack

    def told(self, ack: Ack, answer: Acked) -> None:
        """An ack was answered."""
        if self._on_ack is None:
            return
        try:
            self._on_ack(self.message(ack.delivery), ack.status, answer)
        except Exception:
            log.exception("on_ack failed: %s", ack.delivery, extra=ack.delivery.location)


async def consume(consumers: Sequence[Consumer], stop: Stop, transport: AsyncTransport) -> None:
    """Run consumers until told to stop; an error that waiting cannot cure stops all of them, and is raised."""
    if not consumers:
        raise InvalidArgument("there is nothing to run: make consumers first, with @queen.consumer(…)")
    end = Stop(after=stop)
    await _finish([asyncio.create_task(Consumption(each, end, transport).run()) for each in consumers])


class Consumption:
    """A consumer at work."""

    def __init__(self, consumer: Consumer, end: Stop, transport: AsyncTransport) -> None:
        self._consumer = consumer
        self._handler = consumer.handler
        self._end = end
        self._transport = transport
        self._serving: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(consumer.concurrency, "queen-consumer")

    async def run(self) -> None:
        """Work until the end, and finish what was begun, or give it back."""
        self._ending = asyncio.create_task(self._end.wait())
        overdue = asyncio.create_task(self._call_off())
        try:
            await _finish([asyncio.create_task(self._work()) for _ in range(self._consumer.concurrency)])
        finally:
            overdue.cancel()
            self._ending.cancel()
            self._threads.shutdown(wait=False)

    async def _call_off(self) -> None:
        """When the time of grace is over, handlers that wait are interrupted; those in threads cannot be."""
        await asyncio.wait([self._ending])
        await asyncio.sleep(self._consumer.grace_seconds)
        for each in self._serving:
            each.cancel()

    async def _work(self) -> None:
        try:
            while not self._end.is_set():
                if deliveries := await self._pop_patiently():
                    await self._serve_apart(deliveries)
        except BaseException:
            self._end.set()  # for all others too
            raise

    async def _pop_patiently(self) -> list[Delivery]:
        """Where nobody answers, try again after a pause."""
        attempt = 0
        while not self._end.is_set():
            try:
                return await self._pop()
            except QueenError as error:
                if not is_worth_waiting(error):
                    raise
                request = self._consumer.request
                wanted = {"queue": request.queue, "partition": request.partition, "group": request.group}
                log.warning(
                    "nothing can be popped for now: queue %s, partition %s, group %s: %s",
                    *wanted.values(),
                    error,
                    extra=wanted | {"cause": repr(error)},
                )
            await asyncio.wait([self._ending], timeout=pause_seconds(attempt))
            attempt += 1
        return []

    async def _pop(self) -> list[Delivery]:
        """Wait for messages, and not a moment longer when it is time to end."""
        popping = asyncio.create_task(self._transport.call(Pop(self._consumer.request, WAIT_SECONDS)))
        try:
            await asyncio.wait([popping, self._ending], return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not popping.done():
                popping.cancel()
        await asyncio.wait([popping])
        return [] if popping.cancelled() else popping.result()

    async def _serve_apart(self, deliveries: list[Delivery]) -> None:
        """In a task of its own, which can be called off without ending the loop."""
        serving = asyncio.create_task(self._serve(deliveries))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)
        await _finish([serving])

    async def _serve(self, deliveries: list[Delivery]) -> None:
        task = asyncio.current_task()
        assert task is not None, "this is a coroutine"
        lists: dict[str, list[Delivery]] = {}
        for each in deliveries:
            lists.setdefault("" if self._handler.takes_batch else each.partition_id, []).append(each)
        async with HeldLease(
            self._transport, deliveries, self._consumer.lease_seconds, task.cancel, self._consumer.told
        ) as lease:
            try:
                for some in lists.values():
                    await self._serve_in_order(lease, some)
            except asyncio.CancelledError:
                lease.give_back(deliveries)

    async def _serve_in_order(self, lease: HeldLease, deliveries: list[Delivery]) -> None:
        """A list as a whole, or a partition up to the first message that fails: the rest is given back, and follows."""
        for some in [deliveries] if self._handler.takes_batch else ([each] for each in deliveries):
            if self._end.is_set() or lease.gone or not await self._handle(lease, some):
                break
        lease.give_back(deliveries)

    async def _handle(self, lease: HeldLease, deliveries: list[Delivery]) -> bool:
        """Whether those that come after these may follow."""
        deliveries, messages, values = self._read(lease, deliveries)
        if not deliveries:
            return True
        call = partial(self._handler.call, values, messages)
        try:
            with telemetry.handling(deliveries):
                await self._call(self._work_on(lease, deliveries, call))
            if self._consumer.pool is None:
                lease.settle(deliveries)
            else:
                for each in deliveries:
                    self._consumer.told(Ack(each), Acked(success=True))
        except GiveUp as reason:
            lease.settle(deliveries, "dlq", str(reason))
        except LeaseGone:
            lease.lose()
            return False
        except Exception as error:  # whatever it is, it is the message that failed, not the consumer
            log.warning("a handler failed: %s", deliveries[0], exc_info=error, extra=deliveries[0].location)
            lease.settle(deliveries, "failed", _described(error))
            return False
        return True

    def _work_on(self, lease: HeldLease, deliveries: list[Delivery], call: Callable[[Any], Any]) -> Callable[[], Any]:
        """The handler's work alone, or with the ack in a transaction of the application's."""
        if self._consumer.pool is None:
            return partial(call, None)
        work = handle if self._handler.asynchronous else handle_blocking
        return partial(work, self._consumer.pool, call, deliveries, partial(lease.answered, deliveries))

    def _read(self, lease: HeldLease, deliveries: list[Delivery]) -> tuple[list[Delivery], list[Any], list[Any]]:
        """Messages and what the handler wants of them; those that do not fit are given up."""
        fitting: list[Delivery] = []
        messages: list[Any] = []
        values: list[Any] = []
        for each in deliveries:
            message = self._consumer.message(each)
            try:
                values.append(self._handler.read(message))
            except InvalidPayload as error:
                cause = error.message
                log.warning("a payload does not fit: %s: %s", each, cause, extra=each.location | {"cause": cause})
                lease.settle([each], "dlq", error.message[:ERROR_CHARACTERS_MAX])
                continue
            fitting.append(each)
            messages.append(message)
        return fitting, messages, values

    async def _call(self, function: Callable[[], Any]) -> None:
        """A coroutine function here; another one in a thread, which is waited for whatever happens."""
        if self._handler.asynchronous:
            await function()
            return
        context = contextvars.copy_context()
        context.run(SERVING.set, self._transport)
        work = asyncio.get_running_loop().run_in_executor(self._threads, context.run, function)
        while True:
            try:
                await asyncio.shield(work)
                return
            except asyncio.CancelledError:
                log.debug("waiting for a handler in a thread")


async def _finish(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait for all; called off, call them off. Raises what the first of them raised."""
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for each in tasks:
            each.cancel()
        await asyncio.wait(tasks)
        raise
    errors = [each.exception() for each in tasks if not each.cancelled()]  # of all: asyncio complains of unread ones
    for error in filter(None, errors):
        raise error


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS_MAX]
