"""What the queues of a database keep, and for how long: for the doctor and for the greeting of a server."""

from datetime import datetime
from typing import Any

from msgspec import Struct

from queenmq.api.diagnosis import Check
from queenmq.engine.postgres.database import Database

NAMED_MAX = 5  # queues in one line
UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))

KEPT = """
select array(select q.name from queen.queues q
              where q.retention_enabled and q.retention_seconds = 0 and q.completed_retention_seconds = 0
              order by q.name) as unlimited,
       array(select q.name from queen.queues q where not q.retention_enabled order by q.name) as switched_off,
       (select count(*) from queen.queues) as queues,
       (select d.failed_at from queen.dead_letters d order by d.id limit 1) as oldest_dead_letter,
       (select column_default::int from information_schema.columns where table_schema = 'queen'
           and table_name = 'queues' and column_name = 'completed_retention_seconds') as completed_seconds,
       (select column_default::int from information_schema.columns where table_schema = 'queen'
           and table_name = 'queues' and column_name = 'dead_letter_retention_seconds') as dead_letter_seconds
"""

HINT = "Nothing is ever deleted there: set completed_retention_seconds, or retention_enabled=false to keep the history."


class Kept(Struct, frozen=True, kw_only=True):
    """What nobody ever deletes, and what new queues keep."""

    unlimited: list[str]  # queues without a limit, although retention is on
    switched_off: list[str]  # queues whose history stays because their settings say so
    queues: int
    oldest_dead_letter: datetime | None
    completed_seconds: int  # of new queues; 0 for ever
    dead_letter_seconds: int

    @property
    def sentence(self) -> str:
        """The line of a server's greeting."""
        new = (
            f"new queues keep finished messages {duration(self.completed_seconds)}, "
            f"dead letters {duration(self.dead_letter_seconds)}"
        )
        forever = len(self.unlimited) + len(self.switched_off)
        return f"{new}; {_queues(forever)} of {self.queues} keep everything" if forever else new

    def check(self, now: datetime) -> Check:
        """The line of the doctor."""
        details = []
        if self.unlimited:
            details.append(f"{_queues(len(self.unlimited))} without a limit: {_names(self.unlimited)}")
        if self.switched_off:
            details.append(f"{_queues(len(self.switched_off))} with retention off: {_names(self.switched_off)}")
        if not details:
            details.append("every queue has a limit")
        if self.oldest_dead_letter is not None:
            age = max(0, int((now - self.oldest_dead_letter).total_seconds()))
            details.append(f"the oldest dead letter failed {duration(age, whole=False)} ago")
        return Check(
            name="retention",
            severity="warning" if self.unlimited else "ok",
            detail="; ".join(details),
            hint=HINT if self.unlimited else None,
        )


async def kept(database: Database) -> Kept:
    """Ask a database that has the newest schema."""
    row: Any = await database.row(KEPT)
    return Kept(**dict(row))


def duration(seconds: int, *, whole: bool = True) -> str:
    """A number of seconds in the largest unit that divides it; or, not `whole`, in the largest that it reaches."""
    if whole and not seconds:
        return "for ever"
    size, unit = next(
        ((size, unit) for size, unit in UNITS if seconds >= size and not (whole and seconds % size)), UNITS[-1]
    )
    count = seconds // size
    return f"{count:,} {unit}{'' if count == 1 else 's'}"


def _queues(number: int) -> str:
    return f"{number:,} queue{'' if number == 1 else 's'}"


def _names(queues: list[str]) -> str:
    more = len(queues) - NAMED_MAX
    return ", ".join(queues[:NAMED_MAX]) + (f" and {more:,} more" if more > 0 else "")
