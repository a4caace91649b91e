"""Push: requests that gather become one flush, one call, one commit.

To follow a push, read `Pusher` from the top: check, gather, settle (prepare, write, answer).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from queenmq.config import Settings
from queenmq.engine.batching import Batcher
from queenmq.engine.crypto import Cipher
from queenmq.engine.dedup.claims import Missed, ids_by_partition
from queenmq.engine.dedup.id_filter import NO_KEYS
from queenmq.engine.dedup.partition_ids import IdKey, Original, WrittenIds, give_keys, without_gaps
from queenmq.engine.memory import History, Memory
from queenmq.engine.postgres.database import Database
from queenmq.engine.postgres.outcome import OutcomeUnknown
from queenmq.engine.postgres.pg_arrays import PUSH_ARGUMENTS, lines, listed, once
from queenmq.engine.postgres.replication import BARRIER
from queenmq.engine.push.flush import Flush
from queenmq.engine.push.push_request import PushRequest, check, joined
from queenmq.engine.push.push_results import results
from queenmq.engine.push.segment_builder import Draft, build_segments
from queenmq.engine.segments import Segment
from queenmq.engine.waiting import Bell
from queenmq.errors import EncryptionRequired, InvalidArgument, PartitionNotFound, QueenError, Refused
from queenmq.model import FlushMark, Outgoing, Pushed
from queenmq.model.payloads import cut, json_array

ATTEMPTS_MAX = 10  # to settle with other writers of the same ids
FURTHER_MESSAGES = 1_000  # queued messages that start another call beside the one in flight
FLUSH_BYTES_MAX = 64 << 20  # of payloads in one call, unless a single request has more

PUSH = once("push_segments", *PUSH_ARGUMENTS)
FIND_FLUSH = "select * from queen.find_flush($1, $2, $3)"
EXISTING = f"""
select (select count(*) from queen.partition_lookup where partition_id = any ($1) and queen.check_incarnation($2)),
       case when $3 then {BARRIER} end
