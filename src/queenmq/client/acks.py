"""The acks of all consumers of a process: while a call is in flight, acks gather for the next call."""

import asyncio
from time import monotonic

from queenmq.client.answers import Acked
from queenmq.client.calls import Ack, Acknowledge
from queenmq.client.lease import Lane, Renewals, is_worth_waiting, pause_seconds
from queenmq.client.transports import AsyncTransport
from queenmq.errors import QueenError, Refused

ACKS_MAX = 1_000  # in one call
WAITING_MAX = 10_000  # from here on, consumers pop nothing more

Said = tuple[Lane, Ack]


class Acks:
    """Sends acks."""

    def __init__(self, transport: AsyncTransport, renewals: Renewals) -> None:
        self._transport = transport
        self._renewals = renewals
        self._waiting: list[Said] = []
        self._sending: asyncio.Task[None] | None = None

    def add(self, lane: Lane, acks: list[Ack]) -> None:
        """Send these acks, in order."""
        self._waiting += [(lane, each) for each in acks]
        if self._sending is None:
            self._sending = asyncio.create_task(self._send())

    async def room(self) -> None:
        """Wait while too many have gathered."""
        if len(self._waiting) > WAITING_MAX:
            await self.flush()

    async def flush(self) -> None:
        """Wait until all are answered."""
        if self._sending is not None:
            await asyncio.wait([self._sending])

    async def _send(self) -> None:
        try:
            await asyncio.sleep(0)  # acks of the same turn of the event loop share a call
            while self._waiting:
                some, self._waiting = self._waiting[:ACKS_MAX], self._waiting[ACKS_MAX:]
                if some := [each for each in some if not each[0].gone]:
                    await self._send_some(some)
        finally:
            self._sending = None

    async def _send_some(self, some: list[Said]) -> None:
        try:
            answers = await self._acknowledge([ack for _, ack in some], max(lane.seconds for lane, _ in some))
        except QueenError as error:
            if isinstance(error, Refused) and len(some) > 1:  # perhaps one bad ack is the cause
                await self._send_some(some[: len(some) // 2])
                await self._send_some(some[len(some) // 2 :])
                return
            for lane in {lane: None for lane, _ in some}:
                lane.warn("messages could not be acknowledged", error)
                self._renewals.drop(lane)
            return
        for (lane, ack), answer in zip(some, answers, strict=True):
            lane.acknowledged(ack, answer)
            if lane.ended:
                self._renewals.drop(lane)

    async def _acknowledge(self, acks: list[Ack], seconds: float) -> list[Acked]:
        """Send a call again after errors, for as long as the leases may last."""
        until, attempt = monotonic() + seconds, 0
        while True:
            try:
                return await self._transport.call(Acknowledge(acks))
            except QueenError as error:
                if monotonic() > until or not is_worth_waiting(error):
                    raise
            await asyncio.sleep(pause_seconds(attempt))
            attempt += 1
