"""Push: requests that gather become one flush, one call, one commit.

A flush groups its messages by partition into segments, leaves out duplicates by the ids it knows, and appends all
of it or nothing. When the answer is lost on the way, the flush id tells whether it was written.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import uuid4

import numpy as np

from queenmq.config import Settings
from queenmq.engine import drafts
from queenmq.engine.answers import answered, written
from queenmq.engine.arrays import PUSH_ARGUMENTS, lines, listed, once
from queenmq.engine.batching import Batcher
from queenmq.engine.crypto import Cipher
from queenmq.engine.database import Database
from queenmq.engine.drafts import NO_KEYS, Draft, Flush, IdKey, Keys, Original
from queenmq.engine.keys import among
from queenmq.engine.memory import History, Memory
from queenmq.engine.originals import PartitionIds, told_ids
from queenmq.engine.outcome import OutcomeUnknown
from queenmq.engine.recent_ids import WrittenIds, give_keys
from queenmq.engine.replication import BARRIER
from queenmq.engine.requests import PushRequest, check, end_to_end, given
from queenmq.engine.segments import Segment
from queenmq.engine.waiting import Bell
from queenmq.errors import EncryptionRequired, InvalidArgument, PartitionNotFound, QueenError, Refused
from queenmq.model import FlushMark, Outgoing, Pushed
from queenmq.model.payloads import cut, json_array

ATTEMPTS_MAX = 10  # to settle with other writers of the same ids
FURTHER_MESSAGES = 1_000  # that wait, before a further call goes out beside the one in flight
FLUSH_BYTES_MAX = 64 << 20  # of payloads in one call, unless a single request has more

PUSH = once("push_segments", *PUSH_ARGUMENTS)
FIND_FLUSH = "select * from queen.find_flush($1, $2, $3)"
EXISTING = f"""
select (select count(*) from queen.partition_lookup where partition_id = any ($1) and queen.check_incarnation($2)),
       case when $3 then {BARRIER} end
