"""Consume: the same over every transport and in both skins. Handlers are plain functions, which both take."""

import asyncio
import threading
from dataclasses import dataclass

import msgspec
import pydantic
import pytest

from queenmq import GiveUp, Stop
from queenmq.api.diagnosis import Why
from queenmq.errors import InvalidArgument, InvalidName

SECONDS_MAX = 60


class Order(msgspec.Struct):
    id: int


@dataclass
class OrderData:
    id: int


class OrderModel(pydantic.BaseModel):
    id: int


class Seen:
    """What a handler was given; tells the consumer to stop when it was enough."""

    def __init__(self, enough: int) -> None:
        self.stop = Stop()
        self.things: list = []
        self._enough = enough

    def add(self, thing: object) -> None:
        self.things.append(thing)
        if len(self.things) >= self._enough:
            self.stop.set()


def in_lists(seen):
    """A handler that takes lists of numbers."""

    def handler(numbers: list[int]):
        seen.add(numbers)

    return handler


async def consume(source, handler, seen, **options):
    async with asyncio.timeout(SECONDS_MAX):
        await source.consume(handler, stop=seen.stop, **options)


async def test_what_is_handled_is_acknowledged(queen, queue):
    await queen.queue(queue).push_many([1, 2, 3])
    seen = Seen(enough=3)
    await consume(queen.queue(queue).group("g").batch(2), lambda message: seen.add(message.payload), seen)
    assert seen.things == [1, 2, 3]
    assert await queen.queue(queue).group("g").pop() == []


async def test_a_decorator_makes_consumers_that_run_together(queen, queue):
    seen = Seen(enough=4)

    @queen.consumer(queue, group="bills", batch=10)
    def bill(message):
        seen.add(("bill", message.payload))

    @queen.consumer(queue, group="letters", concurrency=2)
    def write(message):
        seen.add(("write", message.payload))

    await queen.queue(queue).push_many([1, 2])
    async with asyncio.timeout(SECONDS_MAX):
        await queen.run(stop=seen.stop)
    assert sorted(seen.things) == [("bill", 1), ("bill", 2), ("write", 1), ("write", 2)]


async def test_a_failed_message_comes_again_and_those_behind_it_wait(queen, queue):
    await queen.admin.configure(queue, retry_delay_ms=0)
    await queen.queue(queue).partition("p").push_many([1, 2, 3])
    seen = Seen(enough=4)

    def handler(message):
        seen.add((message.payload, message.retry_count))
        if (message.payload, message.retry_count) == (2, 0):
            raise ValueError("not yet")

    await consume(queen.queue(queue).batch(10), handler, seen)
    assert seen.things == [(1, 0), (2, 0), (2, 1), (3, 0)]
    assert await queen.queue(queue).pop() == []


async def test_other_partitions_go_on_when_one_fails(queen, queue):
    for partition in ("a", "b", "c"):
        await queen.queue(queue).partition(partition).push_many([1, 2])
    seen = Seen(enough=5)

    def handler(message):
        seen.add((message.partition, message.payload))
        if message.partition == "b":
            raise ValueError("b is broken")

    await consume(queen.queue(queue).batch(10).max_partitions(3), handler, seen)  # all three under one lease
    assert sorted(seen.things) == [("a", 1), ("a", 2), ("b", 1), ("c", 1), ("c", 2)]
    reasons = {reason.partition: (reason.failures, reason.messages) for reason in await queen.call(Why(queue))}
    assert reasons["b"] == (1, 2)


async def test_the_error_is_told_when_a_message_failed_too_often(queen, queue):
    await queen.admin.configure(queue, retry_delay_ms=0, retry_limit=1)
    await queen.queue(queue).push_many(["bad", "good"])
    seen = Seen(enough=3)

    def handler(message):
        seen.add(message.payload)
        if message.payload == "bad":
            raise ValueError("no such customer")

    await consume(queen.queue(queue).batch(10), handler, seen)
    assert seen.things == ["bad", "bad", "good"]
    [letter] = (await queen.dead_letters.list(queue=queue)).dead_letters
    assert (letter.payload, letter.error, letter.retry_count) == ("bad", "ValueError: no such customer", 1)


async def test_a_handler_can_give_a_message_up(queen, queue):
    await queen.queue(queue).push_many([1, 2])
    seen = Seen(enough=2)

    def handler(message):
        seen.add(message.payload)
        if message.payload == 1:
            raise GiveUp("one is too few")

    await consume(queen.queue(queue).batch(10), handler, seen)
    assert seen.things == [1, 2]
    [letter] = (await queen.dead_letters.list(queue=queue)).dead_letters
    assert (letter.payload, letter.error, letter.retry_count) == (1, "one is too few", 0)


@pytest.mark.parametrize("kind", [Order, OrderData, OrderModel])
async def test_a_payload_is_decoded_as_its_annotation_says(queen, queue, kind):
    await queen.queue(queue).push_many([{"id": 1}, {"id": "two"}, {"id": 3}])
    seen = Seen(enough=2)

    def handler(order: kind):
        seen.add(order)

    await consume(queen.queue(queue).batch(10), handler, seen)
    assert seen.things == [kind(id=1), kind(id=3)]
    [letter] = (await queen.dead_letters.list(queue=queue)).dead_letters
    assert letter.payload == {"id": "two"}
    assert f"the payload is not a {kind.__name__}" in letter.error


async def test_a_list_is_a_batch(queen, queue):
    await queen.queue(queue).push_many([{"id": 1}, {}, {"id": 3}])
    seen = Seen(enough=1)

    def handler(orders: list[Order]):
        seen.add([order.id for order in orders])

    await consume(queen.queue(queue).batch(10), handler, seen)
    assert seen.things == [[1, 3]]
    assert await queen.queue(queue).pop() == []
    assert (await queen.dead_letters.list(queue=queue)).total == 1


