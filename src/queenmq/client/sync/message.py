# Generated from client/message.py by `make sync-client`: edit that file, not this one.
"""A delivered message, and what its consumer does with it."""

from datetime import datetime
from typing import TYPE_CHECKING

from queenmq.api.payload import HasPayload
from queenmq.client.answers import Acked, Delivery
from queenmq.client.calls import Release, Renew
from queenmq.errors import InvalidArgument
from queenmq.model import AckStatus, Headers

if TYPE_CHECKING:
    from queenmq.client.sync.queen import Queen

RENEW_SECONDS = 60.0


class Message(HasPayload):
    """A message that was popped; its group holds the partition until the lease ends."""

    __slots__ = ("_queen", "delivery", "raw")

    def __init__(self, queen: "Queen", delivery: Delivery) -> None:
        self._queen = queen
        self.delivery = delivery
        self.raw = delivery.raw

    @property
    def id(self) -> str:
        """The message's id: time-ordered, unique."""
        return self.delivery.id

    @property
    def queue(self) -> str:
        """The queue it came from."""
        return self.delivery.queue

    @property
    def partition(self) -> str:
        """The partition it came from."""
        return self.delivery.partition

    @property
    def offset(self) -> int:
        """Its place in the partition."""
        return self.delivery.offset

    @property
    def group(self) -> str:
        """The group it was delivered to."""
        return self.delivery.group

    @property
    def transaction_id(self) -> str:
        """The producer's own id of it; where there is none, the message's id."""
        return self.delivery.transaction_id

    @property
    def trace_id(self) -> str | None:
        """What links it to the other messages of its pipeline."""
        return self.delivery.trace_id

    @property
    def headers(self) -> Headers:
        """What travelled beside the payload."""
        return self.delivery.headers

    @property
    def created_at(self) -> datetime:
        """When it was stored."""
        return self.delivery.created_at

    @property
    def producer(self) -> str | None:
        """Who pushed it, as the server knows it from the producer's token."""
        return self.delivery.producer

    @property
    def retry_count(self) -> int:
        """How often it was delivered to this group before."""
        return self.delivery.retry_count

    @property
    def attempt(self) -> int:
        """Which delivery to its group this is: 1 is the first."""
        return self.delivery.attempt

    @property
    def partition_id(self) -> str:
        """The partition's id."""
        return self.delivery.partition_id

    @property
    def lease_id(self) -> str:
        """The lease it was delivered under; empty where the pop acknowledged it itself."""
        return self.delivery.lease_id

    def ack(self, status: AckStatus = "completed", error: str | None = None) -> Acked:
        """Say what became of it. Raises LeaseGone when somebody else may have it by now."""
        return self._queen.ack(self, status, error)

    def renew(self, seconds: float = RENEW_SECONDS) -> datetime:
        """Keep it, and all that came with it, for so long from now. Raises LeaseGone."""
        return self._queen.call(Renew(self._lease(), seconds))

    def release(self) -> bool:
        """Give it back, and all that came with it, as if it had never been popped; False if its lease is gone."""
        return self._queen.call(Release(self._lease()))

    def _lease(self) -> str:
        if not self.lease_id:
            raise InvalidArgument("the pop acknowledged this message itself: it has no lease")
        return self.lease_id