"""  # noqa: S608 (ours)
NOTHING_MISSED = dict.fromkeys(("missed_segments", "missed_offsets", "missed_times", "missed_ids"))

T = TypeVar("T")


class Pusher:
    """Takes messages from callers and appends them to their partitions."""

    def __init__(self, database: Database, settings: Settings, cipher: Cipher, history: History, bell: Bell) -> None:
        self._database = database
        self._settings = settings
        self._cipher = cipher
        self._history = history
        self._bell = bell
        self._calls = asyncio.Semaphore(settings.push_calls_max)
        self.batcher = Batcher(
            self._push_all,
            calls_max=settings.push_calls_max,
            weight=self._weight,
            weight_max=settings.push_messages_max,
            further_from=min(FURTHER_MESSAGES, settings.push_messages_max),
            ahead=1,
        )

    async def push(self, messages: Sequence[Outgoing]) -> Sequence[Pushed]:
        """Append messages, all or none. Returns where each is, in their order."""
        return await self.batcher.submit(self.check(messages)) if messages else []

    def check(self, messages: Sequence[Outgoing]) -> PushRequest:
        """Check the messages of one caller, so that a bad one fails no other caller."""
        return check(messages, self._history.memory.partitions, self._settings.payload_bytes_max)

    def _weight(self, request: PushRequest) -> int:
        """The share of a call that a request takes, by its messages or by its bytes."""
        return max(request.size, request.byte_count * self._settings.push_messages_max // FLUSH_BYTES_MAX)

    async def _push_all(self, requests: list[PushRequest]) -> Sequence[Sequence[Pushed] | QueenError]:
        def answer(flush: Flush, row: Any) -> Sequence[Sequence[Pushed]]:
            return self._answer(requests, flush, row)

        return await self._history.run(lambda memory: self.settle(memory, requests, self._write_in_turn, answer))

    async def settle(
        self,
        memory: Memory,
        requests: Sequence[PushRequest],
        write: Callable[[Flush], Awaitable[Any]],
        answer: Callable[[Flush, Any], T],
    ) -> T:
        """Prepare a flush and write it, again until no other writer of the same ids is in its way.

        `write` returns the row of the push function. Its `first_offsets` are None if PostgreSQL refused the flush,
        because others wrote some of its ids. `answer` gets the row, or None if only duplicates were pushed.
        """
        learned: dict[IdKey, Original] = {}
        for _ in range(ATTEMPTS_MAX):
            flush = await self._prepare(memory, requests, learned)
            try:
                row = await write(flush)
                if not flush.drafts or row["first_offsets"] is not None:
                    return answer(flush, row if flush.drafts else None)
                learned |= self._learn(flush, row)
            except (PartitionNotFound, EncryptionRequired) as refusal:
                await self._resolve_again(flush, refusal)
            finally:
                flush.claim.end()
        raise InvalidArgument("other writers kept pushing the same transaction ids; nothing was written")

    # -- before the call

    async def _prepare(self, memory: Memory, requests: Sequence[PushRequest], learned: dict[IdKey, Original]) -> Flush:
        """Join requests, resolve names, build segments, claim their ids, leave out duplicates.

        `learned`: originals that a refused call has named.
        """
        request = joined(requests)
        new_queues = await memory.partitions.resolve(request.targets)
        partitions = memory.partitions.of(request.targets)  # now: another call may forget them while this one waits
        drafts = build_segments(request, partitions)
        with_dedup = [each for each in drafts if each.ids is not None and each.has_window]
        ids = [(each.partition, without_gaps(each.ids or ())) for each in with_dedup]
        keys = give_keys(with_dedup, [own for _, own in ids]) if ids else NO_KEYS
        claim = await memory.dedup.claim(ids, keys)
        flush = Flush(memory, claim, request, drafts, new_queues)
        try:
            originals = claim.originals | learned
            if originals or claim.has_repeats:
                flush.drafts = build_segments(request, partitions, flush.leave_out(originals))
                give_keys([each for each in flush.drafts if each.has_window])
            if flush.drafts and request.ids is not None:
                flush.encode_ids()
            if await self._originals_exist(flush):
                return flush
        except BaseException:
            claim.end()
            raise
        claim.end()
        memory.partitions.drop(request.targets)
        return await self._prepare(memory, requests, {})

    async def _originals_exist(self, flush: Flush) -> bool:
        """Whether the partitions still exist in which duplicates have their originals: those come from memory.

        If nothing is left to write, this is the call that finds out whether the memory is of this incarnation. It also
        waits until the synchronous standbys have the originals.
        """
        if not flush.duplicates:
            return True
        asked = {partition.id for _, partition, _, _ in flush.duplicates}
        asked -= {draft.partition.id for draft in flush.drafts}  # for these, the push call finds out
        if not asked:
            return True
        incarnation, alone = flush.memory.incarnation, not flush.drafts
        return bool(await self._database.value(EXISTING, list(asked), incarnation, alone) == len(asked))

    async def _resolve_again(self, flush: Flush, refusal: PartitionNotFound | EncryptionRequired) -> None:
        """Look up the partitions again, because one was deleted, or because a queue is encrypted now."""
        encrypted = any(draft.partition.queue.encrypted for draft in flush.drafts)
        if isinstance(refusal, EncryptionRequired) and encrypted and not self._cipher.can_encrypt:
            raise refusal
        flush.memory.partitions.drop(flush.request.targets)
        await flush.memory.partitions.resolve(flush.request.targets)

    # -- the call

    async def _write_in_turn(self, flush: Flush) -> Any:
        """Write a flush of the batcher, beside a limited number of others."""
        if not flush.drafts:
            return None
        async with self._calls:
            flush.claim.refresh()
            with flush.memory.segments.making_room(flush.request.byte_count):
                row = await self.write(
                    flush, lambda call_id: self._database.row(PUSH, *self.arguments(flush), call_id, repeatable=False)
                )
            if row["first_offsets"] is not None:
                self._remember(flush, row)
        await asyncio.sleep(0)  # lets a flush that is ready go out before this one is answered
        return row

    async def write(self, flush: Flush, call: Callable[[int], Awaitable[Any]]) -> Any:
        """Make the call that writes a flush. If its answer is lost, find out what the call did."""
        # The offsets of now: other calls may move them later, and the segments that we look for lie above these.
        seen = {draft.partition.id: draft.partition.seen_offset for draft in flush.drafts}
        try:
            return await self._database.once(call, lambda: self._outcome(flush, seen))
        except Refused:
            raise
        except BaseException as error:
            flush.claim.doubt()
            if isinstance(error, OutcomeUnknown):
                error.mark = FlushMark(flush.id, list(seen), list(seen.values()), error.call_id)
            raise

    async def _outcome(self, flush: Flush, seen: dict[int, int]) -> dict[str, Any] | None:
        """What a call did whose answer was lost, or None if it did nothing."""
        rows = await self._database.rows(FIND_FLUSH, list(seen), list(seen.values()), flush.id)
        if not rows:
            return None
        flush.claim.lose_answer()
        return {
            "first_offsets": [row["first_offset"] for row in rows],
            "created_ats": [row["created_at"] for row in rows],
            "woken": list(seen),
            **NOTHING_MISSED,
        }

    def arguments(self, flush: Flush) -> list[Any]:
        """The arguments of queen.push_segments, for `parameters`; the last one is p_incarnation."""
        segments, request, claim = flush.drafts, flush.request, flush.claim
        encrypted = [draft.partition.queue.encrypted for draft in segments]
        any_encrypted = any(encrypted)
        return [
            listed([draft.partition.id for draft in segments]),
            listed([len(draft.indexes) for draft in segments]),
            [self._encrypted(draft) if any_encrypted else draft.array for draft in segments],
            flush.id_lines,
            lines([draft.traces for draft in segments]) if request.traces is not None else None,
            [draft.producer for draft in segments] if request.producers is not None else None,
            encrypted if any_encrypted else None,
            listed([claim.known.get(draft.partition.id) for draft in segments]) if request.ids is not None else None,
            flush.id,
            list(claim.beside) if request.ids is not None else None,
            lines([draft.headers for draft in segments]) if request.headers is not None else None,
            flush.memory.incarnation,
        ]

    def _encrypted(self, draft: Draft) -> bytes:
        if draft.partition.queue.encrypted:
            return json_array([self._cipher.encrypt(bytes(payload)) for payload in cut(draft.array)])
        return draft.array

    # -- after the call

    def remember_and_answer(
        self, requests: Sequence[PushRequest], flush: Flush, row: Any
    ) -> Sequence[Sequence[Pushed]]:
        """The results for each caller. Remembers the ids and segments on the way."""
        if row is not None:
            self._remember(flush, row)
        return self._answer(requests, flush, row)

    def _answer(self, requests: Sequence[PushRequest], flush: Flush, row: Any) -> Sequence[Sequence[Pushed]]:
        if row is not None:
            self._cache(flush, row)
            self._ring(flush, set(row["woken"] or ()))
        return results(requests, flush, row)

    def _learn(self, flush: Flush, row: Any) -> dict[IdKey, Original]:
        """Add the segments to the dedup window that the call has named. Returns originals of ids of this flush."""
        if not row["missed_segments"]:
            return {}
        missed = (
            Missed(flush.drafts[segment - 1].partition, *rest)
            for segment, *rest in zip(
                row["missed_segments"], row["missed_offsets"], row["missed_times"], row["missed_ids"], strict=True
            )
        )
        return flush.claim.learn(missed, ids_by_partition((draft.partition, draft.ids) for draft in flush.drafts))

    def _remember(self, flush: Flush, row: Any) -> None:
        """Add to the dedup window what the call has named, and what it has written."""
        self._learn(flush, row)
        flush.claim.remember(
            WrittenIds(draft.partition, first_offset, len(draft.indexes), draft.kept_ids or (), created_at, draft.keys)
            for draft, first_offset, created_at in flush.written(row)
        )

    def _cache(self, flush: Flush, row: Any) -> None:
        """Cache the segments that were written: most are popped soon."""
        flush.memory.segments.put(
            Segment(
                draft.partition.id,
                first_offset,
                len(draft.indexes),
                created_at,
                draft.array,
                draft.kept_ids,
                draft.traces,
                draft.headers,
                draft.producer,
            )
            for draft, first_offset, created_at in flush.written(row)
        )

    def _ring(self, flush: Flush, woken: set[int]) -> None:
        """Wake the polls of partitions for which a group was waiting, and of partitions that may be new."""
        if woken or flush.new_queues:
            queues: dict[str, int] = {}
            for partition_id, queue in {
                draft.partition.id: draft.partition.queue.name for draft in flush.drafts
            }.items():
                if partition_id in woken or queue in flush.new_queues:
                    queues[queue] = queues.get(queue, 0) + 1
            for queue, partitions in queues.items():
                self._bell.ring(queue, partitions)
