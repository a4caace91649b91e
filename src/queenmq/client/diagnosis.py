"""What is wrong, as calls: why nothing comes, whether all adds up, what hurts."""

from queenmq.client.calls import Call
from queenmq.diagnosis import Checkup, LedgerTotal, Reason, Unread, Verification
from queenmq.model import QUEUE_MODE

PARTITIONS = 100


class Why(Call[list[Reason]], frozen=True):
    """Why a group gets nothing from a queue, partition by partition, those with work first."""

    queue: str
    group: str = QUEUE_MODE
    partition: str | None = None
    limit: int = PARTITIONS


class GetLedger(Call[list[LedgerTotal]], frozen=True):
    """What became of everything that was pushed, by queue and group; of one queue, or of all."""

    queue: str | None = None


class ListUnread(Call[list[Unread]], frozen=True):
    """Backlogs that no consumer group has asked for, the largest first."""


class Verify(Call[Verification], frozen=True):
    """Whether everything that was pushed is accounted for; of one queue, or of all. Reads everything."""

    queue: str | None = None


class CheckUp(Call[Checkup], frozen=True):
    """Look for what hurts: PostgreSQL's settings, clocks, old transactions, disks."""
