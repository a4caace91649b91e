"""Natural batching: while calls are in flight, requests gather. When a call returns, all gathered requests go out.

No request waits for others to come. An idle system answers at once; the busier a system is, the more it batches.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import Generic, TypeVar

from queenmq.engine.histogram import SECONDS, SIZES, Histogram
from queenmq.errors import Closed, QueenError, Refused

log = logging.getLogger(__name__)

LATE_SECONDS = 0.02  # a call in flight for longer than this is late: others no longer wait for it

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Batcher(Generic[Item, Answer]):
    """Turns single requests into batches for `run`, with at most `calls_max` batches in flight.

    `run` returns one answer for each item, in order. If an answer is an exception, it is raised to its requester only.
    If a batch is refused as a whole, it is split in halves until the bad request is alone. If a requester was
    cancelled, its answer goes to `unclaimed`.

    - `shared_from`: from so many requests on, they are shared between all free calls, so that PostgreSQL works on
      one while another is prepared or answered.
    - `further_from`: requests of less weight than this wait for the call in flight, unless it is late. Two small
      calls cost more than one, and often wait for each other.
    - `ahead`: so many batches beyond `calls_max` may be given to `run`, which prepares them meanwhile.
    """

    def __init__(
        self,
        run: Callable[[list[Item]], Awaitable[Sequence[Answer | QueenError]]],
        *,
        calls_max: int,
        weight: Callable[[Item], int] = lambda _: 1,
        weight_max: int = 1_000,
        shared_from: int | None = None,
        further_from: int = 0,
        ahead: int = 0,
        unclaimed: Callable[[Answer], None] = lambda _: None,
    ) -> None:
        self.requests = 0  # for the metrics, as are these
        self.sizes = Histogram(SIZES)  # requests per batch
        self.waits = Histogram(SECONDS)  # until a request goes out
        self._run = run
        self._calls_max = calls_max
        self._weight = weight
        self.weight_max = weight_max  # of one batch; may be changed at any time
        self._shared_from = shared_from
        self._further_from = further_from
        self._ahead = ahead
        self._unclaimed = unclaimed
        self._waiting: deque[tuple[Item, asyncio.Future[Answer], float]] = deque()
        self._waiting_weight = 0
        self._late: asyncio.TimerHandle | None = None  # starts another call if the one in flight is late
        self._running: set[asyncio.Task[None]] = set()
        self._serving = 0  # running tasks whose batch is with `run`
        self._closed = False

    @property
    def batches(self) -> int:
        """Batches that went out."""
        return self.sizes.count

    @property
    def saved(self) -> int:
        """Round trips saved: requests that shared the call of another one."""
        return int(self.sizes.total) - self.sizes.count

    async def submit(self, item: Item) -> Answer:
        """Add a request and wait for its answer."""
        if self._closed:
            raise Closed()
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future, monotonic()))
        self._waiting_weight += self._weight(item)
        self.requests += 1
        if self._may_start():
            self._start()
        else:
            self._watch_the_clock()
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self._unclaimed(
                    future.result()
                )  # the answer came, but the requester was cancelled before it could take it
            raise

    async def close(self) -> None:
        """Refuse new requests and finish what was accepted."""
        self._closed = True
        while self._running:
            await asyncio.wait(self._running)

    def _may_start(self) -> bool:
        if not self._running:
            return True
        return len(self._running) < self._calls_max + self._ahead and self._waiting_weight >= self._further_from

    def _start_late(self) -> None:
        self._late = None
        if self._waiting and len(self._running) < self._calls_max:
            self._start()
            self._watch_the_clock()

    def _watch_the_clock(self) -> None:
        if self._late is None and len(self._running) < self._calls_max:
            self._late = asyncio.get_running_loop().call_later(LATE_SECONDS, self._start_late)

    def _start(self) -> None:
        self._running.add(asyncio.create_task(self._work()))

    async def _work(self) -> None:
        try:
            # One turn of the event loop, so that requests that become ready together share a call.
            await asyncio.sleep(0)
            while batch := self._take():
                if self._waiting and self._may_start():
                    self._start()
                self.sizes.note(len(batch))
                self._serving += 1
                try:
                    await self._serve(batch)
                finally:
                    self._serving -= 1
                if len(self._running) > 1 and self._waiting_weight < self._further_from:
                    break  # the other calls take what waits
        finally:
            # Here, not when the task is over: until then a new request would find all calls taken, but none serving it.
            self._running.discard(asyncio.current_task())
            if self._waiting:
                self._watch_the_clock()

    def _take(self) -> list[tuple[Item, asyncio.Future[Answer]]]:
        batch: list[tuple[Item, asyncio.Future[Answer]]] = []
        weight = 0
        now = monotonic()
        most = len(self._waiting)
        if self._shared_from and most >= self._shared_from:
            most = -(-most // (self._calls_max - self._serving))  # shared by this call and the free ones
        while self._waiting and len(batch) < most:
            item, future, since = self._waiting[0]
            more = self._weight(item)
            if not future.done():  # a cancelled request is left out
                weight += more
                if batch and weight > self.weight_max:
                    break
                batch.append((item, future))
                self.waits.note(now - since)
            self._waiting.popleft()
            self._waiting_weight -= more
        return batch

    async def _serve(self, batch: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        try:
            answered = list(zip(batch, await self._run([item for item, _ in batch]), strict=True))
        except Refused as error:
            if len(batch) == 1:
                _fail(batch, error)
                return
            middle = len(batch) // 2
            await self._serve(batch[:middle])
            await self._serve(batch[middle:])
            return
        except QueenError as error:
            _fail(batch, error)
            return
        except Exception as error:
            log.exception("a batch failed in an unforeseen way")
            _fail(batch, QueenError(f"unforeseen failure: {error!r}"))
            return
        for (_, future), answer in answered:
            if future.done():  # the requester was cancelled meanwhile
                if not isinstance(answer, QueenError):
                    self._unclaimed(answer)
            elif isinstance(answer, QueenError):
                future.set_exception(answer)
            else:
                future.set_result(answer)


def _fail(batch: list[tuple[Item, asyncio.Future[Answer]]], error: QueenError) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
