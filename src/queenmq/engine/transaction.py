"""Acks and pushes that happen together or not at all."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from queenmq.engine import ack
from queenmq.engine.arrays import ACK_ARGUMENTS, PLAIN, PUSH_ARGUMENTS, once
from queenmq.engine.database import Database
from queenmq.engine.drafts import Flush, IdKey, Original
from queenmq.engine.memory import History, Memory
from queenmq.engine.push import ATTEMPTS_MAX, Pusher
from queenmq.engine.requests import PushRequest
from queenmq.engine.waiting import Bell
from queenmq.errors import EncryptionRequired, InvalidArgument, PartitionNotFound, QueenError
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
            return await self._history.run(lambda memory: self._run(memory, acks, requests, required_leases))
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def close(self) -> None:
        """Finish what was accepted."""
        await self._idle.wait()

    async def _run(
        self, memory: Memory, acks: Sequence[Ack], requests: list[PushRequest], required_leases: Sequence[UUID]
    ) -> Sequence[Pushed]:
        told: dict[IdKey, Original] = {}
        for _ in range(ATTEMPTS_MAX):
            flush = await self._pusher.prepare(memory, requests, told)
            try:
                row = await self._call(acks, flush, required_leases)
                if row["first_offsets"] is None and flush.drafts:
                    told |= self._pusher.learn(flush, row)
                    continue
                return await self._done(acks, requests, flush, row)
            except (PartitionNotFound, EncryptionRequired) as refusal:
                await self._pusher.relearn(flush, refusal)
            finally:
                self._pusher.finish(flush)
        raise InvalidArgument("other writers kept pushing the same transaction ids; nothing was written")

    async def _done(self, acks: Sequence[Ack], requests: list[PushRequest], flush: Flush, row: Any) -> Sequence[Pushed]:
        answers = self._pusher.answers(requests, flush, row if flush.drafts else None)
        if acks:
            with contextlib.suppress(QueenError):  # it has happened, even if nobody can be woken for it now
                for queue in await self._database.rows(QUEUES, list({each.partition_id for each in acks})):
                    self._bell.ring(queue["name"])
        return answers[0] if answers else []

    async def _call(self, acks: Sequence[Ack], flush: Flush, required_leases: Sequence[UUID]) -> Any:
        arguments = [*ack.arguments(ack.gather(acks)), list(required_leases), *self._pusher.arguments(flush)]

        async def call(call_id: int) -> Any:
            return await self._database.row(TRANSACT, *arguments, call_id, repeatable=False)

        async def outcome() -> Any:
            return {"first_offsets": None} if await self._database.value(HAPPENED, flush.id) else None

        if flush.drafts:
            return await self._pusher.write(flush, call)
        return await self._database.once(call, outcome)
