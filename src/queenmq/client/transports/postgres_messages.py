"""Stored messages, dead letters and traces with an engine."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from msgspec import Raw

from queenmq import model
from queenmq.client.administration import messages, traces
from queenmq.client.transports.postgres_table import HandlerTable, limited, text, uuid

if TYPE_CHECKING:
    from queenmq.client.transports.postgres import PostgresTransport as Postgres

# -- messages


async def list_messages(postgres: "Postgres", call: messages.ListMessages) -> messages.MessagePage:
    """Messages, newest first."""
    found = await postgres.engine.admin.list_messages(
        call.queue,
        partition=call.partition,
        group=call.group,
        status="leased" if call.status == "processing" else call.status,
        cursor=call.cursor,
        limit=limited(call.limit),
        namespace=call.namespace,
        task=call.task,
    )
    cursor = found[-1].cursor if len(found) == call.limit or (found and found[-1].more) else None
    return messages.MessagePage(messages=[_message(each) for each in found], cursor=cursor)


async def get_message(postgres: "Postgres", call: messages.GetMessage) -> messages.StoredMessage:
    """One message."""
    return _message(await postgres.engine.admin.find_message(*_place(call.address), call.group))


async def delete_message(postgres: "Postgres", call: messages.DeleteMessage) -> int:
    """Keep a message from everybody."""
    groups, _ = await postgres.engine.admin.delete_message(*_place(call.address))
    return groups


async def retry_message(postgres: "Postgres", call: messages.RetryMessage) -> int:
    """Deliver a dead message again."""
    return await postgres.engine.admin.retry_message(*_place(call.address), call.group)


async def give_up_message(postgres: "Postgres", call: messages.GiveUpMessage) -> None:
    """Make a message a dead letter."""
    await postgres.engine.admin.dead_letter_message(*_place(call.address), call.group, call.error)


def _place(address: messages.Address) -> tuple[int, str]:
    return uuid(address.partition_id, "the partition id").int, address.name


def _message(found: model.StoredMessage) -> messages.StoredMessage:
    status = "processing" if found.status == "leased" else found.status or "pending"
    return messages.StoredMessage(
        id=str(found.message_id),
        transaction_id=found.transaction_id,
        queue=found.queue,
        partition=found.partition,
        partition_id=text(found.partition_id),
        offset=found.offset,
        trace_id=None if found.trace_id is None else str(found.trace_id),
        raw=Raw(found.payload),
        status=cast("messages.MessageStatus", status),
        encrypted=found.encrypted,
        created_at=found.created_at,
        producer=found.producer,
        headers=found.headers,
    )


# -- dead letters


async def list_dead_letters(postgres: "Postgres", call: messages.ListDeadLetters) -> messages.DeadLetterPage:
    """Dead letters, newest first."""
    admin = postgres.engine.admin
    total = await admin.count_dead_letters(
        call.queue, group=call.group, partition=call.partition, since=call.since, until=call.until
    )
    found = await admin.list_dead_letters(
        call.queue,
        group=call.group,
        partition=call.partition,
        since=call.since,
        until=call.until,
        limit=limited(call.limit, skip=call.skip),
        skip=call.skip,
    )
    return messages.DeadLetterPage(dead_letters=[_dead_letter(each) for each in found], total=total)


async def redrive(postgres: "Postgres", call: messages.Redrive) -> int:
    """Deliver dead letters again."""
    return await postgres.engine.admin.redrive_dead_letters(
        _ids(call.ids), queue=call.queue, group=call.group, limit=limited(call.limit, 10_000)
    )


async def purge(postgres: "Postgres", call: messages.Purge) -> int:
    """Delete dead letters."""
    return await postgres.engine.admin.purge_dead_letters(
        _ids(call.ids), queue=call.queue, group=call.group, older_than=call.older_than
    )


def _ids(ids: Sequence[str] | None) -> list[int] | None:
    if ids is None:
        return None
    numbers = [uuid(id, "a dead letter's id").int for id in ids]
    return [number for number in numbers if number < 1 << 63]  # no other was ever given to a dead letter


def _dead_letter(found: model.DeadLetter) -> messages.DeadLetter:
    return messages.DeadLetter(
        id=text(found.id),
        message_id=str(found.message_id),
        transaction_id=found.transaction_id,
        queue=found.queue,
        partition=found.partition,
        partition_id=text(found.partition_id),
        offset=found.offset,
        group=found.group_name,
        raw=Raw(found.payload),
        error=found.error,
        retry_count=found.retry_count,
        created_at=found.created_at,
        failed_at=found.failed_at,
        producer=found.producer,
        trace_id=None if found.trace_id is None else str(found.trace_id),
        headers=found.headers,
    )


# -- traces


async def follow_trace(postgres: "Postgres", call: traces.FollowTrace) -> traces.StepPage:
    """The messages of a trace."""
    found = await postgres.engine.admin.trace(call.trace_id, int(call.cursor or 0))
    steps = [
        traces.TraceStep(
            step=each.step,
            queue=each.queue,
            partition=each.partition,
            offset=each.offset,
            id=str(each.message_id),
            transaction_id=each.transaction_id,
            created_at=each.created_at,
            seconds_since_previous=each.seconds_since_previous,
            seconds_since_start=each.seconds_since_start,
            raw=Raw(each.payload),
        )
        for each in found
    ]
    return traces.StepPage(steps=steps, cursor=str(found[-1].step) if found and found[-1].more else None)


async def record_event(postgres: "Postgres", call: traces.RecordEvent) -> str:
    """Note something about a message."""
    partition_id, name = _place(call.address)
    data = call.data.decode()
    return str(
        await postgres.engine.admin.record_event(partition_id, name, call.event_type, data, call.group, call.names)
    )


async def list_message_events(postgres: "Postgres", call: traces.ListMessageEvents) -> traces.EventPage:
    """What was noted about a message."""
    after = int(call.cursor or 0)
    found = await postgres.engine.admin.list_message_events(*_place(call.address), after=after)
    return traces.EventPage(events=_events(found), cursor=str(found[-1].id) if found and found[-1].more else None)


async def list_named_events(postgres: "Postgres", call: traces.ListNamedEvents) -> list[traces.TraceEvent]:
    """What was noted under a name."""
    events, _ = await postgres.engine.admin.list_named_events(call.name, limited(call.limit, skip=call.skip), call.skip)
    return _events(events)


async def list_event_names(postgres: "Postgres", call: traces.ListEventNames) -> list[traces.EventName]:
    """Names of notes."""
    names, _ = await postgres.engine.admin.list_event_names(limited(call.limit, skip=call.skip), call.skip)
    return [
        traces.EventName(name=each.name, events=each.events, messages=each.messages, last_at=each.last_at)
        for each in names
    ]


def _events(found: Sequence[model.TraceEvent]) -> list[traces.TraceEvent]:
    return [
        traces.TraceEvent(
            id=str(each.id),
            transaction_id=each.transaction_id,
            partition_id=text(each.partition_id),
            queue=each.queue,
            partition=each.partition,
            group=each.group_name,
            event_type=each.event_type,
            names=each.names,
            created_at=each.created_at,
            raw=each.data,
        )
        for each in found
    ]


MESSAGES: HandlerTable = {
    messages.ListMessages: list_messages,
    messages.GetMessage: get_message,
    messages.DeleteMessage: delete_message,
    messages.RetryMessage: retry_message,
    messages.GiveUpMessage: give_up_message,
    messages.ListDeadLetters: list_dead_letters,
    messages.Redrive: redrive,
    messages.Purge: purge,
    traces.FollowTrace: follow_trace,
    traces.RecordEvent: record_event,
    traces.ListMessageEvents: list_message_events,
    traces.ListNamedEvents: list_named_events,
    traces.ListEventNames: list_event_names,
}
