"""OpenTelemetry: spans for pushes and handlers, and the trace context in the headers of messages.

It is used where the application has loaded it, and never imported on our own account: who does not trace pays nothing.
A message's trace id is that of its span, so `queen.traces.follow` and the tracing system speak of the same thing.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from msgspec.structs import replace

from queenmq import __version__
from queenmq.api.call import Call
from queenmq.client.answers import Delivery
from queenmq.client.calls import Push, Transact
from queenmq.model import Outgoing

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

C = TypeVar("C", bound=Call[Any])


def loaded() -> bool:
    """Whether the application traces, or might."""
    return "opentelemetry.trace" in sys.modules


def pushing(messages: Sequence[Outgoing]) -> AbstractContextManager[Sequence[Outgoing]]:
    """A span for a push, and its messages with the context that leads those who handle them back to it."""
    return _push_span(messages) if loaded() and messages else nullcontext(messages)


def carried(message: Outgoing) -> Outgoing:
    """A message that will be pushed later, with the context of now; its span is the moment when it was made."""
    if not loaded():
        return message
    with _push_span([message]) as [traced]:
        return traced


def calling(call: C) -> AbstractContextManager[C]:
    """A call that pushes, in a span, with its messages as above; any other call as it is."""
    return _call_span(call) if loaded() and isinstance(call, Push | Transact) else nullcontext(call)


def handling(deliveries: Sequence[Delivery]) -> AbstractContextManager[None]:
    """A span for a handler: a child of the push of its message, or linked to those of its batch."""
    return _handle_span(deliveries) if loaded() else nullcontext()


@contextmanager
def _call_span(call: Any) -> Iterator[Any]:
    with pushing(call.messages) as messages:
        yield replace(call, messages=messages)


@contextmanager
def _push_span(messages: Sequence[Outgoing]) -> Iterator[Sequence[Outgoing]]:
    from opentelemetry.trace import SpanKind  # noqa: PLC0415 (the application has it)
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    queues = sorted({each.queue for each in messages})
    attributes = _attributes("push", queues, len(messages))
    with _tracer().start_as_current_span(_name("push", queues), kind=SpanKind.PRODUCER, attributes=attributes) as span:
        context = span.get_span_context()
        carrier: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carrier)  # W3C's, which is small: headers are not for baggage
        if not context.is_valid:
            yield messages
            return
        trace_id = UUID(int=context.trace_id)
        yield [
            replace(each, trace_id=each.trace_id or trace_id, headers={**carrier, **(each.headers or {})})
            for each in messages
        ]


@contextmanager
def _handle_span(deliveries: Sequence[Delivery]) -> Iterator[None]:
    from opentelemetry.trace import Link, SpanKind, get_current_span  # noqa: PLC0415
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    propagator = TraceContextTextMapPropagator()
    origins = [propagator.extract(each.headers) for each in deliveries]
    queues = sorted({each.queue for each in deliveries})
    attributes = _attributes("handle", queues, len(deliveries))
    attributes["messaging.consumer.group.name"] = deliveries[0].group
    attributes["messaging.destination.partition.id"] = deliveries[0].partition
    links = [Link(context) for each in origins if (context := get_current_span(each).get_span_context()).is_valid]
    alone = len(deliveries) == 1
    with _tracer().start_as_current_span(
        _name("handle", queues),
        context=origins[0] if alone else None,
        kind=SpanKind.CONSUMER,
        attributes=attributes,
        links=[] if alone else links,
    ):
        yield


def _tracer() -> "Tracer":
    from opentelemetry.trace import get_tracer  # noqa: PLC0415

    return get_tracer("queenmq", __version__)


def _name(operation: str, queues: Sequence[str]) -> str:
    return f"{operation} {queues[0]}" if len(queues) == 1 else operation


def _attributes(operation: str, queues: Sequence[str], messages: int) -> dict[str, str | int]:
    """By OpenTelemetry's conventions for messaging."""
    attributes: dict[str, str | int] = {
        "messaging.system": "queen",
        "messaging.operation.name": operation,
        "messaging.operation.type": "send" if operation == "push" else "process",
        "messaging.batch.message_count": messages,
    }
    if len(queues) == 1:
        attributes["messaging.destination.name"] = queues[0]
    return attributes
