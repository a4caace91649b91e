"""Pop: requests that gather become one call; payloads come from the cache, or in one more call.

The database hands out offset ranges; segments never change, so what they hold can be read from memory.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from functools import cached_property, partial
from itertools import repeat
from time import perf_counter
from typing import Any, TypeVar, get_args
from uuid import UUID, uuid4

import msgspec
from msgspec import Struct

from queenmq.config import Settings
from queenmq.engine.batching import Batcher
from queenmq.engine.memory import History, Memory
from queenmq.engine.partitions import check_name
from queenmq.engine.postgres.database import Database
from queenmq.engine.postgres.outcome import OutcomeUnknown
from queenmq.engine.postgres.pg_arrays import POP_ARGUMENTS, listed, names, once
from queenmq.engine.room import Room
from queenmq.engine.segments import Range, Segment
from queenmq.engine.waiting import Bell
from queenmq.errors import EncryptionRequired, InvalidArgument, InvalidTimestamp, QueenError
from queenmq.model import Lease, Message, PopRequest, SubscriptionMode

log = logging.getLogger(__name__)

T = TypeVar("T")

PARTITIONS_MAX = 1_000  # in one pop
POPS_MAX = 200  # at once, for one caller
REQUESTS_MAX = 500  # in one call
FIRST_REQUESTS_MAX = 16  # before it is known how large answers are
CALL_BYTES_MAX = 8 << 20  # of messages in one call, as far as can be foreseen; and of answers that are not sent yet
MODES: tuple[str, ...] = get_args(SubscriptionMode)
SHARED_FROM = 8  # requests that gathered; fewer go out as one call

POP = once("pop_batch", *POP_ARGUMENTS)
RELEASE = "select queen.release_lease($1)"


class Pops(Struct, frozen=True):
    """So many pops of one caller, each with a lease of its own."""

    request: PopRequest
    count: int


class PopTimes(Struct, frozen=True, gc=False):
    """What took how long in the call that served a pop, and the others that shared it."""

    lease_seconds: float  # to find partitions and lease them
    payload_seconds: float  # to read their messages


class Run(Struct, frozen=True):
    """Messages of one segment that go out under one lease."""

    lease: Lease
    segment: Segment
    places: Sequence[int]  # of the messages in the segment's lists: a range, unless some between them are done
    offsets: Sequence[int]
    retry_counts: Sequence[int]

    def picked(self, values: Sequence[T]) -> Sequence[T]:
        """Of what the segment has for each of its messages, that of the run's."""
        places = self.places
        return values[places.start : places.stop] if isinstance(places, range) else [values[place] for place in places]

    @property
    def byte_count(self) -> int:
        """About how many bytes the messages have, if all in the segment have as many."""
        return len(self.segment.array) * len(self.places) // self.segment.count

    def messages(self) -> Iterable[Message]:
        """The messages, in order."""
        held = self.segment
        return map(
            Message,
            repeat(self.lease),
            self.offsets,
            repeat(held.created_at),
            self.picked(held.payloads),
            self.picked(held.transaction_ids) if held.transaction_ids is not None else repeat(None),
            self.picked(held.trace_ids) if held.trace_ids is not None else repeat(None),
            repeat(held.producer),
            self.retry_counts,
            self.picked(held.headers) if held.headers is not None else repeat(None),
        )


class Popped(Struct, frozen=True, dict=True):
    """What a pop brought: leases, and their messages in order, as runs and one by one."""

    leases: Sequence[Lease]
    runs: Sequence[Run]
    times: PopTimes | None = None  # None where no call was made
    incarnation: str = ""  # of the database, when it was popped; see `memory`
    more: bool = False  # there are more messages, left out because the answer would have too many bytes

    @property
    def message_count(self) -> int:
        """How many messages there are."""
        return sum(len(run.places) for run in self.runs)

    @cached_property
    def messages(self) -> Sequence[Message]:
        """One struct a message; who needs thousands of them a second takes the runs."""
        return [message for run in self.runs for message in run.messages()]


