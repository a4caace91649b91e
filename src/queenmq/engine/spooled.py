"""Messages that a server kept in a file: stored from there, each once.

The file's position moves in the transaction that stores its messages (queen.push_spooled), so the call may be
repeated until it is answered, by this process or by the next one.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import UUID

from queenmq.engine.arrays import PLAIN, PUSH_ARGUMENTS, parameters
from queenmq.engine.database import Database
from queenmq.engine.drafts import Flush, IdKey, Original
from queenmq.engine.memory import History, Memory
from queenmq.engine.push import ATTEMPTS_MAX, FIND_FLUSH, Pusher
from queenmq.engine.replication import BARRIER
from queenmq.engine.requests import PushRequest
from queenmq.engine.waiting import Bell
from queenmq.errors import EncryptionRequired, InvalidArgument, PartitionNotFound, QueenError
from queenmq.model import FlushMark, Outgoing

PUSH = f"select * from queen.push_spooled({parameters(*[PLAIN] * 3, *PUSH_ARGUMENTS)})"  # noqa: S608 (ours)
POSITIONS = f"""
select segment_id, position, case when $2 then {BARRIER} end from queen.spool_positions where segment_id = any ($1)
"""  # noqa: S608 (ours)
FORGET = "delete from queen.spool_positions where segment_id = $1"


class PositionMoved(QueenError):
    """The file is not at the position it was thought to be at."""

    def __init__(self, reached: int) -> None:
        super().__init__(f"the spool file is at position {reached}")
        self.reached = reached


class Spooled:
    """Stores what lies in spool files; a segment is one file, a position is a number of messages."""

    def __init__(self, database: Database, history: History, pusher: Pusher, bell: Bell) -> None:
        self._database = database
        self._history = history
        self._pusher = pusher
        self._bell = bell

    async def positions(self, segment_ids: Sequence[UUID], *, replicated: bool = False) -> dict[UUID, int]:
        """How many messages of each file are stored; files are left out of which nothing is.

        With `replicated` they are on the synchronous standbys too, so that a file may be deleted.
        """
        rows = await self._database.rows(POSITIONS, list(segment_ids), replicated)
        return {row["segment_id"]: row["position"] for row in rows}

    async def forget(self, segment_id: UUID) -> None:
        """The file does not exist any more."""
        await self._database.rows(FORGET, segment_id)

    async def was_stored(self, mark: FlushMark) -> bool:
        """Whether a push happened before it was spooled."""
        if mark.call_id is not None:
            await self._database.abandon(mark.call_id)
        return bool(await self._database.rows(FIND_FLUSH, mark.partition_ids, mark.froms, mark.flush_id))

    async def store(self, segment_id: UUID, start: int, end: int, messages: Sequence[Outgoing]) -> None:
        """Push the messages and move from one position to the other; without messages, skip what lies there.

        Raises PositionMoved when that has happened already, or when others have moved on, and what push raises.
        """
        requests = [self._pusher.check(messages)] if messages else []
        await self._history.run(lambda memory: self._store_with(memory, segment_id, start, end, requests))

    async def _store_with(
        self, memory: Memory, segment_id: UUID, start: int, end: int, requests: Sequence[PushRequest]
    ) -> None:
        told: dict[IdKey, Original] = {}
        for _ in range(ATTEMPTS_MAX):
            flush = await self._pusher.prepare(memory, requests, told)
            try:
                row = await self._pusher.write(flush, partial(self._call, segment_id, start, end, flush))
                if row["reached"] == end:
                    self._pusher.answers(requests, flush, row if flush.drafts else None)
                    return
                told |= self._pusher.learn(flush, row)
            except (PartitionNotFound, EncryptionRequired) as refusal:
                await self._pusher.relearn(flush, refusal)
            except PositionMoved:
                self._ring(requests)  # who stored it may have had no time to
                raise
            finally:
                self._pusher.finish(flush)
        raise InvalidArgument("other writers kept pushing the same transaction ids; nothing was written")

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
