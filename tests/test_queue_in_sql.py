"""The driver of the SQL tests drives."""

import pytest

from queenmq.errors import LeaseGone, NotInLease
from tests.queue_in_sql import Clock, Queue

pytestmark = pytest.mark.every_postgres


@pytest.fixture
def queue(connection):
    return Queue(connection, Clock())


async def test_a_message_is_pushed_popped_and_acknowledged(queue):
    assert await queue.push("orders", "ann", 1, "two", None) == [0, 1, 2]
    [delivery] = await queue.pop("billing", "orders")
    assert (delivery.partition, delivery.values, delivery.offsets) == ("ann", [1, "two", None], [0, 1, 2])
    assert (await queue.ack(delivery)).released
    assert await queue.pop("billing", "orders") == []


async def test_a_repeated_id_answers_the_first_offset(queue):
    assert await queue.push("orders", "ann", 1, 2, ids=["a", "b"]) == [0, 1]
    assert await queue.push("orders", "ann", 3, 4, 5, ids=["b", "c", "c"]) == [1, 2, 2]


async def test_acks_outside_of_the_lease_are_told(queue):
    await queue.push("orders", "ann", 1, 2)
    [delivery] = await queue.pop("billing", "orders")
    with pytest.raises(NotInLease):
        await queue.ack(delivery, [7])
    queue.clock.advance(301)
    with pytest.raises(LeaseGone):
        await queue.ack(delivery)
    with pytest.raises(LeaseGone):
        await queue.renew(delivery)


async def test_acks_and_pushes_commit_together(queue):
    await queue.push("orders", "ann", 1)
    [delivery] = await queue.pop("billing", "orders")
    pushes = [("invoices", "ann", [10, 11], ["x", "x"])]
    assert await queue.transact([(delivery, delivery.offsets, "completed")], pushes) == [[0, 0]]
    [invoice] = await queue.pop("printing", "invoices")
    assert invoice.values == [10]