class Popper:
    """Leases partitions for consumers and brings their messages."""

    def __init__(self, database: Database, settings: Settings, history: History, bell: Bell, room: Room) -> None:
        self._database = database
        self._settings = settings
        self._history = history
        self._bell = bell
        self._room = room
        self._answer_bytes = CALL_BYTES_MAX // FIRST_REQUESTS_MAX  # of one answer, to go by the last calls
        self._lookback = timedelta(milliseconds=2 * settings.poll_interval_max_ms)
        self.batcher = Batcher(
            self._pop_all,
            calls_max=settings.pop_calls_max,
            weight=_count,
            weight_max=FIRST_REQUESTS_MAX if settings.pop_batching else 1,
            shared_from=SHARED_FROM,
            unclaimed=self._give_back,
        )
        self._returns: set[asyncio.Task[Any]] = set()
        self._orphans: list[tuple[int | None, list[UUID]]] = []  # leases nobody has, and the call that may take them

    async def pop(self, request: PopRequest, count: int = 1) -> Popped:
        """Lease what is ready for this request, or for so many like it; nothing ready is an answer too."""
        return await self.batcher.submit(Pops(request, count))

    def _give_back(self, popped: Popped) -> None:
        """Nobody is there to take it: end the lease, as if the pop had not happened."""
        ids = {lease.id for lease in popped.leases if lease.id is not None}
        if ids:
            task = asyncio.create_task(self._release(ids, {lease.queue for lease in popped.leases}))
            self._returns.add(task)
            task.add_done_callback(self._returns.discard)

    async def _release(self, lease_ids: Iterable[UUID], queues: Iterable[str]) -> None:
        """End leases that nobody will use; should it fail, the next pop does it, or they expire."""
        ids = list(lease_ids)
        try:
            await self._database.value(RELEASE, ids)
        except QueenError as error:
            log.warning("unused leases could not be given back", extra={"cause": repr(error)})
            self._orphans.append((None, ids))
        for queue in queues:
            self._bell.ring(queue)

    async def close(self) -> None:
        """Finish what was accepted."""
        await self.batcher.close()
        await asyncio.gather(*self._returns, return_exceptions=True)

    def check(self, request: PopRequest, count: int = 1) -> None:
        """Refuse what cannot be popped before it meets other requests."""
        if not 1 <= count <= POPS_MAX:
            raise InvalidArgument(f"between 1 and {POPS_MAX} pops can be made at once")
        if request.queue is None and request.namespace is None and request.task is None:
            raise InvalidArgument("name a queue, a namespace or a task to pop from")
        if request.partition is not None and request.queue is None:
            raise InvalidArgument("a partition belongs to a queue: name it too")
        for name, what in (
            (request.queue, "queue"),
            (request.partition, "partition"),
            (request.namespace, "namespace"),
            (request.task, "task"),
            (request.group, "group"),
        ):
            if name is not None:
                check_name(name, what)
        if not 1 <= request.batch <= self._settings.batch_messages_max:
            raise InvalidArgument(f"batch must be between 1 and {self._settings.batch_messages_max}")
        if not 1 <= request.partitions_max <= PARTITIONS_MAX:
            raise InvalidArgument(f"max partitions must be between 1 and {PARTITIONS_MAX}")
        if request.lease_seconds is not None and not 0 < request.lease_seconds <= 604_800:
            raise InvalidArgument("lease seconds must be more than 0 and at most 604800")
        if request.subscription_mode and request.subscription_mode not in MODES:
            raise InvalidArgument(
                f"the subscription mode is one of {', '.join(MODES)}, not {request.subscription_mode[:40]!r}"
            )
        if request.subscription_mode == "timestamp" and request.subscription_from is None:
            raise InvalidTimestamp("subscription mode timestamp needs a timestamp")
        if request.subscription_from is not None and request.subscription_from.tzinfo is None:
            raise InvalidTimestamp("the subscription timestamp has no time zone")

    async def _pop_all(self, asked: list[Pops]) -> Sequence[Popped | QueenError]:
        """In one call, unless some are for one and others for many: all of a call get equally many bytes each."""
        await self._room.open()
        answers: dict[int, Popped | QueenError] = {}
        alike: dict[int, list[int]] = {}
        for number, each in enumerate(asked):
            alike.setdefault((each.count - 1).bit_length(), []).append(number)
        for doublings, numbers in alike.items():
            some, bytes_max = [asked[number] for number in numbers], self._settings.pop_bytes_max >> doublings
            answers.update(zip(numbers, await self._history.run(partial(self._pop_with, some, bytes_max)), strict=True))
        answered = [answers[number] for number in range(len(asked))]
        self._foresee(asked, answered)
        return answered

    def _foresee(self, asked: list[Pops], answers: Sequence[Popped | QueenError]) -> None:
        """Let as many pops share the next calls as have room in one, if answers are as large as lately."""
        largest = max(
            sum(run.byte_count for run in each.runs) // pops.count if isinstance(each, Popped) else 0
            for pops, each in zip(asked, answers, strict=True)
        )
        self._answer_bytes = max(largest, self._answer_bytes // 16, 1)
        if self._settings.pop_batching:
            self.batcher.weight_max = max(1, min(REQUESTS_MAX, CALL_BYTES_MAX // self._answer_bytes))

    async def _pop_with(self, asked: list[Pops], bytes_max: int, memory: Memory) -> Sequence[Popped | QueenError]:
        callers = [number for number, each in enumerate(asked) for _ in range(each.count)]
        requests = [asked[number].request for number in callers]
        lease_ids = [uuid4() for _ in requests]
        started = perf_counter()
        rows = await self._claim(memory, requests, lease_ids, max(bytes_max, 1))
        leased = perf_counter()
        memory.ready.looked({request.kind for request in requests}, leased - started)
        try:
            segments = await memory.stored.read([_range(row) for row in rows if row["partition_id"] is not None])
        except QueenError:
            await self._release(lease_ids, {row["queue_name"] for row in rows})
            raise
        times = PopTimes(leased - started, perf_counter() - leased)
        answers: list[tuple[list[Lease], list[Run]]] = [([], []) for _ in asked]
        unreadable: dict[int, EncryptionRequired] = {}
        cut_short: set[int] = set()
        for row in rows:
            number = callers[row["request"] - 1]
            request = asked[number].request
            memory.ready.note(request.kind, row["ready_since"])
            if row["more"]:
                cut_short.add(number)
                if row["partition_id"] is None:
                    continue
            held = segments[_range(row)]
            if isinstance(held, EncryptionRequired):
                unreadable[number] = _explained(held, row)
                continue
            leases, runs = answers[number]
            lease = Lease(
                row["lease_id"],
                request.group,
                row["group_id"],
                row["queue_name"],
                row["partition_name"],
                row["partition_id"],
                row["expires_at"],
            )
            leases.append(lease)
            runs += _runs(lease, row, held)
        if unreadable:  # somebody else may have the key
            queues = {row["queue_name"] for row in rows if callers[row["request"] - 1] in unreadable}
            await self._release([id for id, n in zip(lease_ids, callers, strict=True) if n in unreadable], queues)
        return [
            unreadable.get(number) or Popped(*answer, times, memory.incarnation, number in cut_short)
            for number, answer in enumerate(answers)
        ]

    async def _claim(
        self, memory: Memory, requests: list[PopRequest], lease_ids: list[UUID], bytes_max: int
    ) -> list[Any]:
        async def call(call_id: int) -> list[Any]:
            arguments = [*self._arguments(memory, requests, lease_ids), bytes_max]
            return await self._database.rows(POP, *arguments, call_id, repeatable=False)

        async def undo() -> None:
            await self._database.value(RELEASE, lease_ids)

        await self._give_back_orphans()
        try:
            return await self._database.once(call, undo)
        except OutcomeUnknown as lost:
            self._orphans.append((lost.call_id, lease_ids))
            raise

    async def _give_back_orphans(self) -> None:
        """End what pops took, or may have taken, while nobody could be told or asked."""
        while self._orphans:
            call_id, lease_ids = self._orphans.pop()
            try:
                if call_id is not None:
                    await self._database.abandon(call_id)
                await self._database.value(RELEASE, lease_ids)
            except BaseException:
                self._orphans.append((call_id, lease_ids))
                raise

    def _arguments(self, memory: Memory, requests: list[PopRequest], lease_ids: list[UUID]) -> list[Any]:
        return [
            names([request.queue for request in requests]),
            names([request.partition for request in requests]),
            names([request.namespace for request in requests]),
            names([request.task for request in requests]),
            names([request.group for request in requests]),
            listed([request.batch for request in requests]),
            listed([request.partitions_max for request in requests]),
            listed([request.lease_seconds for request in requests]),
            listed([request.auto_ack for request in requests]),
            listed(lease_ids),
            names([_mode(request) for request in requests]),
            listed([request.subscription_from for request in requests]),
            listed([memory.ready.since(request.kind) for request in requests]),
            self._lookback,
            memory.incarnation,
            self._settings.default_subscription_mode,
        ]


def _count(asked: Pops) -> int:
    return asked.count


def _mode(request: PopRequest) -> str | None:
    """How a new group would start; None leaves it to its subscriptions, or to the default of this server."""
    if not request.subscription_mode:
        return None if request.subscription_from is None else "timestamp"
    return request.subscription_mode


def _range(row: Any) -> Range:
    return row["partition_id"], row["from_offset"], row["to_offset"]


def _explained(error: EncryptionRequired, row: Any) -> EncryptionRequired:
    """Say where the messages are: after a pop that acknowledged them itself, a seek brings them back."""
    return EncryptionRequired(
        f"{error.message}; it is among offsets {row['from_offset']} to {row['to_offset'] - 1} of partition "
        f'"{row["partition_name"]}" of queue "{row["queue_name"]}"'
    )


def _runs(lease: Lease, row: Any, segments: Sequence[Segment]) -> Iterator[Run]:
    """What a claimed range has of each segment, without what is done already."""
    start, end = row["from_offset"], row["to_offset"]
    done = {offset for each in row["done"] for offset in range(max(start, each.lower), min(end, each.upper or end))}
    retries: dict[str, int] = msgspec.json.decode(row["retries"]) if row["retries"] else {}
    for segment in segments:
        first = segment.first_offset
        from_, to = max(start, first), min(end, segment.end)
        offsets: Sequence[int] = range(from_, to)
        places: Sequence[int] = range(from_ - first, to - first)
        if done:
            offsets = [offset for offset in offsets if offset not in done]
            places = [offset - first for offset in offsets]
        counts = [retries.get(str(offset), 0) for offset in offsets] if retries else [0] * len(offsets)
        if offsets:
            yield Run(lease, segment, places, offsets, counts)