async def test_a_list_has_messages_of_several_partitions(queen, queue):
    for partition in ("a", "b"):
        await queen.queue(queue).partition(partition).push_many([1, 2])
    seen = Seen(enough=1)

    def handler(messages: list):
        seen.add(sorted((message.partition, message.payload) for message in messages))

    await consume(queen.queue(queue).batch(10), handler, seen)
    assert seen.things == [[("a", 1), ("a", 2), ("b", 1), ("b", 2)]]
    assert await queen.queue(queue).pop() == []


async def test_a_list_has_messages_of_at_most_so_many_partitions(queen, queue):
    for partition in ("a", "b"):
        await queen.queue(queue).partition(partition).push_many([1, 2])
    seen = Seen(enough=2)
    await consume(queen.queue(queue).batch(10).max_partitions(1), in_lists(seen), seen)
    assert seen.things == [[1, 2], [1, 2]]


async def test_a_list_of_several_partitions_fails_as_a_whole(queen, queue):
    await queen.admin.configure(queue, retry_delay_ms=0)
    for partition in ("a", "b"):
        await queen.queue(queue).partition(partition).push(1)
    seen = Seen(enough=2)

    def handler(messages: list):
        seen.add([(message.payload, message.retry_count) for message in messages])
        if len(seen.things) == 1:
            raise ValueError("once more")

    await consume(queen.queue(queue).batch(10), handler, seen)
    assert seen.things == [[(1, 0), (1, 0)], [(1, 1), (1, 1)]]
    assert await queen.queue(queue).pop() == []


async def test_on_ack_is_called_with_the_answer_to_each_ack(queen, queue):
    await queen.admin.configure(queue, retry_limit=0)
    await queen.queue(queue).push_many([1, 2, 3])
    seen, told = Seen(enough=2), []

    def handler(message):
        seen.add(message.payload)
        if message.payload == 2:
            raise ValueError("two is one too many")

    def on_ack(message, status, acked):
        told.append((message.payload, status, acked.success, acked.dead_lettered))
        raise ValueError("which is logged, and changes nothing")

    await consume(queen.queue(queue).batch(10), handler, seen, on_ack=on_ack)
    assert told == [(1, "completed", True, False), (2, "failed", True, True), (3, "retry", True, False)]


async def test_without_an_ack_there_is_nothing_to_tell(queen, queue):
    with pytest.raises(InvalidArgument, match="on_ack"):
        await queen.queue(queue).auto_ack().consume(print, on_ack=print)


async def test_a_batch_that_fails_comes_again_as_a_whole(queen, queue):
    await queen.admin.configure(queue, retry_delay_ms=0)
    await queen.queue(queue).push_many([1, 2])
    seen = Seen(enough=2)

    def handler(numbers: list[int]):
        seen.add(numbers)
        if len(seen.things) == 1:
            raise ValueError("once more")

    await consume(queen.queue(queue).batch(10), handler, seen)
    assert seen.things == [[1, 2], [1, 2]]
    assert await queen.queue(queue).pop() == []


async def test_partitions_are_handled_at_the_same_time(queen, queue):
    for partition in ("a", "b", "c"):
        await queen.queue(queue).partition(partition).push(partition)
    seen = Seen(enough=3)
    together = threading.Barrier(3, timeout=SECONDS_MAX)

    def handler(message):
        together.wait()
        seen.add(message.payload)

    await consume(queen.queue(queue), handler, seen, concurrency=3)
    assert sorted(seen.things) == ["a", "b", "c"]


async def test_what_was_not_begun_is_given_back_at_the_end(queen, queue):
    await queen.queue(queue).push_many([1, 2, 3])
    seen = Seen(enough=1)
    await consume(queen.queue(queue).batch(10), lambda message: seen.add(message.payload), seen)
    assert seen.things == [1]
    messages = await queen.queue(queue).batch(10).pop()
    assert [(message.payload, message.retry_count) for message in messages] == [(2, 0), (3, 0)]


async def test_at_most_once_does_not_repeat_what_failed(queen, queue):
    await queen.queue(queue).push_many([1, 2])
    seen = Seen(enough=2)

    def handler(message):
        seen.add(message.payload)
        raise ValueError("never mind")

    await consume(queen.queue(queue).auto_ack(), handler, seen)
    assert seen.things == [1, 2]


async def test_what_waiting_cannot_cure_is_raised(queen):
    with pytest.raises(InvalidName):
        await queen.queue("x" * 300).consume(print, stop=Stop())


def nothing(): ...


def two(order: Order, other: str): ...


def unknown(order: "Nobody"): ...  # noqa: F821 (that is the point)


def ambiguous(order: Order | dict): ...  # JSON does not say which of them an object is


@pytest.mark.parametrize("handler", [nothing, two, unknown, ambiguous])
async def test_a_handler_with_the_wrong_parameters_is_refused(queen, queue, handler):
    with pytest.raises(InvalidArgument, match=handler.__name__):
        await queen.queue(queue).consume(handler)


@pytest.mark.parametrize("concurrency", [0, 1_001])
async def test_concurrency_has_limits(queen, queue, concurrency):
    with pytest.raises(InvalidArgument, match="between 1 and 1000"):
        await queen.queue(queue).consume(print, concurrency=concurrency)


async def test_there_must_be_something_to_run(queen):
    with pytest.raises(InvalidArgument, match="nothing to run"):
        await queen.run()
