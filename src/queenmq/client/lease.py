"""Lanes: leased messages that one handler processes in order; and the renewal of their leases."""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from time import monotonic

from queenmq.client.answers import Acked, Delivery
from queenmq.client.calls import Ack, Renewal, RenewMany
from queenmq.client.transports import AsyncTransport
from queenmq.errors import Closed, QueenError, Unavailable
from queenmq.model import AckStatus

log = logging.getLogger(__name__)

PAUSE_SECONDS = 0.05
PAUSE_SECONDS_MAX = 5.0
RENEWALS_MAX = 1_000  # in one call
RENEWED_AT = 1 / 3  # of the lease time, so that two thirds are left for trouble
LOOKS = 10  # for leases to renew, in that time


def pause_seconds(attempt: int) -> float:
    """How long to wait after so many failures: longer each time, and a little different for everyone."""
    return float(min(PAUSE_SECONDS * 2 ** min(attempt, 16), PAUSE_SECONDS_MAX) * random.uniform(0.5, 1))


def is_worth_waiting(error: QueenError) -> bool:
    """Whether the same call may succeed later: not when this client was closed (a server that says so has a detail)."""
    return isinstance(error, Unavailable) and not (isinstance(error, Closed) and error.detail is None)


class Lane:
    """Messages of a partition, or a list, under one lease: they feed one handler at a time, in order.

    If the pop acknowledged them itself, there is no lease, and nothing is sent.
    """

    __slots__ = (
        "_left", "_open", "_send", "_told", "deliveries", "gone", "lease_id", "renewed_at", "seconds", "since", "task",
    )  # fmt: skip

    def __init__(
        self,
        deliveries: Sequence[Delivery],
        seconds: float,
        send: Callable[["Lane", list[Ack]], None],
        told: Callable[[Ack, Acked], None],
    ) -> None:
        self.deliveries = deliveries
        self.lease_id = deliveries[0].lease_id
        self.seconds = seconds
        self.since = self.renewed_at = monotonic()
        self.gone = False
        self.task: asyncio.Task[None] | None = None  # the task that processes the lane, if one does
        self._left = {each.id for each in deliveries}  # messages without an ack yet
        self._open = len(deliveries) if self.lease_id else 0  # messages whose ack is not answered yet
        self._send = send
        self._told = told

    def settle(self, deliveries: Sequence[Delivery], status: AckStatus = "completed", error: str | None = None) -> None:
        """Acknowledge messages; the acks go out with the next call."""
        if not self.lease_id or self.gone or not deliveries:
            return
        self.answer(deliveries)
        self._send(self, [Ack(each, status, error) for each in deliveries])

    def give_back(self) -> None:
        """Have those that are not answered delivered again at once, in order, without counting it as a failure."""
        if self._left:
            self.settle([each for each in self.deliveries if each.id in self._left], "retry")

    def answer(self, deliveries: Sequence[Delivery]) -> None:
        """These are about to be acknowledged: when no other is left, the lease may end any moment."""
        self._left.difference_update([each.id for each in deliveries])

    @property
    def ended(self) -> bool:
        """Whether the lease is not needed any more."""
        return self.gone or not self._open

    def acknowledged(self, ack: Ack, answer: Acked) -> None:
        """Note the answer to an ack."""
        self._open -= 1
        self._told(ack, answer)
        if not answer.success:
            self.lose()

    def expired(self) -> None:
        """Note that the lease has ended, as a renewal found. The last ack may have ended it."""
        if self._left:
            self.lose()

    def lose(self) -> None:
        """Stop the handler, because the lease is lost and another consumer may have the messages."""
        if self.gone:
            return
        self.gone = True
        self.warn("a lease was lost, its messages are delivered again")
        if self.task is not None:
            self.task.cancel()

    def warn(self, what: str, error: QueenError | None = None) -> None:
        """Write about this lease to the log."""
        first = self.deliveries[0]
        fields = first.location | {"lease": self.lease_id} | ({} if error is None else {"cause": repr(error)})
        because = "" if error is None else f": {error}"
        log.warning("%s: lease %s, whose first message is %s%s", what, self.lease_id, first, because, extra=fields)


class Renewals:
    """Keeps all leases of the consumers of a process: one call renews all that are due."""

    def __init__(self, transport: AsyncTransport, seconds_min: float) -> None:
        self._transport = transport
        self._pause = seconds_min * RENEWED_AT / LOOKS
        self._lanes: set[Lane] = set()

    def add(self, lane: Lane) -> None:
        """Renew this lease from now on."""
        if lane.lease_id:
            self._lanes.add(lane)

    def drop(self, lane: Lane) -> None:
        """Stop renewing this lease."""
        self._lanes.discard(lane)

    async def run(self) -> None:
        """Renew, for ever."""
        attempt = 0
        while True:
            await asyncio.sleep(pause_seconds(attempt) if attempt else self._pause)
            now = monotonic()
            due = [each for each in self._lanes if now - each.renewed_at > each.seconds * RENEWED_AT]
            attempt = attempt + 1 if not await self._renew(due) else 0

    async def _renew(self, lanes: list[Lane]) -> bool:
        """Whether it has worked."""
        began = monotonic()
        leases = list({each.lease_id: Renewal(each.lease_id, each.seconds) for each in lanes}.values())
        gone: set[str] = set()
        for start in range(0, len(leases), RENEWALS_MAX):
            some = leases[start : start + RENEWALS_MAX]
            try:
                expiries = await self._transport.call(RenewMany(some))
            except QueenError as error:
                for each in lanes:
                    each.warn("a lease could not be renewed yet", error)
                return False
            gone.update(each.lease_id for each, expires in zip(some, expiries, strict=True) if expires is None)
        for each in lanes:
            each.renewed_at = began
            if each.lease_id in gone:
                self.drop(each)
                each.expired()
        return True
