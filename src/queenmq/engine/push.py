"""Push: requests that gather become one flush, one call, one commit.

A flush groups its messages by partition into segments, drops duplicates by the ids it knows, and appends all of it
or nothing. When the answer is lost on the way, the flush id tells whether it was written.
"""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import msgspec
from msgspec import Raw, Struct

from queenmq.config import Settings
from queenmq.engine.batching import Batcher
from queenmq.engine.crypto import Cipher
from queenmq.engine.database import Database, OutcomeUnknown
from queenmq.engine.dedup import DedupWindow, Original
from queenmq.engine.partitions import Name, PartitionInfo, Partitions, check_name
from queenmq.engine.segments import Segment, SegmentCache, cut
from queenmq.engine.waiting import Bell
from queenmq.errors import (
    EncryptionRequired,
    InvalidArgument,
    InvalidPayload,
    PartitionNotFound,
    PayloadTooLarge,
    QueenError,
)
from queenmq.model import Outgoing, Pushed

SEGMENT_MESSAGES_MAX = 1_000
SEGMENT_BYTES_MAX = 1 << 20
ATTEMPTS_MAX = 10  # to settle with other writers of the same ids
TRANSACTION_ID_CHARACTERS_MAX = 255

PUSH = "select * from queen.push_segments($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
RECENT = "select * from queen.recent_ids($1)"
FIND_IDS = "select * from queen.find_ids($1, $2)"
FIND_FLUSH = "select * from queen.find_flush($1, $2, $3)"

_ids = msgspec.json.Decoder(list[str | None])


class PushRequest(Struct):
    """The messages of one caller, checked; payloads are cut out and known to be JSON."""

    messages: Sequence[Outgoing]
    payloads: list[Raw]
    has_ids: bool
    has_traces: bool


class Draft(Struct):
    """A segment in the making: messages of one partition from one producer."""

    partition: PartitionInfo
    producer: str | None
    payloads: list[Raw] = []
    ids: list[str | None] = []
    traces: list[UUID | None] = []
    places: list[tuple[int, int]] = []  # request, message: who gets the answer
    bytes: int = 0


class Flush(Struct):
    """One push call: its drafts, and the duplicates that were left out."""

    id: UUID
    drafts: list[Draft]
    duplicates: list[tuple[tuple[int, int], PartitionInfo, Original]]
    repeats: list[tuple[tuple[int, int], tuple[int, int]]]  # the same id twice in this flush: place, first place
    ids: dict[int, set[str]]  # by partition id
    expected: dict[int, int]
    done: asyncio.Future[None]
    has_ids: bool
    has_traces: bool