"""  # noqa: S608 (ours)
NOTHING_MISSED = dict.fromkeys(("missed_segments", "missed_offsets", "missed_times", "missed_ids"))


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
        """Append messages, all or none; answers in their order."""
        return await self.batcher.submit(self.check(messages)) if messages else []

    def check(self, messages: Sequence[Outgoing]) -> PushRequest:
        """Refuse what cannot be pushed before it meets other requests."""
        return check(messages, self._history.memory.partitions, self._settings.payload_bytes_max)

    def _weight(self, request: PushRequest) -> int:
        """What a request fills of a call, by its messages or by its bytes."""
        return max(request.size, request.byte_count * self._settings.push_messages_max // FLUSH_BYTES_MAX)

    async def _push_all(self, requests: list[PushRequest]) -> Sequence[Sequence[Pushed] | QueenError]:
        return await self._history.run(lambda memory: self._push_with(memory, requests))

    async def _push_with(self, memory: Memory, requests: list[PushRequest]) -> Sequence[Sequence[Pushed] | QueenError]:
        told: dict[IdKey, Original] = {}
        for _ in range(ATTEMPTS_MAX):
            flush = await self.prepare(memory, requests, told)
            try:
                row = await self._write(flush) if flush.drafts else None
                if row is None or row["first_offsets"] is not None:
                    return self._told(requests, flush, row)
                told |= self.learn(flush, row)
            except (PartitionNotFound, EncryptionRequired) as refusal:
                await self.relearn(flush, refusal)
            finally:
                self.finish(flush)
        raise InvalidArgument("other writers kept pushing the same transaction ids; nothing was written")

    # -- before the call

    async def prepare(self, memory: Memory, requests: Sequence[PushRequest], told: dict[IdKey, Original]) -> Flush:
        """Resolve names, group into segments, learn the ids of their partitions, leave out duplicates.

        `told`: originals that a refused call has named.
        """
        request = end_to_end(requests)
        looked_up = await memory.partitions.resolve(request.targets)
        partitions = memory.partitions.of(request.targets)  # as of now: others may forget them while we wait
        segments = drafts.segmented(request, partitions)
        ids: list[PartitionIds] = []
        keys, originals = NO_KEYS, told
        if request.ids is not None:
            fresh = [each for each in segments if each.ids is not None and each.has_window]
            ids = [(each.partition, given(each.ids or ())) for each in fresh]
            keys = give_keys(fresh, [own for _, own in ids])
            originals = await memory.originals.find(ids, keys, lambda: _clash(memory, keys)) | told
        done = asyncio.get_running_loop().create_future()
        flush = Flush(uuid4(), memory, done, request, np.sort(keys), segments, looked_up, memory.window.lessons)
        if originals or (flush.keys[1:] == flush.keys[:-1]).any():
            flush.drafts = drafts.segmented(request, partitions, self._left_out(flush, originals))
            give_keys([each for each in flush.drafts if each.has_window])
        if flush.drafts and request.ids is not None:
            flush.encode_ids()
        for partition, _ in ids:
            entry = memory.window.get(partition.id)
            if entry is not None:
                flush.entries[partition.id] = entry
                flush.expected[partition.id] = entry.known
        self._begin(flush)
        try:
            if await self._originals_exist(flush):
                return flush
        except BaseException:
            self.finish(flush)
            raise
        self.finish(flush)
        memory.partitions.drop(request.targets)
        return await self.prepare(memory, requests, {})

    def _left_out(self, flush: Flush, originals: dict[IdKey, Original]) -> set[int]:
        """Where messages are that are there already, or come earlier in this flush; they are noted."""
        left_out: set[int] = set()
        taken: set[IdKey] = set()
        for draft in flush.drafts:
            if draft.ids is None or not draft.has_window:
                continue
            for place, id in zip(draft.places, draft.ids, strict=True):
                if id is None:
                    continue
                key = draft.partition.id, id
                if key in originals:
                    flush.duplicates.append((place, draft.partition, id, originals[key]))
                    left_out.add(place)
                elif key in taken:
                    flush.repeats.append((place, draft.partition, id))
                    left_out.add(place)
                else:
                    taken.add(key)
        return left_out

    def _begin(self, flush: Flush) -> None:
        """From here until it is finished, this flush and the others in flight know of each other."""
        in_flight = flush.memory.in_flight
        flush.beside.update(in_flight)
        for other in in_flight.values():
            other.beside.add(flush.id)
        in_flight[flush.id] = flush
        flush.memory.window.begin(flush.id, flush.keys)

    async def _originals_exist(self, flush: Flush) -> bool:
        """Duplicates are found in memory; a partition that holds their originals may have been deleted.

        Where nothing is left to write, this is the call that finds out whether the memory is of this incarnation.
        Then it also waits until the synchronous standbys have the originals.
        """
        if not flush.duplicates:
            return True
        asked = {partition.id for _, partition, _, _ in flush.duplicates}
        asked -= {draft.partition.id for draft in flush.drafts}  # of these the call will tell
        if not asked:
            return True
        incarnation, alone = flush.memory.incarnation, not flush.drafts
        return bool(await self._database.value(EXISTING, list(asked), incarnation, alone) == len(asked))

    def finish(self, flush: Flush) -> None:
        """The flush is over, one way or the other: those who wait for its ids may look again."""
        if flush.memory.in_flight.pop(flush.id, None) is not None:
            flush.memory.window.end(flush.id)
            flush.done.set_result(None)

    async def relearn(self, flush: Flush, refusal: PartitionNotFound | EncryptionRequired) -> None:
        """What we knew of these queues is out of date: a partition is gone, or encryption came."""
        encrypted = any(draft.partition.queue.encrypted for draft in flush.drafts)
        if isinstance(refusal, EncryptionRequired) and encrypted and not self._cipher.can_encrypt:
            raise refusal
        flush.memory.partitions.drop(flush.request.targets)
        await flush.memory.partitions.resolve(flush.request.targets)

    # -- the call

    def arguments(self, flush: Flush) -> list[Any]:
        """The arguments of queen.push_segments, for `parameters`; the last one is p_incarnation."""
        segments, request = flush.drafts, flush.request
        encrypted = [draft.partition.queue.encrypted for draft in segments]
        seals = any(encrypted)
        return [
            listed([draft.partition.id for draft in segments]),
            listed([len(draft.places) for draft in segments]),
            [self._sealed(draft) if seals else draft.array for draft in segments],
            flush.id_lines,
            lines([draft.traces for draft in segments]) if request.traces is not None else None,
            [draft.producer for draft in segments] if request.producers is not None else None,
            encrypted if seals else None,
            listed([flush.expected.get(draft.partition.id) for draft in segments]) if request.ids is not None else None,
            flush.id,
            list(flush.beside) if request.ids is not None else None,
            lines([draft.headers for draft in segments]) if request.headers is not None else None,
            flush.memory.incarnation,
        ]

    def _sealed(self, draft: Draft) -> bytes:
        if draft.partition.queue.encrypted:
            return json_array([self._cipher.encrypt(bytes(payload)) for payload in cut(draft.array)])
        return draft.array

    async def _write(self, flush: Flush) -> Any:
        async with self._calls:
            self._expect_more(flush)
            with flush.memory.segments.making_room(flush.request.byte_count):
                row = await self.write(
                    flush, lambda call_id: self._database.row(PUSH, *self.arguments(flush), call_id, repeatable=False)
                )
            if row["first_offsets"] is not None:
                self._remember(flush, row)
        await asyncio.sleep(0)  # a flush that is ready goes out before this one is answered
        return row

    def _expect_more(self, flush: Flush) -> None:
        """Flushes that were beside this one have come back: their ids need not be looked at, ours are not among them.

        Unless we were told of others' ids since, with which ours were not compared.
        """
        window = flush.memory.window
        if flush.lessons == window.lessons:
            get, entries = window.get, flush.entries
            flush.expected = {
                id: entry.known if (entry := get(id)) is not None and entry is entries[id] else known
                for id, known in flush.expected.items()
            }

    async def write(self, flush: Flush, call: Callable[[int], Awaitable[Any]]) -> Any:
        """Make the call that writes a flush; when its answer is lost, find out what it did."""
        # As of now: later our other calls may have seen more, and what we look for lies before that.
        seen = {draft.partition.id: draft.partition.seen_offset for draft in flush.drafts}
        try:
            return await self._database.once(call, lambda: self._outcome(flush, seen))
        except Refused:
            raise
        except BaseException as error:
            self._doubt(flush)
            if isinstance(error, OutcomeUnknown):
                error.mark = FlushMark(flush.id, list(seen), list(seen.values()), error.call_id)
            raise

    async def _outcome(self, flush: Flush, seen: dict[int, int]) -> dict[str, Any] | None:
        """What a call did whose answer was lost; None when it did nothing."""
        rows = await self._database.rows(FIND_FLUSH, list(seen), list(seen.values()), flush.id)
        if not rows:
            return None
        flush.expected.clear()  # what the call had to tell of others' ids was lost with its answer
        return {
            "first_offsets": [row["first_offset"] for row in rows],
            "created_ats": [row["created_at"] for row in rows],
            "woken": list(seen),
            **NOTHING_MISSED,
        }

    def _doubt(self, flush: Flush) -> None:
        """Nobody told us whether this flush was written: from where it began we know nothing for sure.

        Our other calls were told of all ids but these, because we said that we knew them.
        """
        for partition_id, expected in list(flush.expected.items()):
            entry = flush.memory.window.get(partition_id)
            if entry is not None:
                entry.known = min(entry.known, expected)
            for other in flush.memory.in_flight.values():
                other.expected.pop(partition_id, None)

    # -- after the call

    def learn(self, flush: Flush, row: Any) -> dict[IdKey, Original]:
        """Take in the ids that others wrote since we looked; answers those that are also in the flush.

        Where there are too many to be told we know nothing any more, and read them before the next call.
        """
        originals: dict[IdKey, Original] = {}
        if not row["missed_segments"]:
            return originals
        ours: dict[int, set[str | None]] = defaultdict(set)
        for draft in flush.drafts:
            ours[draft.partition.id].update(draft.ids or ())
        missed: list[WrittenIds] = []
        for segment, offset, created_at, ids in zip(
            row["missed_segments"], row["missed_offsets"], row["missed_times"], row["missed_ids"], strict=True
        ):
            partition = flush.drafts[segment - 1].partition
            if ids is None:
                flush.memory.window.drop(partition.id)
                partition.seen_offset = max(partition.seen_offset, offset)
            else:
                missed.append(told_ids(partition, offset, ids, created_at))
        flush.memory.window.learn(missed)
        for each in missed:
            for offset, id in enumerate(each.ids, each.first_offset):
                if id is not None and id in ours[each.partition.id]:
                    originals[each.partition.id, id] = Original(offset, each.created_at)
        return originals

    def answers(self, requests: Sequence[PushRequest], flush: Flush, row: Any) -> Sequence[Sequence[Pushed]]:
        """What every caller is told; the segments and ids are remembered on the way."""
        if row is not None:
            self._remember(flush, row)
        return self._told(requests, flush, row)

    def _told(self, requests: Sequence[PushRequest], flush: Flush, row: Any) -> Sequence[Sequence[Pushed]]:
        if row is not None:
            self._keep(flush, row)
            self._ring(flush, set(row["woken"] or ()))
        return answered(requests, flush, row)

    def _ring(self, flush: Flush, woken: set[int]) -> None:
        """Wake polls where a group was waiting, and where a partition is so new that no group could be."""
        if woken or flush.looked_up:
            queues: dict[str, int] = {}
            for partition_id, queue in {
                draft.partition.id: draft.partition.queue.name for draft in flush.drafts
            }.items():
                if partition_id in woken or queue in flush.looked_up:
                    queues[queue] = queues.get(queue, 0) + 1
            for queue, partitions in queues.items():
                self._bell.ring(queue, partitions)

    def _remember(self, flush: Flush, row: Any) -> None:
        """Keep the ids that were written, and those that we were told of, for those who push them again."""
        self.learn(flush, row)
        remembered: list[WrittenIds] = []
        window, entries, expected = flush.memory.window, flush.entries, flush.expected
        for draft, first_offset, created_at in written(flush, row):
            partition, count = draft.partition, len(draft.places)
            partition.seen_offset = max(partition.seen_offset, first_offset + count)
            entry = window.get(partition.id)
            if entry is None:
                continue
            if draft.ids is not None and partition.id not in entries:
                window.drop(partition.id)  # nobody asked for these ids to be new: they are not among our keys
                continue
            # The call has looked at, and told, all below our segment; but not to one who began to listen later.
            if entry.known < first_offset and entries.get(partition.id) is entry and partition.id in expected:
                entry.catch_up(first_offset)
            remembered.append(WrittenIds(partition, first_offset, count, draft.kept_ids or (), created_at, draft.keys))
        window.add(remembered)

    def _keep(self, flush: Flush, row: Any) -> None:
        """Keep the segments that were written, for those who pop them next."""
        flush.memory.segments.put(
            Segment(
                draft.partition.id,
                first_offset,
                len(draft.places),
                created_at,
                draft.array,
                draft.kept_ids,
                draft.traces,
                draft.headers,
                draft.producer,
            )
            for draft, first_offset, created_at in written(flush, row)
        )


def _clash(memory: Memory, keys: Keys) -> Flush | None:
    """A flush in flight that seems to carry one of our ids: its outcome decides about ours."""
    return next((flush for flush in memory.in_flight.values() if among(flush.keys, keys).any()), None)
