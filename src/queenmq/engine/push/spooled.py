"""Store messages from spool files, each once.

The transaction that stores the messages also moves the position of the file (queen.push_spooled). So the call may be
repeated until it is answered, by this process or by the next one.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import UUID

from queenmq.engine.memory import History
from queenmq.engine.postgres.database import Database
from queenmq.engine.postgres.pg_arrays import PLAIN, PUSH_ARGUMENTS, parameters
from queenmq.engine.postgres.replication import BARRIER
from queenmq.engine.push.flush import Flush
from queenmq.engine.push.push_request import PushRequest
from queenmq.engine.push.pusher import FIND_FLUSH, Pusher
from queenmq.engine.waiting import Bell
from queenmq.errors import QueenError
from queenmq.model import FlushMark, Outgoing

PUSH = f"select * from queen.push_spooled({parameters(*[PLAIN] * 3, *PUSH_ARGUMENTS)})"  # noqa: S608 (ours)
POSITIONS = f"""
select segment_id, position, case when $2 then {BARRIER} end from queen.spool_positions where segment_id = any ($1)
"""  # noqa: S608 (ours)
FORGET = "delete from queen.spool_positions where segment_id = $1"


class PositionMoved(QueenError):
    """The file is at another position than the caller expected."""

    def __init__(self, reached: int) -> None:
        super().__init__(f"the spool file is at position {reached}")
        self.reached = reached


class Spooled:
    """Stores messages of spool files. A position is a number of messages of a file."""

    def __init__(self, database: Database, history: History, pusher: Pusher, bell: Bell) -> None:
        self._database = database
        self._history = history
        self._pusher = pusher
        self._bell = bell

    async def positions(self, segment_ids: Sequence[UUID], *, replicated: bool = False) -> dict[UUID, int]:
        """How many messages of each file are stored. Files of which nothing is stored are left out.

        With `replicated`, the synchronous standbys have these messages too, so the file may be deleted.
        """
        rows = await self._database.rows(POSITIONS, list(segment_ids), replicated)
        return {row["segment_id"]: row["position"] for row in rows}

    async def forget(self, segment_id: UUID) -> None:
        """Forget the position of a file that was deleted."""
        await self._database.rows(FORGET, segment_id)

    async def was_stored(self, mark: FlushMark) -> bool:
        """Whether a push happened before it was spooled."""
        if mark.call_id is not None:
            await self._database.abandon(mark.call_id)
        return bool(await self._database.rows(FIND_FLUSH, mark.partition_ids, mark.froms, mark.flush_id))

    async def store(self, segment_id: UUID, start: int, end: int, messages: Sequence[Outgoing]) -> None:
        """Push the messages and move the position from `start` to `end`. Without messages, only move it.

        Raises PositionMoved if the file is not at `start` any more, and what a push raises.
        """
        requests = [self._pusher.check(messages)] if messages else []
        try:
            await self._history.run(
                lambda memory: self._pusher.settle(
                    memory,
                    requests,
                    lambda flush: self._pusher.write(flush, partial(self._call, segment_id, start, end, flush)),
                    lambda flush, row: self._pusher.remember_and_answer(requests, flush, row),
                )
            )
        except PositionMoved:
            self._ring(requests)  # the process that stored the messages may have died before it rang
            raise

    async def _call(self, segment_id: UUID, start: int, end: int, flush: Flush, _call_id: int) -> Any:
        row = await self._database.row(PUSH, segment_id, start, end, *self._pusher.arguments(flush))
        duplicate = row["reached"] == start
        stored = row["reached"] == end and (row["first_offsets"] is not None or not flush.drafts)
        if not (duplicate or stored):
            raise PositionMoved(row["reached"])
        return row

    def _ring(self, requests: Sequence[PushRequest]) -> None:
        for queue in {queue for request in requests for queue, _ in request.targets}:
            self._bell.ring(queue)