class Pusher:
    """Takes messages from callers and appends them to their partitions."""

    def __init__(self, database: Database, settings: Settings, cipher: Cipher, cache: SegmentCache, bell: Bell) -> None:
        self.partitions = Partitions(database)
        self._database = database
        self._settings = settings
        self._cipher = cipher
        self._cache = cache
        self._bell = bell
        self._window = DedupWindow(settings.dedup_ids_max)
        self._in_flight: dict[UUID, Flush] = {}
        self.batcher = Batcher(
            self._push_all,
            calls_max=settings.push_calls_max,
            weight=lambda request: len(request.messages),
            weight_max=settings.push_messages_max,
        )

    async def push(self, messages: Sequence[Outgoing]) -> list[Pushed]:
        """Append messages, all or none; answers in their order."""
        if not messages:
            return []
        return await self.batcher.submit(self.check(messages))

    def check(self, messages: Sequence[Outgoing]) -> PushRequest:
        """Refuse what cannot be pushed before it meets other requests."""
        known = self.partitions.get
        has_ids = has_traces = False
        for message in messages:
            if known((message.queue, message.partition)) is None:
                check_name(message.queue, "queue")
                check_name(message.partition, "partition")
            if message.transaction_id is not None:
                _check_transaction_id(message.transaction_id)
                has_ids = True
            if message.trace_id is not None:
                has_traces = True
        payloads = _cut_payloads([message.payload for message in messages], self._settings.payload_bytes_max)
        return PushRequest(messages, payloads, has_ids, has_traces)

    async def _push_all(self, requests: list[PushRequest]) -> Sequence[list[Pushed] | QueenError]:
        flush = await self.prepare(requests)
        try:
            for _ in range(ATTEMPTS_MAX):
                row = await self._write(flush) if flush.drafts else None
                if row is None or row["first_offsets"] is not None:
                    return self.answers(requests, flush, row)
                self.learn(flush, row)
                self.finish(flush)
                flush = await self.prepare(requests)
            raise InvalidArgument("other writers kept pushing the same transaction ids; nothing was written")
        except PartitionNotFound:
            for queue in {message.queue for request in requests for message in request.messages}:
                self.partitions.forget(queue)
            self.finish(flush)
            return await self._push_all(requests)
        except EncryptionRequired:
            if any(draft.partition.queue.encrypted for draft in flush.drafts):
                raise
            await self.partitions.refresh()
            self.finish(flush)
            return await self._push_all(requests)
        finally:
            self.finish(flush)

    # -- before the call

    async def prepare(self, requests: Sequence[PushRequest]) -> Flush:
        """Resolve names, learn the ids of the partitions, leave out duplicates, group into segments."""
        names = {(m.queue, m.partition) for request in requests for m in request.messages}
        for queue in await self.partitions.resolve(names):
            self._bell.ring(queue)
        has_ids = any(request.has_ids for request in requests)
        if has_ids:
            await self._load_windows(requests)
            suspects = await self._look_up_suspects(requests)
            while flush := self._clash(requests):
                await asyncio.shield(flush.done)
        else:
            suspects = {}
        flush = Flush(
            uuid4(),
            [],
            [],
            [],
            {},
            {},
            asyncio.get_running_loop().create_future(),
            has_ids,
            any(request.has_traces for request in requests),
        )
        self._draft(requests, flush, suspects)
        self._in_flight[flush.id] = flush
        return flush

    def finish(self, flush: Flush) -> None:
        """The flush is over, one way or the other: those who wait for its ids may look again."""
        if self._in_flight.pop(flush.id, None) is not None:
            flush.done.set_result(None)

    def _partition(self, message: Outgoing) -> PartitionInfo:
        found = self.partitions.get((message.queue, message.partition))
        assert found is not None, "resolved before"
        return found

    def _with_ids(self, requests: Iterable[PushRequest]) -> Iterable[tuple[Outgoing, PartitionInfo, str]]:
        for request in requests:
            if request.has_ids:
                for message in request.messages:
                    if message.transaction_id is not None:
                        yield message, self._partition(message), message.transaction_id

    async def _load_windows(self, requests: Sequence[PushRequest]) -> None:
        """Read the recent ids of partitions that we know nothing of."""
        unknown = {p.id: p for _, p, _ in self._with_ids(requests) if self._window.get(p.id) is None}
        for partition in list(unknown.values()):
            if partition.seen_offset == 0:
                self._window.start(partition.id, 0)
                del unknown[partition.id]
        if not unknown:
            return
        started: set[int] = set()
        for row in await self._database.rows(RECENT, list(unknown)):
            partition = unknown[row["partition_id"]]
            if partition.id not in started:
                self._window.start(partition.id, row["next_offset"])
                started.add(partition.id)
            if row["transaction_ids"] is not None:
                self._told(partition, row["first_offset"], row["transaction_ids"], row["created_at"])

    async def _look_up_suspects(self, requests: Sequence[PushRequest]) -> dict[tuple[int, str], Original]:
        """Ask the log about ids whose hash was seen before."""
        by_partition: dict[int, list[str]] = {}
        for _, partition, id in self._with_ids(requests):
            by_partition.setdefault(partition.id, []).append(id)
        asked: list[tuple[int, str]] = []
        for partition_id, ids in by_partition.items():
            entry = self._window.get(partition_id)
            if entry is not None:
                asked += [(partition_id, id) for id in entry.suspects(ids)]
        if not asked:
            return {}
        rows = await self._database.rows(FIND_IDS, [a[0] for a in asked], [a[1] for a in asked])
        return {asked[row["item"] - 1]: Original(row["offset"], row["created_at"]) for row in rows}

    def _clash(self, requests: Sequence[PushRequest]) -> Flush | None:
        """A flush in flight that carries one of our ids: its outcome decides about ours."""
        if self._in_flight:
            for _, partition, id in self._with_ids(requests):
                for flush in self._in_flight.values():
                    if id in flush.ids.get(partition.id, ()):
                        return flush
        return None

    def _draft(self, requests: Sequence[PushRequest], flush: Flush, suspects: dict[tuple[int, str], Original]) -> None:
        drafts: dict[tuple[int, str | None], Draft] = {}
        firsts: dict[tuple[int, str], tuple[int, int]] = {}
        now = datetime.now(UTC)
        partitions: dict[Name, PartitionInfo] = {}
        for r, request in enumerate(requests):
            for m, message in enumerate(request.messages):
                name = (message.queue, message.partition)
                partition = partitions.get(name) or partitions.setdefault(name, self._partition(message))
                id = message.transaction_id
                if id is not None:
                    key = (partition.id, id)
                    if key in firsts:
                        flush.repeats.append(((r, m), firsts[key]))
                        continue
                    original = self._original(partition, id, now) or suspects.get(key)
                    if original is not None:
                        flush.duplicates.append(((r, m), partition, original))
                        continue
                    firsts[key] = (r, m)
                    flush.ids.setdefault(partition.id, set()).add(id)
                draft = drafts.get((partition.id, message.producer))
                if draft is None or len(draft.places) >= SEGMENT_MESSAGES_MAX or draft.bytes >= SEGMENT_BYTES_MAX:
                    draft = drafts[partition.id, message.producer] = Draft(partition, message.producer)
                    flush.drafts.append(draft)
                payload = request.payloads[m]
                draft.payloads.append(payload)
                draft.places.append((r, m))
                draft.bytes += len(message.payload)
                if flush.has_ids:
                    draft.ids.append(id)
                if flush.has_traces:
                    draft.traces.append(message.trace_id)
        flush.drafts.sort(key=lambda draft: draft.partition.id)
        for partition_id in flush.ids:
            entry = self._window.get(partition_id)
            if entry is not None:
                flush.expected[partition_id] = entry.known

    def _original(self, partition: PartitionInfo, id: str, now: datetime) -> Original | None:
        entry = self._window.get(partition.id)
        original = entry.original(id) if entry is not None else None
        if original is not None and original.created_at < now - partition.queue.dedup_window:
            return None
        return original

    # -- the call

    def arguments(self, flush: Flush) -> list[Any]:
        """The arguments of queen.push_segments."""
        drafts = flush.drafts
        return [
            [draft.partition.id for draft in drafts],
            [len(draft.places) for draft in drafts],
            [self._sealed(draft) for draft in drafts],
            [_texts(draft.ids) for draft in drafts] if flush.has_ids else None,
            [_texts(draft.traces) for draft in drafts] if flush.has_traces else None,
            [draft.producer for draft in drafts] if any(draft.producer for draft in drafts) else None,
            [draft.partition.queue.encrypted for draft in drafts],
            [flush.expected.get(draft.partition.id) for draft in drafts] if flush.has_ids else None,
            flush.id,
            [id for id in self._in_flight if id != flush.id] if flush.has_ids else None,
        ]

    def _sealed(self, draft: Draft) -> bytes:
        payloads: Iterable[Raw | bytes] = draft.payloads
        if draft.partition.queue.encrypted:
            payloads = [self._cipher.encrypt(bytes(payload)) for payload in draft.payloads]
        return b"[" + b",".join(payloads) + b"]"

    async def _write(self, flush: Flush) -> Any:
        while True:
            try:
                return await self._database.row(PUSH, *self.arguments(flush), repeatable=False)
            except OutcomeUnknown as lost:
                if row := await self.outcome(flush, lost):
                    return row

    async def outcome(self, flush: Flush, lost: OutcomeUnknown) -> dict[str, Any] | None:
        """What a call did whose answer was lost; None when it did nothing."""
        await self._database.end_backend(lost.backend)
        ids = {draft.partition.id: draft.partition.seen_offset for draft in flush.drafts}
        rows = await self._database.rows(FIND_FLUSH, list(ids), list(ids.values()), flush.id)
        if not rows:
            return None
        return {
            "first_offsets": [row["first_offset"] for row in rows],
            "created_ats": [row["created_at"] for row in rows],
            "woken": list(ids),
            "missed_segments": None,
            "missed_offsets": None,
            "missed_times": None,
            "missed_ids": None,
        }

    # -- after the call

    def learn(self, flush: Flush, row: Any) -> None:
        """Take in the ids that others wrote since we looked."""
        for segment, first_offset, created_at, ids in zip(
            row["missed_segments"] or (),
            row["missed_offsets"] or (),
            row["missed_times"] or (),
            row["missed_ids"] or (),
            strict=True,
        ):
            self._told(flush.drafts[segment - 1].partition, first_offset, ids, created_at)

    def _told(self, partition: PartitionInfo, first_offset: int, ids: str, created_at: datetime) -> None:
        texts = _ids.decode(ids)
        self._window.add(partition.id, first_offset, len(texts), texts, created_at, partition.queue.dedup_window)

    def answers(self, requests: Sequence[PushRequest], flush: Flush, row: Any) -> list[list[Pushed]]:
        """What every caller is told; the segments and ids are remembered on the way."""
        answers: list[list[Any]] = [[None] * len(request.messages) for request in requests]
        if row is not None:
            self.learn(flush, row)
            for draft, first_offset, created_at in zip(
                flush.drafts, row["first_offsets"], row["created_ats"], strict=True
            ):
                self._remember(draft, first_offset, created_at, flush)
                partition_id = draft.partition.id
                ids: Sequence[str | None] = draft.ids or [None] * len(draft.places)
                offset = first_offset
                for (r, m), id in zip(draft.places, ids, strict=True):
                    answers[r][m] = Pushed(partition_id, offset, created_at, id)
                    offset += 1
            woken = set(row["woken"] or ())
            for queue in {d.partition.queue.name for d in flush.drafts if d.partition.id in woken}:
                self._bell.ring(queue, len(woken))
        for (r, m), partition, original in flush.duplicates:
            id = requests[r].messages[m].transaction_id
            answers[r][m] = Pushed(partition.id, original.offset, original.created_at, id, True)
        for (r, m), (first_r, first_m) in flush.repeats:
            answers[r][m] = msgspec.structs.replace(answers[first_r][first_m], duplicate=True)
        return list(answers)

    def _remember(self, draft: Draft, first_offset: int, created_at: datetime, flush: Flush) -> None:
        partition = draft.partition
        count = len(draft.places)
        partition.seen_offset = max(partition.seen_offset, first_offset + count)
        entry = self._window.get(partition.id)
        if entry is not None:
            if partition.id in flush.expected:  # the call has looked at, and told, all below our segment
                entry.catch_up(first_offset)
            self._window.add(partition.id, first_offset, count, draft.ids, created_at, partition.queue.dedup_window)
        self._cache.put(
            Segment(
                partition.id,
                first_offset,
                created_at,
                draft.payloads,
                draft.ids or None,
                draft.traces or None,
                draft.producer,
                draft.bytes,
            )
        )


