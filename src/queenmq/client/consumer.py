"""A consumer: a function that is called with messages, and what its messages become.

What a handler finishes is acknowledged at once. When it raises, the message has failed: it is delivered again after a
pause, and what came after it in its partition waits for it. The dispatcher pops, and keeps the handlers busy.
"""

import asyncio
import contextvars
import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from msgspec.structs import replace

from queenmq.client import telemetry
from queenmq.client.answers import Acked, Delivery
from queenmq.client.calls import Ack
from queenmq.client.connections import check_pool
from queenmq.client.exactly_once import handle, handle_blocking
from queenmq.client.handler import GiveUp, Handler
from queenmq.client.lease import Lane
from queenmq.client.signatures import OnAck
from queenmq.client.stop import Stop
from queenmq.client.transports import SERVING, AsyncTransport
from queenmq.errors import InvalidArgument, InvalidPayload, LeaseGone
from queenmq.model import PopRequest

log = logging.getLogger(__name__)

CONCURRENCY_MAX = 1_000
POPS_MAX = 200  # in one call
LIST_PARTITIONS_MAX = 1_000  # in one list
LEASE_SECONDS = 30  # kept up while a handler works: so long do messages wait when a consumer dies
GRACE_SECONDS = 30.0
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

    @property
    def may_give_back(self) -> bool:
        """Whether messages that no handler has begun can still be delivered to another consumer."""
        return not self.request.auto_ack

    @property
    def lanes_each(self) -> int:
        """How many lanes a pop may bring."""
        return 1 if self.handler.takes_batch else self.request.partitions_max

    @property
    def pops_max(self) -> int:
        """How many pops can be told apart when they are answered together: lists by their leases."""
        return 1 if self.handler.takes_batch and self.request.auto_ack else POPS_MAX

    def divide(self, deliveries: Iterable[Delivery]) -> Iterable[list[Delivery]]:
        """The messages of each lane: a list that came under one lease, or what came of a partition."""
        lanes: dict[tuple[str, str], list[Delivery]] = {}
        for each in deliveries:
            lanes.setdefault((each.lease_id, "" if self.handler.takes_batch else each.partition_id), []).append(each)
        return lanes.values()

    def told(self, ack: Ack, answer: Acked) -> None:
        """An ack was answered."""
        if self._on_ack is None:
            return
        try:
            self._on_ack(self.message(ack.delivery), ack.status, answer)
        except Exception:
            log.exception("on_ack failed: %s", ack.delivery, extra=ack.delivery.location)


class Handling:
    """The handlers of a consumer at work."""

    def __init__(self, consumer: Consumer, end: Stop, transport: AsyncTransport) -> None:
        self._consumer = consumer
        self._handler = consumer.handler
        self._end = end
        self._transport = transport
        self._threads = ThreadPoolExecutor(consumer.concurrency, "queen-consumer")

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False)

    async def serve(self, lane: Lane) -> None:
        """A list as a whole, or a partition up to the first message that fails: what is left is given back."""
        for some in [lane.deliveries] if self._handler.takes_batch else ([each] for each in lane.deliveries):
            if self._end.is_set() or lane.gone or not await self._handle(lane, some):
                return

    async def _handle(self, lane: Lane, deliveries: Sequence[Delivery]) -> bool:
        """Whether those that come after these may follow."""
        deliveries, messages, values = self._read(lane, deliveries)
        if not deliveries:
            return True
        try:
            with telemetry.handling(deliveries):
                if self._handler.asynchronous and self._consumer.pool is None:
                    await self._handler.call(values, messages, None)
                else:
                    call = partial(self._handler.call, values, messages)
                    await self._call(self._work_on(lane, deliveries, call))
            if self._consumer.pool is None:
                lane.settle(deliveries)
            else:
                for each in deliveries:
                    lane.acknowledged(Ack(each), Acked(success=True))
        except GiveUp as reason:
            lane.settle(deliveries, "dlq", str(reason))
        except LeaseGone:
            lane.lose()
            return False
        except Exception as error:  # whatever it is, it is the message that failed, not the consumer
            log.warning("a handler failed: %s", deliveries[0], exc_info=error, extra=deliveries[0].location)
            lane.settle(deliveries, "failed", _described(error))
            return False
        return True

    def _work_on(self, lane: Lane, deliveries: Sequence[Delivery], call: Callable[[Any], Any]) -> Callable[[], Any]:
        """The handler's work alone, or with the ack in a transaction of the application's."""
        if self._consumer.pool is None:
            return partial(call, None)
        work = handle if self._handler.asynchronous else handle_blocking
        return partial(work, self._consumer.pool, call, deliveries, partial(lane.answer, deliveries))

    def _read(self, lane: Lane, deliveries: Sequence[Delivery]) -> tuple[list[Delivery], list[Any], list[Any]]:
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
                lane.settle([each], "dlq", error.message[:ERROR_CHARACTERS_MAX])
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


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS_MAX]
