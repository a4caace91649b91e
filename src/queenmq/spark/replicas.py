"""Reading from a replica: not before it has replayed what the plan is about."""

import time

from queenmq.errors import DatabaseUnavailable
from queenmq.spark.connection import Connection

REPLAY_SECONDS_MAX = 60.0
REPLAY_PAUSE_SECONDS = 0.1

WRITTEN = "select (case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end)::text"
REPLAYED = "select not pg_is_in_recovery() or pg_last_wal_replay_lsn() >= $1::text::pg_lsn"


class ReplicaBehind(DatabaseUnavailable):
    """The replica has not replayed what is to be read."""

    hint = "Try again when the replica has caught up; or leave readUrl away and read from the primary."


def written(connection: Connection) -> str:
    """How far the log of this server goes: whoever has replayed it has everything that is committed here now."""
    position: str = connection.value(WRITTEN)
    return position


def wait_until_replayed(connection: Connection, position: str) -> None:
    """Wait until this server, if it is a replica, has come so far."""
    deadline = time.monotonic() + REPLAY_SECONDS_MAX
    while not connection.value(REPLAYED, position):
        if time.monotonic() > deadline:
            raise ReplicaBehind(f"the replica has not replayed {position} within {REPLAY_SECONDS_MAX:g} seconds")
        time.sleep(REPLAY_PAUSE_SECONDS)
