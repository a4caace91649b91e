"""The dispatcher of a consumer: it pops for all handlers that are idle, and gives each of them a lane to work off.

One call pops for all idle handlers, and for as many as became idle during the last call: these need not wait for the
next one. A lane that no handler begins within a second is given back, because another consumer may be idle.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from functools import partial
from time import monotonic

from queenmq.client.acks import Acks
from queenmq.client.answers import Delivery
from queenmq.client.calls import Pop
from queenmq.client.consumer import Consumer, Handling
from queenmq.client.lease import Lane, Renewals, is_worth_waiting, pause_seconds
from queenmq.client.stop import Stop
from queenmq.client.transports import AsyncTransport
from queenmq.errors import InvalidArgument, QueenError

log = logging.getLogger(__name__)

WAIT_SECONDS = 30.0
QUICK_SECONDS = 0.1  # a call that takes longer has waited for messages
READY_SECONDS_MAX = 1.0  # for a lane that no handler begins


async def consume(consumers: Sequence[Consumer], stop: Stop, transport: AsyncTransport) -> None:
    """Run consumers until told to stop; an error that waiting cannot cure stops all of them, and is raised."""
    if not consumers:
        raise InvalidArgument("there is nothing to run: make consumers first, with @queen.consumer(…)")
    end = Stop(after=stop)
    renewals = Renewals(transport, min(each.lease_seconds for each in consumers))
    acks = Acks(transport, renewals)
    renewing = asyncio.create_task(renewals.run())
    work = [asyncio.create_task(Dispatcher(each, end, transport, acks, renewals).run()) for each in consumers]
    try:
        await asyncio.wait(work)
    except asyncio.CancelledError:
        for each in work:
            each.cancel()
        await asyncio.wait(work)
        raise
    finally:
        await acks.flush()
        renewing.cancel()
    errors = [each.exception() for each in work if not each.cancelled()]  # of all: asyncio complains of unread ones
    for error in filter(None, errors):
        raise error


class Dispatcher:
    """Pops, and keeps the handlers of a consumer busy."""

    def __init__(
        self, consumer: Consumer, end: Stop, transport: AsyncTransport, acks: Acks, renewals: Renewals
    ) -> None:
        self._consumer = consumer
        self._end = end
        self._transport = transport
        self._acks = acks
        self._renewals = renewals
        self._handling = Handling(consumer, end, transport)
        self._ready: deque[Lane] = deque()
        self._serving: set[asyncio.Task[None]] = set()
        self._freed = asyncio.Event()  # a handler is idle, or it is time to end
        self._finished = 0  # lanes, since the last pop was sent
        self._ahead = 0  # lanes to pop beyond those for idle handlers
        self._returning: asyncio.TimerHandle | None = None
        self._failure: BaseException | None = None

    async def run(self) -> None:
        """Work until the end, and finish what was begun, or give it back."""
        self._ending = asyncio.create_task(self._end.wait())
        self._ending.add_done_callback(lambda _: self._freed.set())
        overdue = asyncio.create_task(self._call_off())
        fetching = asyncio.create_task(self._fetch())
        try:
            await asyncio.wait([fetching])
            self._give_back(self._ready)
            while self._serving:
                await asyncio.wait(self._serving)
        except asyncio.CancelledError:
            self._end.set()
            for each in (fetching, *self._serving):
                each.cancel()
            await asyncio.wait([fetching, *self._serving])
            self._give_back(self._ready)
            raise
        finally:
            overdue.cancel()
            self._ending.cancel()
            self._handling.close()
        if self._failure is not None:
            raise self._failure

    async def _call_off(self) -> None:
        """When the time of grace is over, handlers that wait are interrupted; those in threads cannot be."""
        await asyncio.wait([self._ending])
        await asyncio.sleep(self._consumer.grace_seconds)
        for each in self._serving:
            each.cancel()

    # -- popping

    async def _fetch(self) -> None:
        try:
            while not self._end.is_set():
                self._freed.clear()
                lanes = self._consumer.concurrency - len(self._serving) - len(self._ready)
                if lanes + self._ahead > 0:
                    # If no handler is idle, another consumer may be: then nothing is waited for.
                    wait_seconds = WAIT_SECONDS if lanes > 0 else 0.0
                    pops = -(-(lanes + self._ahead) // self._consumer.lanes_each)
                    self._take(await self._pop_patiently(min(pops, self._consumer.pops_max), wait_seconds))
                    await self._acks.room()
                else:
                    await self._freed.wait()
        except BaseException as error:  # noqa: BLE001 (raised by run)
            self._failure = error
        finally:
            self._end.set()  # for all others too

    async def _pop_patiently(self, count: int, wait_seconds: float) -> list[Delivery]:
        """Where nobody answers, try again after a pause."""
        attempt = 0
        while not self._end.is_set():
            try:
                return await self._pop(count, wait_seconds)
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

    async def _pop(self, count: int, wait_seconds: float) -> list[Delivery]:
        """Wait for messages, and not a moment longer when it is time to end."""
        self._finished, began = 0, monotonic()
        popping = asyncio.create_task(self._transport.call(Pop(self._consumer.request, wait_seconds, count)))
        try:
            await asyncio.wait([popping, self._ending], return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not popping.done():
                popping.cancel()
        await asyncio.wait([popping])
        if popping.cancelled():
            return []
        deliveries = popping.result()
        quick = min(1.0, QUICK_SECONDS / (monotonic() - began))
        self._ahead = int(self._finished * quick) if deliveries and self._consumer.may_give_back else 0
        return deliveries

    # -- lanes

    def _take(self, deliveries: list[Delivery]) -> None:
        for some in self._consumer.divide(deliveries):
            lane = Lane(some, self._consumer.lease_seconds, self._acks.add, self._consumer.told)
            self._renewals.add(lane)
            self._ready.append(lane)
        self._begin()

    def _begin(self) -> None:
        """Give lanes to idle handlers, those first that came first."""
        while self._ready and len(self._serving) < self._consumer.concurrency and not self._end.is_set():
            lane = self._ready.popleft()
            if not lane.gone:
                lane.task = asyncio.create_task(self._handling.serve(lane))
                lane.task.add_done_callback(partial(self._worked, lane))
                self._serving.add(lane.task)
        if self._ready and self._returning is None and self._consumer.may_give_back:
            self._returning = asyncio.get_running_loop().call_later(READY_SECONDS_MAX, self._return_late)

    def _worked(self, lane: Lane, task: asyncio.Task[None]) -> None:
        """A lane is done, or its task was cancelled, perhaps before it began: lease lost, or time of grace over."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = error
            self._end.set()
        lane.task = None
        self._serving.discard(task)
        self._finished += 1
        self._leave(lane)
        self._begin()
        self._freed.set()

    def _return_late(self) -> None:
        self._returning = None
        late = monotonic() - READY_SECONDS_MAX
        self._give_back([each for each in self._ready if each.since <= late])
        self._begin()

    def _give_back(self, lanes: Sequence[Lane]) -> None:
        for each in tuple(lanes):
            self._ready.remove(each)
            self._leave(each)

    def _leave(self, lane: Lane) -> None:
        """No handler works on it any more: what was not answered is delivered again."""
        lane.give_back()
        if lane.ended:
            self._renewals.drop(lane)
