"""What is stored and what is at work, seen without the engine."""

import json
from typing import Any

from tests.fixtures.proxy import Fault, Proxy
from tests.waits import Deadline

LOG = """
select q.name as queue, p.name as partition, s.first_offset, s.payloads
  from queen.segments s join queen.partitions p on p.id = s.partition_id join queen.queues q on q.id = p.queue_id
 order by s.partition_id, s.first_offset
"""
WAITS_FOR_A_LOCK = """
select count(*) from pg_stat_activity
 where datname = current_database() and wait_event_type = 'Lock' and query like '%' || $1 || '%'
"""


async def stored(connection: Any) -> dict[tuple[str, str], list[Any]]:
    """The messages of every partition, in order, by queue and partition."""
    log: dict[tuple[str, str], list[Any]] = {}
    for row in await connection.fetch(LOG):
        messages = log.setdefault((row["queue"], row["partition"]), [])
        assert row["first_offset"] == len(messages), "offsets are dense"
        messages += json.loads(row["payloads"])
    return log


async def until_waiting(connection: Any, query: str, count: int = 1) -> None:
    """Wait until so many statements with this text wait for a lock."""
    deadline = Deadline(f"{count} statements with {query!r} wait for a lock")
    while await connection.fetchval(WAITS_FOR_A_LOCK, query) < count:
        deadline.check()


async def lost_at_work(proxy: Proxy, fault: Fault, watcher: Any) -> None:
    """The call of a connection that is cut (`fault`) waits for a lock when its engine hears of it, which ends it first.

    Whoever asks what became of the call before it has ended is told that nothing did, and is wrong.
    """
    await fault.happened()
    proxy.pause()
    await until_waiting(watcher, fault.pattern)
    end = proxy.hold_answer("queen.abandon_call")
    proxy.resume()
    await end.happened()
    end.let_through()
    await until_waiting(watcher, fault.pattern)  # the same call, once more
