"""OpenTelemetry: pushes and handlers make spans, which belong together across processes."""

import asyncio
import subprocess
import sys
from uuid import UUID

import psycopg
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from queenmq import Outgoing, Stop

SECONDS_MAX = 60


@pytest.fixture
def spans(monkeypatch):
    """The application traces: what it has recorded so far."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)  # for this test; there is no way back in the API
    yield exporter.get_finished_spans
    provider.shutdown()


async def handled(queen, queue, handler, **options):
    stop = Stop()

    def last(message):
        stop.set()
        return handler(message)

    async with asyncio.timeout(SECONDS_MAX):
        await queen.queue(queue).consume(last, stop=stop, **options)


async def test_a_handler_is_a_child_of_the_push(queen, queue, spans):
    with trace.get_tracer("shop").start_as_current_span("order") as order:
        pushed = await queen.queue(queue).push(1)
    seen = []
    await handled(queen, queue, lambda message: seen.append((message.trace_id, message.headers)))
    push, _, handle = spans()
    assert (push.name, push.kind, push.parent.span_id) == (f"push {queue}", SpanKind.PRODUCER, order.context.span_id)
    assert (handle.name, handle.kind) == (f"handle {queue}", SpanKind.CONSUMER)
    assert handle.parent.span_id == push.context.span_id
    assert {span.context.trace_id for span in spans()} == {order.context.trace_id}
    trace_id = str(UUID(int=order.context.trace_id))
    [(seen_id, headers)] = seen
    assert seen_id == trace_id
    assert headers["traceparent"].split("-")[1] == UUID(trace_id).hex
    assert [step.id for step in await queen.traces.follow(trace_id)] == [pushed.id]


async def test_what_a_handler_pushes_belongs_to_the_trace(queen, queue, spans):
    await queen.queue(queue).push(1)
    [first] = spans()
    stop = Stop()
    source, following = queen.queue(queue), f"{queue}-next"
    plain = getattr(queen, "thing", None)

    async def pass_on(message):
        await queen.queue(following).push(2)
        stop.set()

    def pass_on_blocking(message):
        plain.queue(following).push(2)
        stop.set()

    async with asyncio.timeout(SECONDS_MAX):
        await source.consume(pass_on if plain is None else pass_on_blocking, stop=stop)
    [message] = await queen.queue(following).pop()
    assert message.trace_id == str(UUID(int=first.context.trace_id))


async def test_a_batch_is_linked_to_its_pushes(queen, queue, spans):
    for n in range(2):
        await queen.queue(queue).push(n)
    stop = Stop()

    def handler(numbers: list[int]):
        stop.set()

    async with asyncio.timeout(SECONDS_MAX):
        await queen.queue(queue).batch(10).consume(handler, stop=stop)
    *pushes, handle = spans()
    assert [link.context.span_id for link in handle.links] == [push.context.span_id for push in pushes]
    assert handle.parent is None
    assert handle.attributes["messaging.batch.message_count"] == 2


async def test_a_failure_is_seen_in_the_span(queen, queue, spans):
    await queen.queue(queue).push(1)

    def fail(message):
        raise ValueError("no such customer")

    await handled(queen, queue, fail)
    handle = spans()[-1]
    assert (handle.status.status_code, handle.events[0].name) == (StatusCode.ERROR, "exception")
    assert handle.attributes["messaging.destination.partition.id"] == "Default"


async def test_what_was_given_is_kept(queen, queue, spans):
    given = "0190a3e4-0000-4000-8000-000000000001"
    await queen.queue(queue).push_many([Outgoing(1, trace_id=given, headers={"a": "b"}), 2])
    first, second = await queen.queue(queue).batch(2).pop()
    assert (first.trace_id, first.headers["a"]) == (given, "b")
    assert first.headers["traceparent"] == second.headers["traceparent"]
    assert second.trace_id == str(UUID(int=spans()[0].context.trace_id))


async def test_producers_and_transactions_carry_the_trace_too(queen, queue, spans, module_database):
    async with queen.producer() as producer:
        await producer.push(queue, 1)
    async with queen.transaction() as transaction:
        transaction.push(queue, 2)
    with psycopg.connect(module_database) as connection:
        await queen.push_in(connection, queue, 3)
    seen = []
    while len(seen) < 3:
        seen += await queen.queue(queue).batch(3).auto_ack().wait(SECONDS_MAX).pop()
    traces = [str(UUID(int=span.context.trace_id)) for span in spans()]
    assert [message.trace_id for message in seen] == traces
    assert all("traceparent" in message.headers for message in seen)


async def test_without_a_provider_messages_stay_as_they_are(queen, queue):
    await queen.queue(queue).push(1)
    [message] = await queen.queue(queue).pop()
    assert (message.trace_id, message.headers) == (None, {})


WITHOUT = """
import sys

class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("opentelemetry", "pydantic", "sqlalchemy", "psycopg"):
            raise AssertionError(f"{name} was imported")

sys.meta_path.insert(0, Forbidden())
from queenmq import Queen, Stop

stop = Stop()
with Queen(sys.argv[1]) as queen, queen.producer() as producer:
    producer.push(sys.argv[2], {"id": 1})
    producer.flush()
    def handler(payload: dict[str, int]):
        print(payload)
        stop.set()
    queen.queue(sys.argv[2]).consume(handler, stop=stop)
print([name for name in sys.modules if name.startswith(("opentelemetry", "pydantic"))])
"""


def test_nothing_is_imported_that_the_application_did_not_bring(address, queue):
    command = [sys.executable, "-W", "error", "-c", WITHOUT, address, queue]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX * 2, check=False)
    assert (done.stdout, done.returncode) == ("{'id': 1}\n[]\n", 0), done.stderr
