"""The functions belong to READ COMMITTED: at a stricter level a call that came late fails, and changes nothing."""

import pytest

from queenmq.errors import Busy

pytestmark = pytest.mark.every_postgres

LEVELS = pytest.mark.parametrize("level", ["repeatable_read", "serializable"])


@pytest.fixture
async def early(another):
    """A client whose transaction begins, and takes its snapshot, when it is told: `await early(level)`."""
    clients = []

    async def begin(level):
        client = await another()
        transaction = client.connection.transaction(isolation=level)
        await transaction.start()
        await client.connection.fetch("select from queen.queues")
        clients.append(transaction)
        return client

    yield begin
    for transaction in clients:
        await transaction.rollback()


@LEVELS
async def test_a_push_to_a_partition_that_was_written_since_the_snapshot_fails(queue, early, level):
    await queue.push("orders", "ann", 1)
    client = await early(level)
    await queue.push("orders", "ann", 2)
    with pytest.raises(Busy, match="could not serialize access"):
        await client.push("orders", "ann", 3)


@LEVELS
async def test_an_ack_of_a_lease_that_was_renewed_since_the_snapshot_fails(queue, early, level):
    await queue.push("orders", "ann", 1)
    [delivery] = await queue.pop("g", "orders")
    client = await early(level)
    await queue.renew(delivery)
    with pytest.raises(Busy, match="could not serialize access"):
        await client.ack(delivery)


@LEVELS
async def test_a_pop_of_a_partition_that_was_popped_since_the_snapshot_fails(queue, early, level):
    await queue.push("orders", "ann", 1)
    [delivery] = await queue.pop("g", "orders")
    await queue.ack(delivery)
    await queue.push("orders", "ann", 2)
    client = await early(level)
    [delivery] = await queue.pop("g", "orders")
    with pytest.raises(Busy, match="could not serialize access"):
        await client.pop("g", "orders")


@LEVELS
async def test_a_call_that_meets_nobody_works_at_every_level(another, level):
    client = await another()
    async with client.connection.transaction(isolation=level):
        await client.push("orders", "ann", 1)
        [delivery] = await client.pop("g", "orders")
        assert (await client.ack(delivery)).released
