"""Stored messages, dead letters and traces as HTTP."""

import msgspec
from msgspec import Raw, Struct

from queenmq.client.administration import messages, traces
from queenmq.client.transports.exchange import Exchange, ExchangeTable, path, query, reads

encode = msgspec.json.Encoder().encode


class _Affected(Struct):
    groups: int


class _Redriven(Struct):
    redriven: int


class _Purged(Struct):
    purged: int


class _Recorded(Struct, rename="camel"):
    trace_id: str


class _Events(Struct):
    traces: list[traces.TraceEvent]


class _Names(Struct):
    trace_names: list[traces.EventName]


_affected = reads(_Affected, lambda answer: answer.groups)
_redriven = reads(_Redriven, lambda answer: answer.redriven)
_purged = reads(_Purged, lambda answer: answer.purged)
_recorded = reads(_Recorded, lambda answer: answer.trace_id)
_steps = msgspec.json.Decoder(traces.StepPage).decode
_event_page = msgspec.json.Decoder(traces.EventPage).decode
_events = reads(_Events, lambda answer: answer.traces)
_names = reads(_Names, lambda answer: answer.trace_names)
_messages = msgspec.json.Decoder(messages.MessagePage).decode
_message = msgspec.json.Decoder(messages.StoredMessage).decode
_dead_letters = msgspec.json.Decoder(messages.DeadLetterPage).decode


# -- messages


def list_messages(call: messages.ListMessages) -> Exchange[messages.MessagePage]:
    """GET /messages."""
    asked = query(
        queue=call.queue,
        partition=call.partition,
        consumerGroup=call.group,
        status=call.status,
        ns=call.namespace,
        task=call.task,
        cursor=call.cursor,
        limit=call.limit,
    )
    return Exchange(path=path("messages"), query=asked, repeatable=True, read=_messages)


def get_message(call: messages.GetMessage) -> Exchange[messages.StoredMessage]:
    """GET /messages/{partition}/{transaction}."""
    return Exchange(path=_at(call.address), query=query(consumerGroup=call.group), repeatable=True, read=_message)


def delete_message(call: messages.DeleteMessage) -> Exchange[int]:
    """DELETE /messages/{partition}/{transaction}."""
    return Exchange(path=_at(call.address), method="DELETE", read=_affected)


def retry_message(call: messages.RetryMessage) -> Exchange[int]:
    """POST /messages/{partition}/{transaction}/retry."""
    asked = query(consumerGroup=call.group)
    return Exchange(path=_at(call.address, "retry"), method="POST", query=asked, read=_affected)


def give_up_message(call: messages.GiveUpMessage) -> Exchange[None]:
    """POST /messages/{partition}/{transaction}/dlq."""
    return Exchange(
        path=_at(call.address, "dlq"),
        method="POST",
        query=query(consumerGroup=call.group),
        body=encode({"error": call.error}),
        read=lambda _: None,
    )


def _at(address: messages.Address, *action: str) -> str:
    return path("messages", address.partition_id, address.name, *action)


# -- dead letters


def list_dead_letters(call: messages.ListDeadLetters) -> Exchange[messages.DeadLetterPage]:
    """GET /dlq."""
    asked = query(
        queue=call.queue,
        consumerGroup=call.group,
        partition=call.partition,
        to=call.until,
        limit=call.limit,
        offset=call.skip,
        **{"from": call.since},
    )
    return Exchange(path=path("dlq"), query=asked, repeatable=True, read=_dead_letters)


def redrive(call: messages.Redrive) -> Exchange[int]:
    """POST /dlq/redrive."""
    body = {"ids": call.ids, "queue": call.queue, "consumerGroup": call.group, "limit": call.limit}
    return Exchange(path=path("dlq", "redrive"), method="POST", body=encode(body), read=_redriven)


def purge(call: messages.Purge) -> Exchange[int]:
    """DELETE /dlq."""
    ids = None if call.ids is None else ",".join(call.ids)
    asked = query(ids=ids, queue=call.queue, consumerGroup=call.group, olderThan=call.older_than)
    return Exchange(path=path("dlq"), method="DELETE", query=asked, read=_purged)


# -- traces


def follow_trace(call: traces.FollowTrace) -> Exchange[traces.StepPage]:
    """GET /traces/id/{trace}."""
    parts = path("traces", "id", str(call.trace_id))
    return Exchange(path=parts, query=query(cursor=call.cursor), repeatable=True, read=_steps)


def record_event(call: traces.RecordEvent) -> Exchange[str]:
    """POST /traces."""
    body = {
        "transactionId": call.address.name,
        "partitionId": call.address.partition_id,
        "consumerGroup": call.group,
        "traceNames": call.names,
        "eventType": call.event_type,
        "data": Raw(call.data),
    }
    return Exchange(path=path("traces"), method="POST", body=encode(body), read=_recorded)


def list_message_events(call: traces.ListMessageEvents) -> Exchange[traces.EventPage]:
    """GET /traces/{partition}/{transaction}."""
    parts = path("traces", call.address.partition_id, call.address.name)
    return Exchange(path=parts, query=query(cursor=call.cursor), repeatable=True, read=_event_page)


def list_named_events(call: traces.ListNamedEvents) -> Exchange[list[traces.TraceEvent]]:
    """GET /traces/by-name/{name}."""
    asked = query(limit=call.limit, offset=call.skip)
    return Exchange(path=path("traces", "by-name", call.name), query=asked, repeatable=True, read=_events)


def list_event_names(call: traces.ListEventNames) -> Exchange[list[traces.EventName]]:
    """GET /traces/names."""
    asked = query(limit=call.limit, offset=call.skip)
    return Exchange(path=path("traces", "names"), query=asked, repeatable=True, read=_names)


MESSAGES: ExchangeTable = {
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
