"""Everything but the traffic: configure, look, move, delete. One coroutine per SQL function."""

import contextlib
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeVar
from uuid import UUID

import msgspec

from queenmq.api.diagnosis import Finding
from queenmq.config import Settings
from queenmq.engine.crypto import Cipher
from queenmq.engine.postgres.database import Database
from queenmq.engine.waiting import Bell
from queenmq.errors import EncryptionRequired, InvalidTimestamp, MessageNotFound, QueueNotFound
from queenmq.model import (
    DEFAULT_PARTITION,
    QUEUE_MODE,
    DeadLetter,
    Depth,
    EventName,
    GroupLine,
    GroupPlace,
    LedgerLine,
    Located,
    QueueSettings,
    StoredMessage,
    TraceEvent,
    TraceStep,
    read_headers,
)

T = TypeVar("T")


class Administration:
    """What operators do."""

    def __init__(self, database: Database, settings: Settings, cipher: Cipher, bell: Bell) -> None:
        self._database = database
        self._bytes_max = settings.pop_bytes_max
        self._cipher = cipher
        self._bell = bell

    # -- queues

    async def configure_queue(
        self, queue: str, *, namespace: str | None = None, task: str | None = None, **options: object
    ) -> QueueSettings:
        """Create a queue, or change what is named of it."""
        row = await self._database.row(
            "select * from queen.configure_queue($1, $2, $3, $4)",
            queue,
            namespace,
            task,
            msgspec.json.encode(options).decode(),
        )
        self._bell.ring(queue)
        return _struct(QueueSettings, row)

    async def default_partition(self, queue: str) -> int:
        """The id of a queue's default partition, which is made if need be."""
        call = "select partition_id from queen.ensure_partitions(array[$1], array[$2])"
        return int(await self._database.value(call, queue, DEFAULT_PARTITION))

    async def queue(self, queue: str) -> QueueSettings:
        """A queue's settings; raises QueueNotFound."""
        row = await self._database.row("select * from queen.queues where name = $1", queue)
        if row is None:
            raise QueueNotFound(f'there is no queue "{queue}"')
        return _struct(QueueSettings, row)

    async def depth(self, queue: str) -> Depth:
        """How many messages wait in a queue, and how many more it takes; raises QueueNotFound."""
        found = await self.depths([queue])
        if not found:
            raise QueueNotFound(f'there is no queue "{queue}"')
        return found[queue]

    async def depths(self, queues: Collection[str]) -> dict[str, Depth]:
        """The depth of each of these queues that exists."""
        call = "select queue_name, current_depth, max_queue_size from queen.queue_depths where queue_name = any ($1)"
        rows = await self._database.rows(call, list(queues))
        return {row["queue_name"]: Depth(row["current_depth"], row["max_queue_size"]) for row in rows}

    async def delete_queue(self, queue: str) -> bool:
        """Remove a queue and all that is in it; False when there was none."""
        return bool(await self._database.value("select queen.delete_queue($1)", queue))

    async def delete_partition(self, queue: str, partition: str) -> bool:
        """Remove a partition and all that is in it; False when there was none."""
        return bool(await self._database.value("select queen.delete_partition($1, $2)", queue, partition))

    async def set_paused(self, queue: str, group: str | None = None, *, paused: bool) -> bool:
        """Pause or resume the deliveries of a queue, or of one group on it; False when that was so before."""
        call = "select queen.pause($1, $2)" if paused else "select queen.resume($1, $2)"
        changed = bool(await self._database.value(call, queue, group))
        if not paused:
            self._bell.ring(queue)
        return changed

    async def clear_queue(self, queue: str) -> int:
        """Drop all stored messages; answers how many."""
        return int(await self._database.value("select queen.clear_queue($1)", queue))

    # -- groups

    async def delete_group(self, group: str, queue: str | None = None, *, with_subscription: bool = True) -> int:
        """Forget a group's places, on one queue or on all; answers on how many queues it had been."""
        return int(await self._database.value("select queen.delete_group($1, $2, $3)", group, queue, with_subscription))

    async def list_groups(self, lag_seconds_min: float = 0.0) -> list[GroupLine]:
        """Every group on every queue; only those that are this far behind."""
        rows = await self._database.rows("select * from queen.list_groups($1)", lag_seconds_min)
        return [_struct(GroupLine, row) for row in rows]

    async def describe_group(self, group: str, limit: int = 1000) -> list[GroupPlace]:
        """Where a group stands in the partitions of each queue, furthest behind first."""
        rows = await self._database.rows("select * from queen.describe_group($1, $2)", group, limit)
        return [_struct(GroupPlace, row) for row in rows]

    async def set_subscription(self, group: str, queue: str | None, since: datetime) -> int:
        """Move the moment from which a group reads partitions that it has not reached, on one queue or on all."""
        return int(await self._database.value("select queen.set_subscription($1, $2, $3)", group, queue, _aware(since)))

    async def seek_group(
        self,
        group: str,
        queue: str,
        *,
        partition: str | None = None,
        offset: int | None = None,
        timestamp: datetime | None = None,
        to: Literal["beginning", "end"] | None = None,
    ) -> int:
        """Move a group to an offset, a moment, the beginning or the end; answers how many partitions moved."""
        moved = await self._database.value(
            "select queen.seek_group($1, $2, $3, $4, $5, $6)",
            group,
            queue,
            partition,
            offset,
            _aware(timestamp),
            to,
        )
        self._bell.ring(queue, moved)
        return int(moved)

    # -- messages

    async def list_messages(
        self,
        queue: str | None = None,
        *,
        partition: str | None = None,
        group: str = QUEUE_MODE,
        status: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
        namespace: str | None = None,
        task: str | None = None,
    ) -> list[StoredMessage]:
        """Messages, newest first; `cursor` of the last one gives the next page, whatever is pushed meanwhile.

        A page has `pop_bytes_max` bytes of messages at most, or one message: then it is short, and its messages say
        that there is more.
        """
        rows = await self._database.rows(
            "select * from queen.list_messages($1, $2, $3, $4, $5, $6, $7, $8, p_bytes_max => $9)",
            queue,
            partition,
            group,
            status,
            cursor,
            limit,
            namespace,
            task,
            self._bytes_max,
        )
        return [self._readable(StoredMessage, row) for row in rows]

    async def get_message(self, message_id: UUID, group: str = QUEUE_MODE) -> StoredMessage | None:
        """A message by its id, if it is still stored."""
        row = await self._database.row("select * from queen.get_message($1, $2)", message_id, group)
        return self._readable(StoredMessage, row) if row is not None else None

    async def find_message(self, partition_id: int, name: str, group: str = QUEUE_MODE) -> StoredMessage:
        """A message by its transaction id or message id; raises MessageNotFound."""
        row = await self._database.row("select * from queen.find_message($1, $2, $3)", partition_id, name, group)
        if row is None:
            raise MessageNotFound(f'there is no message "{name}" in this partition')
        return self._readable(StoredMessage, row)

    async def dead_letter_message(
        self, partition_id: int, name: str, group: str = QUEUE_MODE, error: str | None = None
    ) -> None:
        """Have a group give up a message that it has not finished; raises NotPending."""
        call = "select queen.dead_letter_message($1, $2, $3, $4)"
        await self._database.value(call, partition_id, name, group, error, repeatable=False)

    async def delete_message(self, partition_id: int, name: str) -> tuple[int, int]:
        """Let no group get a message any more; how many would have, and how many dead letters of it are gone."""
        row = await self._database.row("select * from queen.delete_message($1, $2)", partition_id, name)
        return row["groups"], row["dead_letters"]

    async def retry_message(self, partition_id: int, name: str, group: str | None = None) -> int:
        """Deliver a dead message again to those who gave it up; answers how many; raises NotPending."""
        call = "select queen.retry_message($1, $2, $3)"
        count = await self._database.value(call, partition_id, name, group, repeatable=False)
        self._bell.ring("*", count)
        return int(count)

    async def locate_messages(
        self, partition_ids: Sequence[int], groups: Sequence[str], transaction_ids: Sequence[str]
    ) -> list[Located]:
        """Where messages are that clients call by their ids, and who holds them; in order."""
        rows = await self._database.rows(
            "select * from queen.locate_messages($1, $2, $3) order by item", partition_ids, groups, transaction_ids
        )
        return [_struct(Located, row) for row in rows]

    async def read_messages(self, queue: str, partition: str, offset: int = 0, limit: int = 100) -> list[StoredMessage]:
        """Messages by offset, without a lease and without a group."""
        rows = await self._database.rows(
            "select * from queen.read_messages($1, $2, $3, $4)", queue, partition, offset, limit
        )
        return [self._readable(StoredMessage, row) for row in rows]

    async def trace(self, trace_id: UUID, after: int = 0) -> list[TraceStep]:
        """The messages of a trace across all queues, in time order; `after`: the last step of the page before."""
        rows = await self._database.rows("select * from queen.trace($1, $2, $3)", trace_id, after, self._bytes_max)
        return [self._readable(TraceStep, row) for row in rows]

    # -- events about messages

    async def record_event(
        self, partition_id: int, transaction_id: str, event_type: str, data: str, group: str, names: Sequence[str]
    ) -> int:
        """Note that something happened to a message; answers the event's id."""
        return int(
            await self._database.value(
                "select queen.record_event($1, $2, $3, $4, $5, $6)",
                partition_id,
                transaction_id,
                event_type,
                data,
                group,
                names,
                repeatable=False,
            )
        )

    async def list_message_events(
        self, partition_id: int, transaction_id: str, limit: int = 1000, after: int = 0
    ) -> list[TraceEvent]:
        """What was noted about a message, oldest first; `after`: the id of the last event of the page before."""
        rows = await self._database.rows(
            "select * from queen.list_message_events($1, $2, $3, $4, $5)",
            partition_id,
            transaction_id,
            limit,
            after,
            self._bytes_max,
        )
        return [_event(row) for row in rows]

    async def list_named_events(self, name: str, limit: int = 100, offset: int = 0) -> tuple[list[TraceEvent], int]:
        """What was noted under a name, newest first, and how much there is in all."""
        rows = await self._database.rows(
            "select * from queen.list_named_events($1, $2, $3, $4)", name, limit, offset, self._bytes_max
        )
        total = await self._database.value("select count(*) from queen.trace_event_names where name = $1", name)
        return [_event(row) for row in rows], total

    async def list_event_names(self, limit: int = 100, offset: int = 0) -> tuple[list[EventName], int]:
        """The names that were used last, and how many there are in all."""
        rows = await self._database.rows("select * from queen.list_event_names($1, $2)", limit, offset)
        total = await self._database.value("select count(distinct name) from queen.trace_event_names")
        return [_struct(EventName, row) for row in rows], total

    # -- dead letters

    async def list_dead_letters(
        self,
        queue: str | None = None,
        *,
        group: str | None = None,
        partition: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        before_id: int | None = None,
        limit: int = 100,
        skip: int = 0,
    ) -> list[DeadLetter]:
        """Dead letters, newest first; `before_id` of the last one, or `skip`, gives the next page."""
        rows = await self._database.rows(
            "select * from queen.list_dead_letters($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            queue,
            group,
            partition,
            _aware(since),
            _aware(until),
            before_id,
            limit,
            skip,
            self._bytes_max,
        )
        return [self._readable(DeadLetter, row) for row in rows]

    async def count_dead_letters(
        self,
        queue: str | None = None,
        *,
        group: str | None = None,
        partition: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> int:
        """How many dead letters `list_dead_letters` finds, on all pages."""
        call = "select queen.count_dead_letters($1, $2, $3, $4, $5)"
        return int(await self._database.value(call, queue, group, partition, _aware(since), _aware(until)))

    async def redrive_dead_letters(
        self,
        ids: Sequence[int] | None = None,
        *,
        queue: str | None = None,
        group: str | None = None,
        limit: int | None = None,
    ) -> int:
        """Deliver dead letters again to the group that gave them up, the oldest first; answers how many."""
        call = "select queen.redrive_dead_letters($1, $2, $3, $4)"
        count = await self._database.value(call, ids, queue, group, limit)
        self._bell.ring(queue or "*", count)
        return int(count)

    async def purge_dead_letters(
        self,
        ids: Sequence[int] | None = None,
        *,
        queue: str | None = None,
        group: str | None = None,
        older_than: datetime | None = None,
    ) -> int:
        """Delete dead letters for good; answers how many."""
        return int(
            await self._database.value(
                "select queen.purge_dead_letters($1, $2, $3, $4)", ids, queue, group, _aware(older_than)
            )
        )

    # -- the books

    async def ledger(self, queue: str | None = None) -> list[LedgerLine]:
        """What became of everything pushed, per partition and group."""
        rows = await self._database.rows(
            "select * from queen.ledger where queue = coalesce($1, queue) order by queue, partition, group_name",
            queue,
        )
        return [_struct(LedgerLine, row) for row in rows]

    async def check_consistency(self) -> list[Finding]:
        """Everything in the tables that should not be; nothing is the expected answer."""
        return [_struct(Finding, row) for row in await self._database.rows("select * from queen.check_consistency()")]

    async def resync_partition_lookup(self, queue: str | None = None) -> int:
        """Recompute the ends of partitions from their segments; answers how many were wrong."""
        return int(await self._database.value("select queen.resync_partition_lookup($1)", queue))

    def _readable(self, kind: type[T], row: Any) -> T:
        values = dict(row)
        payload = values["payload"].encode()
        if values.get("encrypted"):
            with contextlib.suppress(EncryptionRequired):  # without the key it is shown as it is stored
                payload = self._cipher.decrypt(payload)
        return _struct(kind, {**values, "payload": payload, "headers": read_headers(values.get("headers"))})


def _struct(kind: type[T], row: Mapping[str, Any]) -> T:
    """The columns that a struct has a field for."""
    names = kind.__struct_fields__  # type: ignore[attr-defined]
    return kind(**{name: row[name] for name in names if name in row.keys()})  # noqa: SIM118 (a Record iterates over values)


def _event(row: Any) -> TraceEvent:
    return _struct(TraceEvent, {**dict(row), "data": msgspec.Raw(row["data"].encode())})


def _aware(moment: datetime | None) -> datetime | None:
    if moment is not None and moment.tzinfo is None:
        raise InvalidTimestamp("the timestamp has no time zone")
    return moment
