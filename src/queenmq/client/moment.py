"""Moments that callers give."""

from datetime import datetime

from queenmq.errors import InvalidTimestamp


def aware(moment: datetime | None, name: str) -> datetime | None:
    """The moment, unless nobody could say when it is."""
    if moment is not None and moment.tzinfo is None:
        raise InvalidTimestamp(f"{name} has no time zone: {moment}")
    return moment
