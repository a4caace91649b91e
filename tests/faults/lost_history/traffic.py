"""Producers and consumers that go on while history changes, and what they were told."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from time import monotonic
from typing import Self

from queenmq import AsyncQueen
from tests.faults.lost_history.places import PATIENCE_SECONDS, Seen, patiently, push, seen

QUEUE = "traffic"
GROUP = "readers"


@dataclass
class Sent:
    """A message that was pushed, until it was answered."""

    id: str
    partition: str
    began: float
    status: str = ""


@dataclass
class Got:
    """A message that was delivered by a pop that began at this moment."""

    began: float
    message: Seen


@dataclass
class Traffic:
    """One producer and one consumer at each place; each producer has a partition of its own."""

    at: Mapping[str, AsyncQueen]
    sent: list[Sent] = field(default_factory=list)
    got: list[Got] = field(default_factory=list)
    _stopping: bool = False
    _progress: asyncio.Event = field(default_factory=asyncio.Event)
    _leasing: asyncio.Lock = field(default_factory=asyncio.Lock)  # held from a pop to its ack, by one consumer
    _running: list[asyncio.Task[None]] = field(default_factory=list)

    async def __aenter__(self) -> Self:
        work = [each(place) for place in self.at for each in (self._produce, self._consume)]
        self._running = [asyncio.create_task(each) for each in work]
        for task in self._running:
            task.add_done_callback(lambda _: self._progress.set())
        return self

    async def __aexit__(self, *_error: object) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def go_on(self, pushes: int) -> None:
        """Wait until every producer was answered so many times from now on, and something was delivered."""
        wanted = {place: self._answered(place) + pushes for place in self.at}
        delivered = len(self.got)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.got) == delivered or any(self._answered(place) < wanted[place] for place in wanted):
                self._progress.clear()
                await self._progress.wait()
                for task in self._running:
                    if task.done():
                        task.result()  # it has failed: say how

    @asynccontextmanager
    async def nothing_leased(self) -> AsyncIterator[None]:
        """While this lasts nobody consumes: a lease that survives without its consumer would have to expire first."""
        async with self._leasing:
            yield

    async def stop(self) -> None:
        """Let everybody finish what they are at."""
        self._stopping = True
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.gather(*self._running)

    def _answered(self, place: str) -> int:
        return sum(each.partition == place and each.status != "" for each in self.sent)

    async def _produce(self, place: str) -> None:
        for number in count():
            if self._stopping:
                return
            sent = Sent(f"{place}-{number:05}", place, monotonic())
            self.sent.append(sent)
            [sent.status] = await push(self.at[place], QUEUE, place, [sent.id])
            self._progress.set()

    async def _consume(self, place: str) -> None:
        queen = self.at[place]
        source = queen.queue(QUEUE).group(GROUP).subscription_mode("all").batch(100)
        while not self._stopping:
            async with self._leasing:
                began = monotonic()
                messages = await patiently(source.pop)
                self.got += [Got(began, seen(message)) for message in messages]
                if messages:
                    await patiently(lambda found=messages: queen.ack_many(found))
            self._progress.set()
