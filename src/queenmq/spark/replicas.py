"""Reading from a server that need not be the one that planned: it must have the same history, and have come so far."""

import time
from typing import Any

from queenmq.errors import DatabaseUnavailable, PositionLost
from queenmq.spark.connection import Connection

REPLAY_SECONDS_MAX = 60.0
REPLAY_PAUSE_SECONDS = 0.1

WRITTEN = "select (case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end)::text"
REPLAYED = "select nullif(not pg_is_in_recovery() or pg_last_wal_replay_lsn() >= $1::text::pg_lsn, false)"
# A replica replays ticks in their order: it does not get this one any more if it has a later one.
KNOWN = """
select case when exists (select from queen.ticks where id = $1 and mark = $2) then true
            when not pg_is_in_recovery() or exists (select from queen.ticks where id >= $1) then false end
"""


class ReplicaBehind(DatabaseUnavailable):
    """The replica has not replayed what is to be read."""

    hint = "Try again when the replica has caught up; or leave readUrl away and read from the primary."


class OtherHistory(PositionLost):
    """The server that is read from does not have the history that the read was planned for."""

    hint = "Run it again. If it persists, check that readUrl leads to a replica of the primary that url leads to."


def written(connection: Connection) -> str:
    """How far the log of this server goes: whoever has replayed it has everything that is committed here now."""
    position: str = connection.value(WRITTEN)
    return position


def wait_until_replayed(connection: Connection, position: str) -> None:
    """Wait until this server, if it is a replica, has come so far."""
    _wait(connection, REPLAYED, (position,), position)


def wait_until_known(connection: Connection, tick: int, mark: str | None) -> None:
    """Wait until this server, if it is a replica, has a tick; refuse a server that has another history."""
    if not _wait(connection, KNOWN, (tick, mark), f"tick {tick}"):
        raise OtherHistory(f"PostgreSQL does not have tick {tick} with the mark {mark}: its history is another one")


def _wait(connection: Connection, query: str, arguments: tuple[object, ...], awaited: str) -> Any:
    """Ask until the answer is not null."""
    deadline = time.monotonic() + REPLAY_SECONDS_MAX
    while (found := connection.value(query, *arguments)) is None:
        if time.monotonic() > deadline:
            raise ReplicaBehind(f"the replica has not replayed {awaited} within {REPLAY_SECONDS_MAX:g} seconds")
        time.sleep(REPLAY_PAUSE_SECONDS)
    return found
