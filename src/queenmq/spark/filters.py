"""What Spark wants of a read, as far as PostgreSQL can leave the rest out.

A segment has one queue, one partition and one moment, so filters on these are exact. Offsets and trace ids only say
which segments to look into: Spark looks again.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

MICROSECOND = timedelta(microseconds=1)
COMPARISONS = (EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)


@dataclass
class Filters:
    """The conditions that were taken over; None stands for no condition."""

    queues: frozenset[str] | None = None
    partitions: frozenset[str] | None = None
    trace_ids: frozenset[str] | None = None
    since: datetime | None = None
    until: datetime | None = None
    low: int | None = None  # first offset,
    high: int | None = None  # and the one after the last

    def take(self, filters: Iterable[Filter]) -> Iterable[Filter]:
        """Take over what can be; yields what Spark still has to check."""
        for each in filters:
            if not self._take(each):
                yield each

    def _take(self, condition: Filter) -> bool:
        """Use a condition; whether it need not be checked again."""
        if not isinstance(condition, In | EqualTo | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual):
            return False
        match condition.attribute:
            case ("queue",) | ("partition",) | ("trace_id",) if isinstance(condition, In | EqualTo):
                values = condition.value if isinstance(condition, In) else (condition.value,)
                self._narrow(condition.attribute[0], frozenset(values))
                return condition.attribute[0] != "trace_id"
            case ("created_at",) if isinstance(condition, COMPARISONS):
                since, until = _bounds(condition, MICROSECOND)
                self.since = largest(self.since, since)
                self.until = smallest(self.until, until)
                return True
            case ("offset",) if isinstance(condition, COMPARISONS):
                low, high = _bounds(condition, 1)
                self.low = largest(self.low, low)
                self.high = smallest(self.high, high)
        return False

    def _narrow(self, column: str, values: frozenset[str]) -> None:
        name = {"queue": "queues", "partition": "partitions", "trace_id": "trace_ids"}[column]
        before: frozenset[str] | None = getattr(self, name)
        setattr(self, name, values if before is None else before & values)


def _bounds(condition: Any, step: Any) -> tuple[Any, Any]:
    """The first value that a comparison allows, and the first that it does not."""
    value = condition.value
    match condition:
        case EqualTo():
            return value, value + step
        case GreaterThan():
            return value + step, None
        case GreaterThanOrEqual():
            return value, None
        case LessThan():
            return None, value
        case _:
            return None, value + step


def largest(one: Any, other: Any) -> Any:
    """The larger of two, where None is no condition."""
    return max((each for each in (one, other) if each is not None), default=None)


def smallest(one: Any, other: Any) -> Any:
    """The smaller of two, where None is no condition."""
    return min((each for each in (one, other) if each is not None), default=None)