def _cut_payloads(payloads: list[bytes], bytes_max: int) -> list[Raw]:
    """The payloads, known to be JSON; refuses the first that is not."""
    for place, payload in enumerate(payloads):
        if len(payload) > bytes_max:
            raise PayloadTooLarge(f"message {place} has {len(payload)} bytes; {bytes_max} is the most")
    joined = b"[" + b",".join(payloads) + b"]"
    try:
        joined.decode()
        pieces = cut(joined)
        if len(pieces) == len(payloads):
            return pieces
    except (UnicodeDecodeError, msgspec.DecodeError):
        pass
    for place, payload in enumerate(payloads):
        try:
            payload.decode()
            if len(cut(b"[" + payload + b"]")) != 1:
                raise InvalidPayload(f"the payload of message {place} is not one JSON value")
        except (UnicodeDecodeError, msgspec.DecodeError) as error:
            raise InvalidPayload(f"the payload of message {place} is not JSON: {error}") from None
    raise InvalidPayload("the payloads are not JSON")


def _check_transaction_id(id: str) -> None:
    if not id or len(id) > TRANSACTION_ID_CHARACTERS_MAX or "\x00" in id:
        raise InvalidArgument(
            f"a transaction id has 1 to {TRANSACTION_ID_CHARACTERS_MAX} characters, none of them U+0000"
        )


def _texts(values: Sequence[object]) -> str | None:
    """A JSON array, or nothing where there is nothing to say."""
    if not any(value is not None for value in values):
        return None
    return msgspec.json.encode(values).decode()
