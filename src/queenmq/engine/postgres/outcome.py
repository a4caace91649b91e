"""A call that may or may not have happened."""

from queenmq.errors import DatabaseUnavailable
from queenmq.model import FlushMark


class OutcomeUnknown(DatabaseUnavailable):
    """The connection was lost during the call; it may or may not have happened."""

    call_id: int | None = None  # by which `Database.abandon` decides the outcome
    mark: FlushMark | None = None  # of a push: how to find out later
