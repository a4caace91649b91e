"""What programs print and log says which queue, partition and message it is about, and never a password."""

import asyncio
import logging
import re

import msgspec
import pytest

from queenmq import AsyncQueen, Queen, Stop
from queenmq.client.calls import Pop
from queenmq.model import PopRequest

SECONDS_MAX = 60


def plain(thing) -> str:
    """A repr as both skins have it."""
    return re.sub(r"^awaited ", "", repr(thing)).replace("<Async", "<")


async def test_a_message_shows_queue_partition_offset_attempt_and_payload(queen, queue):
    await queen.admin.configure(queue, retry_delay_ms=0)
    await queen.queue(queue).partition("ann").push_many([1, {"text": "x" * 100}])
    [first, message] = await queen.queue(queue).batch(2).pop()
    await queen.ack(first)
    await queen.ack(message, "failed")
    [message] = await queen.queue(queue).batch(2).pop()
    shown = f"<Message queue={queue!r} partition='ann' offset=1 attempt=2: "
    assert plain(message) == shown + '{"text":"' + "x" * 51 + "…>"
    assert message.attempt == 2


async def test_what_was_read_and_dead_letters_show_the_same(queen, queue):
    await queen.queue(queue).partition("ann").push({"n": 1})
    place = f"queue={queue!r} partition='ann' offset=0"
    records = [record async for record in queen.queue(queue).read()]
    assert plain(records[0]) == f"<Record {place}: " + '{"n":1}>'
    [stored] = (await queen.messages.list(queue=queue)).messages
    assert plain(stored) == f"<StoredMessage {place}: " + '{"n":1}>'
    [delivery] = await queen.call(Pop(PopRequest(queue=queue)))
    assert plain(delivery) == f"<Delivery {place} attempt=1: " + '{"n":1}>'


async def test_what_describes_a_call_shows_what_was_said_of_it(queen, queue):
    source = queen.queue("orders").partition("ann").group("bills").batch(10).wait(5)
    assert plain(source) == "<Queue queue='orders' partition='ann' group='bills' batch=10 wait_seconds=5>"
    assert plain(queen.namespace("shop").task("mail")) == "<Source namespace='shop' task='mail'>"
    assert plain(queen.queue("orders").tail()) == "<Tail queue='orders' partition=None start='end'>"
    assert plain(queen.queue("orders").read()) == "<Reading queue='orders' partition=None since=None until=None>"
    transaction = queen.transaction()
    transaction.push(queue, 1)
    assert plain(transaction) == "<Transaction not committed: 0 acks, 1 messages>"
    await transaction.commit()
    assert plain(transaction) == "<Transaction committed: 0 acks, 1 messages>"


async def test_a_producer_shows_what_it_has_to_send(queen, queue):
    producer = queen.producer(linger_seconds=3_600)
    assert plain(producer) == "<Producer not started, 0 messages to send>"
    async with producer:
        receipt = await producer.push(queue, 1)
        assert plain(producer) == "<Producer open, 1 messages to send>"
        assert plain(receipt) == "<Receipt not delivered yet>"
    assert plain(producer) == "<Producer closed, 0 messages to send>"
    assert plain(receipt).startswith("<Receipt Pushed(status='queued'")


@pytest.mark.parametrize("kind", [Queen, AsyncQueen])
async def test_a_client_shows_its_address_without_the_password(kind):
    queen = kind("postgresql://ann:secret@localhost/app?sslpassword=geheim")
    shown = f"<{kind.__name__} at postgresql://ann:***@localhost/app?sslpassword=***>"
    assert repr(queen) == shown
    for part in ("admin", "groups", "messages", "dead_letters", "traces"):
        assert repr(getattr(queen, part)).endswith(f" of {shown}>")
    closing = queen.close()
    if closing is not None:
        await closing


async def failing(queen, queue, handler, **words):
    """Consume until the handler has set its stop; what it raises is in the log."""
    async with asyncio.timeout(SECONDS_MAX):
        await queen.queue(queue).consume(handler, **words)


async def test_a_failed_handler_is_logged_with_its_message(queen, queue, caplog):
    await queen.queue(queue).partition("ann").push(1)
    stop = Stop()

    def handler(message):
        stop.set()
        raise ValueError("broken")

    await failing(queen, queue, handler, stop=stop)
    [line] = [record for record in caplog.records if record.name == "queenmq.client.consumer"]
    assert line.getMessage() == f"a handler failed: queue {queue}, partition ann, offset 0, attempt 1"
    assert (line.queue, line.partition, line.offset, line.attempt) == (queue, "ann", 0, 1)


class Order(msgspec.Struct):
    id: int


async def test_a_payload_that_does_not_fit_is_logged_with_its_message(queen, queue, caplog):
    await queen.queue(queue).push_many(["no order", {"id": 1}])
    stop = Stop()

    def handler(order: Order):
        stop.set()

    await failing(queen, queue, handler, stop=stop)
    [line] = [record for record in caplog.records if record.name == "queenmq.client.consumer"]
    where = f"queue {queue}, partition Default, offset 0, attempt 1"
    assert line.getMessage().startswith(f"a payload does not fit: {where}: the payload is not a Order")
    assert (line.queue, line.offset, line.attempt) == (queue, 0, 1)


async def test_a_lost_lease_is_logged_with_its_first_message(address, queue, caplog):
    async with AsyncQueen(address) as queen:
        await queen.queue(queue).push(1)
        stop = Stop()

        async def handler(message):
            stop.set()
            await queen.groups.seek("g", queue, to="end")  # which ends the lease

        async with asyncio.timeout(SECONDS_MAX):
            await queen.queue(queue).group("g").consume(handler, stop=stop)
    [line] = [record for record in caplog.records if record.name == "queenmq.client.lease"]
    where = f"queue {queue}, partition Default, offset 0, attempt 1"
    assert line.getMessage() == (
        f"a lease was lost, its messages are delivered again: lease {line.lease}, whose first message is {where}"
    )
    assert (line.queue, line.partition, line.offset, line.attempt) == (queue, "Default", 0, 1)


async def test_a_message_that_a_producer_could_not_store_is_logged(queen, queue, caplog):
    async with queen.producer() as producer:
        await producer.push(queue, 1, partition="x" * 300, transaction_id="one")
    [line] = [record for record in caplog.records if record.levelno == logging.ERROR]
    start = f"a message was not stored: queue {queue}, partition {'x' * 300}, transaction id one: "
    assert line.getMessage().startswith(start)
    assert (line.queue, line.transaction_id) == (queue, "one")
