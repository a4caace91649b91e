"""Positions in commit order, and the proof that PostgreSQL has not lost them.

A position that is kept outside of the database, in a checkpoint or in a manifest, holds a tick's number, its random
mark, and a trail: the incarnations of PostgreSQL that took the ticks up to it. If PostgreSQL goes back to an earlier
state, it gives out numbers a second time, but not the marks; the trail tells which tick both states have in common.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from queenmq.errors import PositionLost
from queenmq.spark.connection import Connection

log = logging.getLogger(__name__)

Kept = Mapping[str, Any]  # tick, mark, trail; before: the first transaction that a part of a tick leaves out

LATEST = """
select s.epoch, pg_current_snapshot() as snapshot, coalesce(t.id, 0) as tick, t.mark::text as mark
  from queen.system_state s left join (select id, mark from queen.ticks order by id desc limit 1) as t on true
"""
FIND = """
select p.epoch, p.snapshot, c.id as tick, c.mark::text as mark, queen.tick_trail(c.id)::text as trail,
       to_char(c.taken_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as taken_at
  from queen.common_tick($1, $2, $3) as c cross join lateral queen.position_at(c.id, $4, $5) as p
 where c.id is not null
"""


@dataclass(frozen=True)
class Position:
    """What was committed: everything of earlier epochs, and what the snapshot shows of this one.

    `tick` and `mark` prove which history that is: a server that has this tick has all of it, unless the position is
    `latest`, which lies a little behind the tick.
    """

    epoch: int
    snapshot: str
    tick: int = 0
    mark: str | None = None
    trail: Sequence[Any] = ()

    @property
    def kept(self) -> dict[str, Any]:
        """The tick, to be kept outside of the database."""
        if not self.tick:
            return {"tick": 0}
        return {"tick": self.tick, "mark": self.mark, "trail": self.trail}


BEGINNING = Position(0, "1:1:")


class HistoryLost(PositionLost):
    """PostgreSQL has lost the position of a reader."""

    hint = (
        "Set failOnDataLoss to false to go on from the last common tick, without what was lost; "
        "or start again with a new checkpointLocation."
    )


def latest(connection: Connection) -> Position:
    """Everything that is committed now."""
    row = connection.row(LATEST)
    return Position(row["epoch"], row["snapshot"], row["tick"], row["mark"])


def position_at(connection: Connection, tick: int) -> Position:
    """Where a tick of this database is."""
    return find(connection, {"tick": tick}, tolerant=False)


def find(connection: Connection, kept: Kept, *, tolerant: bool) -> Position:
    """Where a kept position is. If PostgreSQL has lost it, the last common tick if that is tolerated, or an error."""
    epoch, _, xid = kept.get("before", "").partition(".")
    before = (int(epoch), xid) if epoch else (None, None)
    row = connection.row(FIND, kept["tick"], kept.get("mark"), json.dumps(kept.get("trail", [])), *before)
    if row is not None and row["tick"] == kept["tick"]:
        return _position(row)
    lost = f"PostgreSQL has lost tick {kept['tick']}: a standby was promoted or a backup restored since it was read. "
    if row is None:
        raise PositionLost(f"{lost}No earlier tick of this position is known here")
    sentence = (
        f"{lost}Both states agree up to tick {row['tick']} of {row['taken_at']}. Messages that were read "
        f"after it (up to tick {kept['tick']}) may not be stored any more, and what was pushed since then was not read"
    )
    if not tolerant:
        raise HistoryLost(sentence)
    log.warning("%s; reading goes on from tick %s", sentence, row["tick"])
    return _position(row)


def _position(row: Any) -> Position:
    return Position(row["epoch"], row["snapshot"], row["tick"], row["mark"], json.loads(row["trail"]))
