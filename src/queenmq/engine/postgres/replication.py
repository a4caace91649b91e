"""Synchronous standbys: how to make sure that they have what was committed.

A commit waits for the synchronous standbys, if some are configured. If that wait is cancelled, the transaction is
committed on the primary only. The write-ahead log is one sequence: when a later commit is confirmed by the standbys,
they have everything before it too.
"""

from typing import Any

import asyncpg

from queenmq.engine.postgres.outcome import OutcomeUnknown

# An empty message in the log, and so a commit that waits; nothing is written when no standby is waited for.
BARRIER = """
case when current_setting('synchronous_standby_names') <> '' then pg_logical_emit_message(true, 'queen', '')::text end
"""
AWAIT_STANDBYS = f"select {BARRIER}"


class NotReplicated(OutcomeUnknown):
    """The synchronous standbys did not confirm a commit: it is on the primary only, and a failover may lose it."""

    hint = (
        "Bring the standbys of synchronous_standby_names back; pg_stat_replication shows those that are connected. "
        "To write without them, take them out of synchronous_standby_names."
    )


async def await_standbys(connection: Any, seconds: float) -> None:
    """Wait until the synchronous standbys have all that was committed before. Raises NotReplicated."""
    try:
        await connection.fetchval(AWAIT_STANDBYS, timeout=seconds)
    except TimeoutError:  # asyncpg has cancelled it, so that no session waits on and on
        raise NotReplicated(f"the synchronous standbys did not confirm a commit within {seconds:g} s") from None
    except asyncpg.PostgresError as error:
        raise NotReplicated(f"whether the synchronous standbys have a commit is unknown: {error}") from error
