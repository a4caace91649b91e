"""Traffic as values: one struct per operation. What it holds is what is asked; `Call[…]` names what is answered.

Both transports take these and nothing else, so a skin cannot do over HTTP what it could not do without a server.
All other calls are in `queenmq.api`.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from queenmq.api.call import Call
from queenmq.client.answers import Acked, Changes, Delivery, Fetched, Pushed
from queenmq.model import AckStatus, Outgoing, PopRequest


class Push(Call[Sequence[Pushed]], frozen=True):
    """Store messages, all or none; answers in their order, if asked with the capacity that their queues have left."""

    messages: Sequence[Outgoing]
    capacity: bool = False


class Pop(Call[list[Delivery]], frozen=True):
    """Lease messages; with `wait_seconds`, wait so long for some to become ready.

    With `count`, as so many pops at once, each with a lease of its own.
    """

    request: PopRequest
    wait_seconds: float = 0.0
    count: int = 1


class Ack(Struct, frozen=True, gc=False):
    """What became of one delivered message."""

    delivery: Delivery
    status: AckStatus = "completed"
    error: str | None = None


class Acknowledge(Call[list[Acked]], frozen=True):
    """Say what became of messages; each gets its own answer, in order."""

    acks: Sequence[Ack]


class Renew(Call[datetime], frozen=True):
    """Keep a lease for so long from now; answers when it then expires. Raises LeaseGone."""

    lease_id: str
    seconds: float


class Renewal(Struct, frozen=True):
    """A lease, and for how long from now it is kept."""

    lease_id: str
    seconds: float


class RenewMany(Call[list[datetime | None]], frozen=True):
    """Keep leases; answers when each of them then expires, or None if it is gone."""

    renewals: Sequence[Renewal]


class Release(Call[bool], frozen=True):
    """Give a lease back, as if its messages had never been popped; False if it is gone."""

    lease_id: str


class Transact(Call[Sequence[Pushed]], frozen=True):
    """Acknowledge and push together, all or nothing; answers for the messages, in order."""

    acks: Sequence[Ack]
    messages: Sequence[Outgoing]


class Position(Struct, frozen=True):
    """Where to read: a partition, from an offset on; `previous`: when the message before it was written, if known."""

    queue: str
    partition: str
    offset: int = 0
    previous: datetime | None = None


class Fetch(Call[list[Fetched]], frozen=True):
    """Read by offset, without a lease; one answer per position, of about `bytes_max` together."""

    positions: Sequence[Position]
    bytes_max: int


class Changed(Call[Changes], frozen=True):
    """The partitions of a queue that were written at or after a moment, page by page. Raises QueueNotFound."""

    queue: str
    since: datetime | None = None
    cursor: str | None = None
    limit: int = 1_000
