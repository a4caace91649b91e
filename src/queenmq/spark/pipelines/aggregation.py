"""What an aggregation is told in its TOML file."""

import tomllib
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from queenmq.errors import InvalidArgument

DROP = "drop"


class Windows(Struct, frozen=True, forbid_unknown_fields=True):
    """Of what length: `size` alone is tumbling, with `slide` sliding; `gap` makes sessions."""

    size: str | None = None
    slide: str | None = None
    gap: str | None = None

    def __post_init__(self) -> None:
        if (self.size is None) == (self.gap is None):
            raise ValueError("a window has a size (tumbling, or sliding with a slide) or a gap (sessions)")
        if self.slide is not None and self.size is None:
            raise ValueError("a session does not slide")


class Aggregation(Struct, frozen=True, forbid_unknown_fields=True, rename={"source": "from", "target": "to"}):
    """From one queue to another, window by window."""

    source: str
    target: str
    payload: str  # DDL of the fields that are used
    window: Windows
    values: dict[str, str]  # name -> an aggregate of Spark's SQL
    by: list[str] = field(default_factory=list)
    event_time: str | None = None  # a field; without one, when the message was pushed
    watermark: str = "10 minutes"
    ahead: str = "1 minute"  # clocks differ
    late: str = DROP  # or the name of a queue that gets them
    partition_by: str | None = None  # one of `by`
    group: str | None = None

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError("an aggregation has at least one value")
        if clash := {"window_start", "window_end"} & {*self.by, *self.values} or set(self.by) & set(self.values):
            raise ValueError(f"{min(clash)} is there twice")
        if self.partition_by is not None and self.partition_by not in self.by:
            raise ValueError("partition_by is one of the fields in by")

    @property
    def reader(self) -> str:
        """The consumer group that the source queue knows it by."""
        return self.group or f"aggregate:{self.target}"


def load_aggregation(path: str) -> Aggregation:
    """Read the file, or say what is wrong with it."""
    try:
        read: dict[str, Any] = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        return msgspec.convert(read, Aggregation)
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise InvalidArgument(f"{path} is no aggregation: {error}") from None
