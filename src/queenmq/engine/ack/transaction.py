"""Acks and pushes that happen together or not at all."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from queenmq.engine.ack import acker as ack
from queenmq.engine.memory import History, Memory
from queenmq.engine.postgres.database import Database
from queenmq.engine.postgres.pg_arrays import ACK_ARGUMENTS, PLAIN, PUSH_ARGUMENTS, once
from queenmq.engine.push.flush import Flush
from queenmq.engine.push.push_request import PushRequest
from queenmq.engine.push.pusher import Pusher
from queenmq.engine.waiting import Bell
from queenmq.errors import QueenError
from queenmq.model import Ack, Outgoing, Pushed

TRANSACT = once("transact", *ACK_ARGUMENTS, PLAIN, *PUSH_ARGUMENTS)
QUEUES = """
select distinct q.name from queen.partitions p join queen.queues q on q.id = p.queue_id where p.id = any ($1)
"""

HAPPENED = "select exists (select from queen.calls where id = $1)"


class Transactor:
    """Runs transactions, one call each."""

    def __init__(self, database: Database, history: History, pusher: Pusher, bell: Bell) -> None:
        self._database = database
        self._history = history
        self._pusher = pusher
        self._bell = bell
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def run(
        self, acks: Sequence[Ack], messages: Sequence[Outgoing], required_leases: Sequence[UUID] = ()
    ) -> Sequence[Pushed]:
        """Acknowledge and push, all or nothing; answers for the messages, in order."""
        self._running += 1
        self._idle.clear()
        try:
            ack.check(acks)
            requests = [self._pusher.check(messages)] if messages else []
            answers = await self._history.run(lambda memory: self._run(memory, acks, requests, required_leases))
            await self._wake(acks)
            return answers[0] if answers else []
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def close(self) -> None:
        """Finish what was accepted."""
        await self._idle.wait()

    async def _run(
        self, memory: Memory, acks: Sequence[Ack], requests: list[PushRequest], required_leases: Sequence[UUID]
    ) -> Sequence[Sequence[Pushed]]:
        return await self._pusher.settle(
            memory,
            requests,
            lambda flush: self._call(acks, flush, required_leases),
            lambda flush, row: self._pusher.remember_and_answer(requests, flush, row),
        )

    async def _wake(self, acks: Sequence[Ack]) -> None:
        """Wake the polls of the queues whose partitions are free again."""
        if acks:
            with contextlib.suppress(QueenError):  # the transaction has happened, even if no poll can be woken now
                for queue in await self._database.rows(QUEUES, list({each.partition_id for each in acks})):
                    self._bell.ring(queue["name"])

    async def _call(self, acks: Sequence[Ack], flush: Flush, required_leases: Sequence[UUID]) -> Any:
        arguments = [*ack.arguments(ack.gather(acks)), list(required_leases), *self._pusher.arguments(flush)]

        async def call(call_id: int) -> Any:
            return await self._database.row(TRANSACT, *arguments, call_id, repeatable=False)

        async def outcome() -> Any:
            return {"first_offsets": None} if await self._database.value(HAPPENED, flush.id) else None

        if flush.drafts:
            return await self._pusher.write(flush, call)
        return await self._database.once(call, outcome)
