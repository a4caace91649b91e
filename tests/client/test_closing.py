"""A blocking client that one thread closes while others are in the middle of something: nobody is left waiting."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from queenmq import Queen, Stop
from queenmq.errors import Closed, InvalidArgument
from tests.waits import until_now

SECONDS_MAX = 60


@pytest.fixture
def threads():
    with ThreadPoolExecutor(8) as pool:
        yield pool


@pytest.fixture
def client(address):
    with Queen(address) as queen:
        yield queen


def test_who_consumes_is_told(client, queue, threads):
    client.queue(queue).push(1)
    handled = threading.Event()
    consuming = threads.submit(client.queue(queue).consume, lambda _: handled.set(), concurrency=3)
    assert handled.wait(SECONDS_MAX)
    client.close()
    with pytest.raises(Closed):
        consuming.result(SECONDS_MAX)


def test_a_handler_at_work_is_waited_for_and_its_message_is_not_lost(client, queue, threads, address):
    client.queue(queue).push("precious")
    working, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def handler(_):
        working.set()
        go_on.wait(SECONDS_MAX)
        done.set()

    consuming = threads.submit(client.queue(queue).lease_seconds(1).consume, handler)
    assert working.wait(SECONDS_MAX)
    closing = threads.submit(client.close)
    until_now("the client is closing", lambda: _is_closed(client) or closing.done())
    assert not closing.done()
    go_on.set()
    closing.result(SECONDS_MAX)
    assert done.is_set()
    with pytest.raises(Closed):
        consuming.result(SECONDS_MAX)
    with Queen(address) as another:
        [message] = another.queue(queue).wait(SECONDS_MAX).pop()
        assert message.payload == "precious"


def test_a_handler_cannot_close_what_waits_for_it(client, queue):
    client.queue(queue).push(1)
    stop, told = Stop(), []

    def handler(_):
        try:
            client.close()
        except InvalidArgument as error:
            told.append(error.message)
        stop.set()

    client.queue(queue).consume(handler, stop=stop)
    assert "set a Stop" in told[0]
    assert client.queue(queue).pop() == []


def test_who_waits_for_a_message_is_told(client, queue, threads):
    client.queue(queue).push(1)
    source = client.queue(queue).auto_ack().wait(SECONDS_MAX)
    assert len(source.pop()) == 1
    popping = [threads.submit(source.pop) for _ in range(3)]
    tailing = threads.submit(list, client.queue(queue).tail())
    client.close()
    for each in popping:
        with contextlib.suppress(Closed):  # or the engine answers all who wait before it goes: there was nothing
            assert each.result(SECONDS_MAX) == []
    with pytest.raises(Closed):
        tailing.result(SECONDS_MAX)


def test_every_push_is_answered_or_refused(client, queue, threads, address):
    begun = threading.Event()

    def push():
        stored = count()
        with contextlib.suppress(Closed):
            while True:
                client.queue(queue).push(1)
                next(stored)
                begun.set()
        return next(stored)

    pushing = [threads.submit(push) for _ in range(4)]
    assert begun.wait(SECONDS_MAX)
    client.close()
    stored = sum(each.result(SECONDS_MAX) for each in pushing)
    with Queen(address) as another:
        assert len(another.queue(queue).batch(10_000).pop()) >= stored


def test_what_a_producer_had_not_delivered_is_told(client, queue, threads):
    client.admin.configure(queue, max_queue_size=1)
    reports = []
    patient = client.producer(linger_seconds=SECONDS_MAX, on_delivery=reports.append).__enter__()
    lingering = patient.push(f"{queue}-other", 3)
    producer = client.producer(linger_seconds=0).__enter__()
    stored, kept = producer.push(queue, 1), producer.push(queue, 2)
    assert stored.delivered().status == "queued"
    waiting = threads.submit(kept.delivered)
    client.close()
    with pytest.raises(Closed):
        waiting.result(SECONDS_MAX)
    assert [type(report.outcome) for report in reports] == [Closed]
    for too_late in (lingering.delivered, producer.flush, client.ping, lambda: producer.__exit__(None, None, None)):
        with pytest.raises(Closed):
            too_late()


def _is_closed(client: Queen) -> bool:
    try:
        client.ping()
    except Closed:
        return True
    return False
