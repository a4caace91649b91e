"""A lease in a consumer's hands: kept while its messages are worked on, answered as they are done."""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from time import monotonic
from types import TracebackType
from typing import Self

from queenmq.client.answers import Acked, Delivery
from queenmq.client.calls import Ack, Acknowledge, Renew
from queenmq.client.transports import AsyncTransport
from queenmq.errors import Closed, LeaseGone, QueenError, Unavailable
from queenmq.model import AckStatus

log = logging.getLogger(__name__)

PAUSE_SECONDS = 0.05
PAUSE_SECONDS_MAX = 5.0


def pause_seconds(attempt: int) -> float:
    """How long to wait after so many failures: longer each time, and a little different for everyone."""
    return float(min(PAUSE_SECONDS * 2 ** min(attempt, 16), PAUSE_SECONDS_MAX) * random.uniform(0.5, 1))


def is_worth_waiting(error: QueenError) -> bool:
    """Whether the same call may succeed later: not when this client was closed (a server that says so has a detail)."""
    return isinstance(error, Unavailable) and not (isinstance(error, Closed) and error.detail is None)


class HeldLease:
    """Renews the lease of messages until its block is left, and sends their acknowledgements.

    What is done while some are on their way goes out together, next. A lease that is gone calls `lost`: somebody else
    has its messages. Where the pop acknowledged them itself there is no lease, and nothing to do.
    """

    def __init__(
        self,
        transport: AsyncTransport,
        deliveries: Sequence[Delivery],
        seconds: float,
        lost: Callable[[], object],
        told: Callable[[Ack, Acked], object],
    ) -> None:
        self._transport = transport
        self._id = deliveries[0].lease_id
        self._first = deliveries[0]  # what log lines say of the lease
        self._seconds = seconds
        self._lost = lost
        self._told = told
        self.gone = False
        self._left = {each.id for each in deliveries}  # not answered yet
        self._acks: list[Ack] = []
        self._sending: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._id:
            self._renewing = asyncio.create_task(self._renew())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._sending is not None:
                await asyncio.wait([self._sending])
        finally:
            if self._renewing is not None:
                self._renewing.cancel()

    def settle(self, deliveries: Sequence[Delivery], status: AckStatus = "completed", error: str | None = None) -> None:
        """Say what became of messages: as soon as possible, and not later than at the end of the block."""
        if not self._id or self.gone or not deliveries:
            return
        self.answered(deliveries)
        self._acks.extend(Ack(each, status, error) for each in deliveries)
        if self._sending is None:
            self._sending = asyncio.create_task(self._send())

    def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """Have those that are not answered delivered again at once, in order, without counting it as a failure."""
        self.settle([each for each in deliveries if each.id in self._left], "retry")

    def answered(self, deliveries: Sequence[Delivery]) -> None:
        """These are about to be acknowledged: when no other is left, the lease may end any moment."""
        self._left.difference_update(each.id for each in deliveries)

    def lose(self) -> None:
        """The lease has turned out to be gone."""
        if self.gone:
            return
        self.gone = True
        self._acks.clear()
        self._warn("a lease was lost, its messages are delivered again")
        self._lost()

    def _warn(self, what: str, error: QueenError | None = None) -> None:
        fields = self._first.location | {"lease": self._id} | ({} if error is None else {"cause": repr(error)})
        because = "" if error is None else f": {error}"
        log.warning("%s: lease %s, whose first message is %s%s", what, self._id, self._first, because, extra=fields)

    async def _send(self) -> None:
        await asyncio.sleep(0)  # what is settled in the same breath belongs together
        while acks := self._acks:
            self._acks = []
            try:
                answers = await self._acknowledge(Acknowledge(acks))
            except QueenError as error:
                self._warn("messages could not be acknowledged", error)
                continue
            for ack, answer in zip(acks, answers, strict=True):
                self._told(ack, answer)
            if any(not each.success for each in answers):
                self.lose()
        self._sending = None

    async def _acknowledge(self, call: Acknowledge) -> list[Acked]:
        """Try as long as the lease may last."""
        until, attempt = monotonic() + self._seconds, 0
        while True:
            try:
                return await self._transport.call(call)
            except QueenError as error:
                if monotonic() > until or not is_worth_waiting(error):
                    raise
            await asyncio.sleep(pause_seconds(attempt))
            attempt += 1

    async def _renew(self) -> None:
        """At a third of its time, so that two thirds are left for trouble."""
        attempt = 0
        while True:
            await asyncio.sleep(pause_seconds(attempt) if attempt else self._seconds / 3)
            try:
                await self._transport.call(Renew(self._id, self._seconds))
                attempt = 0
            except LeaseGone:
                if self._left:
                    self.lose()
                return
            except QueenError as error:
                attempt += 1
                self._warn("a lease could not be renewed yet", error)
